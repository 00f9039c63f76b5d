#!/usr/bin/env bash
# Repeatedly reruns tasks that flood their pane, and counts the tmux servers that
# crash: up to tmux 3.7c, a respawn can crash the server with all its sessions if a
# control client is attached.
#
#   tests/storms/respawn.sh [N] [TMUX...]
#
# N     reruns of each story (20)
# TMUX  tmux programs to try (the one on PATH)
#
# Uses target/release/tmux-task, else target/debug/tmux-task, or $TMUX_TASK_PROGRAM.
# It takes minutes and is not part of tests/run.sh. Exits 1 if a launch by tmux-task
# or a respawn by hand of a pane without a follower crashes a server, and 2 if the
# program or tmux does not run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=tests/world.sh
. "$root/tests/world.sh"

reruns=${1:-20}
if [ $# -gt 0 ]; then shift; fi
if [ $# -eq 0 ]; then set -- tmux; fi
if [ -n "${TMUX_TASK_PROGRAM:-}" ]; then
    program=$TMUX_TASK_PROGRAM
else
    program=$root/target/release/tmux-task
    [ -x "$program" ] || program=$root/target/debug/tmux-task
    [ -x "$program" ] || { echo "error: build first: cargo build --release" >&2; exit 2; }
fi
"$program" --version >/dev/null || { echo "error: $program does not run" >&2; exit 2; }
for tmux in "$@"; do
    "$tmux" -V >/dev/null || { echo "error: $tmux does not run" >&2; exit 2; }
done

readonly flood="seq -f 'line %.0f of a long history, as wide as such lines are wont to be' 45000"
died=0

make_world
trap end_world EXIT
# Login shells read nothing of the user's.
export HOME=$world/data TMUX_TASK_SESSION=storm

tmux_() { command "$TMUX_TASK_TMUX" "$@"; }
task() { "$program" "$@" >/dev/null 2>&1 || true; }
helper() { TMUX_TASK_PROGRAM=$program "$root/hooks/tmux-task-run.sh" "$@" >/dev/null 2>&1 || true; }
server_pid() { tmux_ display-message -p '#{pid}' 2>/dev/null || true; }

# story NAME MUST COMMAND...: runs COMMAND as often as asked, on a server with a
# daemon, and counts how often the server is another one afterwards.
story() {
    local name=$1 must=$2 lost=0 round before
    shift 2
    fresh
    for ((round = 0; round < reruns; round++)); do
        before=$(server_pid)
        "$@" || true
        if [ -z "$before" ] || [ "$(server_pid)" != "$before" ]; then
            lost=$((lost + 1))
            fresh
        fi
    done
    task daemon stop
    tmux_ kill-server 2>/dev/null || true
    printf '%s: %s: %d of %d servers died\n' "$(tmux_ -V)" "$name" "$lost" "$reruns"
    if [ "$must" = must ]; then died=$((died + lost)); fi
}

# A new server with a daemon and a session that has another window.
fresh() {
    task daemon stop
    tmux_ kill-server 2>/dev/null || true
    tmux_ -f /dev/null new-session -d -s other 'sleep 1000'
    # Where nothing is launched, no server can die of it.
    if ! "$program" run keep -- 'sleep 1000' >/dev/null ||
        ! "$program" run big -- "$flood; sleep 1000" >/dev/null; then
        echo "error: $program launches no tasks" >&2
        exit 2
    fi
}

twice() { "$@" & "$@"; wait $!; }
live_by_program() { twice task run big -- "$flood; sleep 1000"; }
live_by_script() { twice helper big -- "$flood; sleep 1000"; }
followed_by_program() {
    "$program" wait big --text never --timeout 5s >/dev/null 2>&1 &
    task run big -- "$flood; sleep 1000"
    task run big -- "$flood; sleep 1000"
    wait $!
}
followed_by_script() {
    "$program" logs -f big >/dev/null 2>&1 &
    helper big -- "$flood; sleep 1000"
    helper big -- "$flood; sleep 1000"
    kill $! 2>/dev/null || true
    wait $!
}
by_hand() {
    tmux_ respawn-window -k -t storm:big "$flood; sleep 1000" 2>/dev/null
    tmux_ respawn-window -k -t storm:big "$flood; sleep 1000" 2>/dev/null
}
by_hand_followed() {
    "$program" wait big --text never --timeout 5s >/dev/null 2>&1 &
    # The daemon follows the pane only once it has taken up the wait.
    until "$program" daemon status --json | grep -q '"waits":1' || ! kill -0 $!; do :; done
    by_hand
    by_hand
    wait $!
}
until_word() { task run lw --until LASTWORD --timeout 20s -- 'seq 1 60000; echo LASTWORD'; }
until_word_long() { task run lw --until LASTWORD --timeout 20s -- 'seq 1 300000; echo LASTWORD'; }
wait_for_end() { task run lw --wait --timeout 20s -- 'seq 1 100000'; }
as_json() { task run lw --json -- 'seq 1 60000'; }
logs() { task run lw -- 'seq 1 60000; sleep 0.2'; task logs -f lw; }

for TMUX_TASK_TMUX in "$@"; do
    TMUX_TASK_TMUX=$(type -P "$TMUX_TASK_TMUX")
    export TMUX_TASK_TMUX
    story 'a live flood, run twice at once by the program' must live_by_program
    story 'a live flood, run twice at once by the script' must live_by_script
    story 'a flood that a wait follows, by the program' must followed_by_program
    story 'a flood that logs -f follows, by the script' must followed_by_script
    story 'a flood respawned by hand, followed by nobody' must by_hand
    story 'run --until of 60000 lines' must until_word
    story 'run --until of 300000 lines' must until_word_long
    story 'run --wait of 100000 lines' must wait_for_end
    story 'run --json of 60000 lines' must as_json
    story 'logs -f of 60000 lines' must logs
    story 'a flood respawned by hand that a wait follows (known, tmux before 3.8)' known by_hand_followed
done
if [ "$died" -gt 0 ]; then
    echo "FAILED: $died servers died"
    exit 1
fi
