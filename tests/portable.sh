#!/usr/bin/env bash
# Shows what can be shown here of macOS and the BSDs: compiles the program for those whose
# std rustup has installed, and runs the core of the live tests with a program that takes
# the way that it takes there, without /proc, pidfds and inotify (build.rs).
#
#   tests/portable.sh [FILTER...]
#
# FILTER  run these tests instead, by parts of their names
#
# It is not part of tests/run.sh, because it builds the program again. Run it after a
# change to what only Linux offers.
set -euo pipefail

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }
case ${1:-} in -h | --help) usage && exit ;; esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# The live tests of what has to be the same everywhere.
core=(
    events:: launching:: session:: waits:: endings:: restarts:: requests:: reruns:: runs::
    daemon:: followed:: history:: slots:: stopping:: crashes:: respawns:: hooks:: shells::
)
# What is different there: docs/platforms.md.
absent=(
    # The launcher's shell does not wait for its command's children, and goes on with its line.
    endings::the_child_of_a_script_is_not_hung_up_on_while_it_stops
    endings::a_line_is_over_when_it_is_ended_whatever_traps_it_has
    # Nothing shows the pane of a process that has left its session and its parents.
    endings::what_is_started_while_a_run_ends_is_ended_with_it
    # Nor the command lines of clients: tmux sets its title on the BSDs.
    crashes::a_server_that_waits_for_a_client_of_a_killed_daemon_is_not_in_the_way
    prompts_live::
)
[ $# -eq 0 ] || core=("$@") absent=()

# The webhooks and the broker need a C compiler for the other system.
for triple in x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd; do
    [ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ] || continue
    echo "=== cargo check for $triple"
    cargo check --locked --target "$triple" --no-default-features --features notice,mcp,panel
done

echo '=== build without what only Linux offers'
# Any wrapper: cargo keeps what it compiles apart from what it compiles without.
TMUX_TASK_PORTABLE=1 RUSTC_WORKSPACE_WRAPPER=env cargo build --locked --bin tmux-task
mkdir -p "$target/portable"
cp "$target/debug/tmux-task" "$target/portable/tmux-task"

echo '=== live tests with it'
skipped=()
for name in "${absent[@]}"; do skipped+=(--skip "$name"); done
TMUX_TASK_TEST_PROGRAM=$target/portable/tmux-task \
    cargo test --locked --test it -- "${skipped[@]}" "${core[@]}"
