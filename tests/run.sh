#!/usr/bin/env bash
# Runs every check of the project, the same locally as in CI. Needs only a minimal
# Debian with the Rust toolchain.
#
#   tests/run.sh [--install]
#
# --install  install missing packages with sudo; root always installs them
#
# The tests write to target/ and to a temporary directory that is removed at the end.
# They do not use the caller's tmux, session variables or XDG folders.
set -euo pipefail

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

install=no
for word in "$@"; do
    case $word in
        --install) install=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            echo "tests/run.sh: unknown option \`$word\`" >&2
            echo 'hint: tests/run.sh [--install]' >&2
            exit 2
            ;;
    esac
done

# If stdin is closed, some tools get its number for one of their files.
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
# shellcheck source=tests/needs.sh
. tests/needs.sh
# shellcheck source=tests/world.sh
. tests/world.sh

began=$SECONDS
need_rust
need tmux tmux
need git git ca-certificates
need shellcheck shellcheck
need python3 python3
# For the environment of the MCP client.
python3 -c 'import ensurepip' 2>/dev/null || need 'no such program' python3-venv
# Programs that ask, for the tests of prompts.
need ssh-keygen openssh-client
# The other machine of tests/it/hosts.rs.
need /usr/sbin/sshd openssh-server
need less less
need vim vim-tiny
need whiptail whiptail
need fzf fzf
need npm npm
need top procps
need make make
need curl curl
need jq jq
need sudo sudo
# These are not to be had for a Mac: there, the tests that need them fail.
if [ "$(uname -s)" = Linux ]; then
    need dbus-daemon dbus
    need dbus-run-session dbus
    need dunst dunst
    need Xvfb xvfb
    need gdb gdb
fi
need_linker
install_missing "$install"
need_broker

# --- a private environment -----------------------------------------------------

step_pid=''
# The steps that run in the background: process ids, titles and start times.
beside_pids=() beside_titles=() beside_starts=()
# Each step is a separate process group, so that it can be ended as a whole.
stop_step() {
    if [ -n "$1" ]; then
        kill -TERM -- "-$1" 2>/dev/null || true
        wait "$1" || true
    fi
}
stop() {
    local pid
    stop_step "$step_pid"
    for pid in "${beside_pids[@]}"; do stop_step "$pid"; done
    exit "$1"
}

make_world
trap end_world EXIT
trap 'stop 130' INT
trap 'stop 143' TERM
trap 'stop 129' HUP

# --- the steps -----------------------------------------------------------------

# step TITLE COMMAND...
step() {
    local title=$1 code=0 start=$SECONDS
    shift
    printf '\n=== %s\n' "$title"
    set -m
    "$@" &
    step_pid=$!
    set +m
    wait "$step_pid" || code=$?
    step_pid=''
    report "$title" "$code" "$((SECONDS - start))"
}

# beside TITLE COMMAND...: starts a step that mostly waits. It runs in parallel to the
# steps after it until join_beside prints its output.
beside() {
    local n=${#beside_pids[@]}
    beside_titles+=("$1")
    beside_starts+=("$SECONDS")
    shift
    set -m
    "$@" >"$world/beside-$n" 2>&1 &
    beside_pids+=("$!")
    set +m
}

# until_beside_shows TEXT: waits until the background step that was started last has
# printed TEXT, or has ended.
until_beside_shows() {
    local n=$((${#beside_pids[@]} - 1))
    until grep -q -e "$1" "$world/beside-$n" || ! kill -0 "${beside_pids[n]}" 2>/dev/null; do
        sleep 0.1
    done
}

# join_beside: waits for all background steps, in their order.
join_beside() {
    local n code pid
    for n in "${!beside_pids[@]}"; do
        code=0
        pid=${beside_pids[n]}
        wait "$pid" || code=$?
        beside_pids[n]=''
        printf '\n=== %s\n' "${beside_titles[n]}"
        cat "$world/beside-$n"
        report "${beside_titles[n]}" "$code" "$((SECONDS - beside_starts[n]))"
    done
}

# report TITLE CODE SECONDS: ends everything unless the code is 0.
report() {
    if [ "$2" -ne 0 ]; then
        printf '\nFAILED: %s (code %d, after %d s)\n' "$1" "$2" "$((SECONDS - began))"
        stop "$2"
    fi
    printf -- '--- %d s\n' "$3"
}

# Every shell file, by name or by first line: files that git tracks or would add,
# or all files if this is not a work tree.
shell_files() {
    local file first
    while IFS= read -r -d '' file; do
        [ -f "$file" ] || continue
        case $file in
            *.sh)
                printf '%s\0' "$file"
                continue
                ;;
        esac
        first=''
        IFS= read -r first <"$file" || true
        case $first in
            '#!'*bash* | '#!'*/sh*) printf '%s\0' "$file" ;;
        esac
    done < <(git -c safe.directory="$root" ls-files -z --cached --others --exclude-standard 2>/dev/null ||
        find . \( -path ./target -o -path ./.git \) -prune -o -type f -print0)
}

lint_shell() {
    local files=() file
    while IFS= read -r -d '' file; do files+=("$file"); done < <(shell_files)
    printf '%s\n' "${files[@]}"
    shellcheck --external-sources "${files[@]}"
}

# with_clippy COMMAND...: runs cargo with clippy as the compiler of our own crate.
with_clippy() {
    env RUSTC_WORKSPACE_WRAPPER="$root/tests/compiler.sh" \
        CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ "$@"
}

# Where nothing was built before, what only makes a second build faster is left out.
if [ ! -d "${CARGO_TARGET_DIR:-target}/debug" ]; then
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none
fi

step 'format: cargo fmt --check' \
    cargo fmt --check
step 'build and lint: cargo test, with clippy' \
    with_clippy cargo test --no-run --all-targets --features fleet,webhook
# More live tests than cores run at once. They mostly wait, so rustdoc runs in parallel.
beside 'tests: cargo test' \
    with_clippy env RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(getconf _NPROCESSORS_ONLN) * 3))}" \
    cargo test --lib --bins --tests --features fleet,webhook
# Until then, cargo blocks other builds.
until_beside_shows '     Running '
beside "MCP: Python's client" \
    tests/mcp/run.sh "${CARGO_TARGET_DIR:-target}/debug/tmux-task"
step 'documentation and its tests: cargo test --doc, with the lints of rustdoc' \
    with_clippy env RUSTDOC="$root/tests/rustdoc.sh" nice cargo test --doc --features fleet,webhook
step 'lint: shellcheck' \
    lint_shell
step 'packaging: versions, packages, rules, workflows' \
    tests/packaging.sh
join_beside

printf '\nall good, after %d s\n' "$((SECONDS - began))"
