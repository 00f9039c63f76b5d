#!/usr/bin/env bash
# Shows what tmux-task is for, live, in under two minutes after the build.
#
#   docs/quickstart.sh [--debug] [--install]
#
# --debug    build quickly instead of building a fast program
# --install  install missing packages with sudo (root needs no telling)
#
# Works on a bare Debian with the Rust toolchain. It uses a tmux server and
# folders of its own and removes them; only target/ stays.
set -euo pipefail

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

# Seconds that the tour may take once the program is built, and that one event of
# it may.
readonly DEADLINE=100 EVENT_DEADLINE=20

install=no
profile=release
for word in "$@"; do
    case $word in
        --install) install=yes ;;
        --debug) profile=debug ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            echo "docs/quickstart.sh: unknown option \`$word\`" >&2
            echo 'hint: docs/quickstart.sh [--debug] [--install]' >&2
            exit 2
            ;;
    esac
done
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
# shellcheck source=tests/needs.sh
. tests/needs.sh
# shellcheck source=tests/world.sh
. tests/world.sh

need_rust
need tmux tmux
need jq jq
need_linker
install_missing "$install"

echo "Building the program ($profile) ..."
if [ "$profile" = release ]; then cargo build --release; else cargo build; fi
target=$(cd "${CARGO_TARGET_DIR:-target}/$profile" && pwd -P)
export PATH="$target:$PATH"

# --- the world of this tour ------------------------------------------------------

make_world
feed_pid=''
cleanup() {
    tmux-task -s demo daemon stop >/dev/null 2>&1 || true
    if [ -n "$feed_pid" ]; then
        kill "$feed_pid" 2>/dev/null || true
        wait "$feed_pid" 2>/dev/null || true
    fi
    end_world
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# The tasks' shells are login shells, and tmux reads a configuration from home.
mkdir "$world/home" "$world/project"
export HOME=$world/home
export TMUX_TASK_SESSION=demo
cd "$world/project"

# --- reading the feed ------------------------------------------------------------

# One line per record for the shell, `-` for what a record does not have.
# shellcheck disable=SC2016 # it is jq's language
readonly AS_LINES='
    select(.kind == "event" or .kind == "notice" or .kind == "followUp")
    | [ .kind, .seq, .type, .task.windowName, .task.exitCode
      , ((.events // []) | map(tostring) | join(" "))
      , (if .kind == "notice" then .text elif .kind == "followUp" then .message.content else .prompt end) ]
    | map(if . == null or . == "" then "-" else tostring end)
    | @tsv'

# By the seq of the event: its type, its task, its exit code, and the record that
# delivered it.
type_of=()
task_of=()
code_of=()
route_of=()

began=$SECONDS

# next_record UNTIL: reads one record and prints it. Fails at UNTIL, in SECONDS, and
# when the feed ends.
next_record() {
    local kind seq type task code events text left event route
    left=$(($1 - SECONDS))
    [ "$left" -gt 0 ] || return 1
    IFS=$'\t' read -r -t "$left" -u 3 kind seq type task code events text || return 1
    case $kind in
        event)
            type_of[seq]=$type
            task_of[seq]=$task
            code_of[seq]=$code
            printf '  event  #%-3s %s: %s' "$seq" "$task" "$type"
            if [ "$type" = exited ]; then printf ', code %s' "$code"; fi
            if [ "$type" = input ]; then printf ', %s' "$text"; fi
            printf '\n'
            ;;
        notice | followUp)
            route=notice
            if [ "$kind" = followUp ]; then route=follow-up; fi
            [ "$events" != - ] || return 0
            for event in $events; do route_of[event]=$route; done
            # jq wrote line breaks as \n.
            text=${text//\\n/$'\n'                   }
            printf '  route  #%-3s %s for #%s\n                   %s\n' "$seq" "$route" "${events// /, #}" "$text"
            ;;
    esac
}

# find_event TYPE TASK CODE: sets `found` to the seq of an event that has a route;
# `*` is any.
find_event() {
    local seq
    found=''
    for seq in "${!type_of[@]}"; do
        # The patterns are ours.
        # shellcheck disable=SC2053
        if [ "${type_of[seq]}" = "$1" ] && [[ ${task_of[seq]} == $2 ]] && [[ ${code_of[seq]} == $3 ]] &&
            [ -n "${route_of[seq]-}" ]; then
            found=$seq
            return 0
        fi
    done
    return 1
}

# await TYPE TASK [CODE]: goes on reading until the event and its delivery came.
await() {
    local until=$((SECONDS + EVENT_DEADLINE))
    if [ "$until" -gt $((began + DEADLINE)) ]; then until=$((began + DEADLINE)); fi
    until find_event "$1" "$2" "${3-*}"; do
        if ! next_record "$until"; then
            echo "  (gave up waiting for \`$1\` of task $2)"
            return 0
        fi
    done
}

say() {
    printf '\n'
    printf '%s\n' "$@"
}

# launch NAME COMMAND...: as an agent does; sets `window`.
launch() {
    local name=$1 lines
    shift
    printf "  $ tmux-task-run %s -- '%s'\n" "$name" "$*"
    lines=$("$root/hooks/tmux-task-run.sh" "$name" -- "$@")
    window=$(sed -n 's/^window_id=//p' <<<"$lines")
}

# --- the tour --------------------------------------------------------------------

say 'An agent runs its long jobs as tasks: windows of one tmux session, here "demo".' \
    'A daemon watches that session, so that nobody has to poll it:'
printf '  $ tmux-task -s demo daemon --detach\n'
tmux-task -s demo daemon --detach
mkfifo "$world/feed" "$world/records"
tmux-task -s demo feed --follow --after 0 --format json >"$world/feed" &
feed_pid=$!
# It ends when the feed does.
jq --unbuffered -r "$AS_LINES" <"$world/feed" >"$world/records" &
exec 3<"$world/records"

say 'It writes each change of a task to a feed as an event, and then the way that event' \
    'took: a notice (a person may want to see it) or a follow-up (a message to the agent,' \
    'which gives it a turn). Here is that feed while things happen.'

say '1. A task starts. The agent has just done that itself: a notice.'
launch build "echo compiling; until [ -e $world/project/go ]; do sleep 0.1; done; echo built"
await started build

say '2. It ends. The agent wants to know, with the last lines of output: a follow-up.'
: >"$world/project/go"
await exited build 0

say '3. Another ends badly.'
launch tests 'echo "1 of 12 tests failed"; exit 2'
await exited tests 2

say '4. A task rings the terminal bell, as many programs do when they are done.'
launch deploy 'printf "deployed\a\n"; exec sleep 1000'
await notify deploy

say '5. A task asks something and nobody would ever have noticed.'
# shellcheck disable=SC2016 # for the task's shell
launch clean 'read -r -p "Proceed? [y/N] " answer; echo "you said $answer"'
await input clean
printf '  $ tmux send-keys -t %s y Enter        (someone answers)\n' "$window"
tmux -u send-keys -t "$window" y Enter
await exited clean

say '6. A running task is killed from outside.'
launch server 'echo listening; exec sleep 1000'
await started server
printf '  $ tmux kill-window -t %s\n' "$window"
tmux -u kill-window -t "$window"
await disappeared server

# --- did it all come? --------------------------------------------------------------

say 'What came, and the way it took:'
missing=''
# check TITLE TYPE TASK CODE ROUTE
check() {
    if ! find_event "$2" "$3" "$4"; then
        missing="$missing${missing:+, }$1"
        printf '  %-22s %s\n' "$1" MISSING
    elif [ "${route_of[found]}" != "$5" ]; then
        missing="$missing${missing:+, }$1 as a $5"
        printf '  %-22s #%-3s %s, WRONG: it should be a %s\n' "$1" "$found" "${route_of[found]}" "$5"
    else
        printf '  %-22s #%-3s %s\n' "$1" "$found" "${route_of[found]}"
    fi
}
check started started build '*' notice
check 'exited with code 0' exited build 0 follow-up
check 'exited with code 2' exited tests 2 follow-up
check notify notify deploy '*' follow-up
check input input clean '*' follow-up
check disappeared disappeared server '*' follow-up

if [ -n "$missing" ]; then
    echo
    echo "error: not seen: $missing" >&2
    for log in "$world"/state/tmux-task/*/*log*; do
        if [ -f "$log" ]; then
            echo "the end of the daemon's log:" >&2
            tail -n 20 "$log" >&2
        fi
    done
    exit 1
fi

say 'Stopping the daemon and the private tmux server.'
tmux-task -s demo daemon stop
printf '\nAll five kinds of events were seen, %d s after the build.\n' "$((SECONDS - began))"
echo "Next: $target/tmux-task --help, and \`tmux-task daemon\` beside your own agent."
