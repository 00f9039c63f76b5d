#!/usr/bin/env bash
# Shows what tmux-task does, live, in a few seconds.
#
#   docs/quickstart.sh [--build] [--install]
#
# --build    build the program even if there is one
# --install  install missing packages with sudo; root always installs them
#
# It uses a program that is there: one in target/ that is newer than the source, or the
# tmux-task in PATH if its version is the source's. Otherwise it builds one, in cargo's
# dev profile, which takes minutes the first time.
#
# Needs tmux and jq, and says which packages are missing; to build, the Rust toolchain
# and a C compiler too. It uses a private tmux server and private folders, and removes
# them; only target/ remains.
set -euo pipefail

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

# Time limits in seconds: for the whole tour, without a build, and for one event.
readonly DEADLINE=100 EVENT_DEADLINE=20

install=no
build=no
for word in "$@"; do
    case $word in
        --install) install=yes ;;
        --build) build=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            echo "docs/quickstart.sh: unknown option \`$word\`" >&2
            echo 'hint: docs/quickstart.sh [--build] [--install]' >&2
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

# --- the program -----------------------------------------------------------------

# is_current PROGRAM: whether it is newer than everything that it is built from.
is_current() {
    [ -x "$1" ] && [ -z "$(find src hooks Cargo.toml Cargo.lock -newer "$1" -print -quit)" ]
}

# find_program: sets `program` to one that is there, if there is one.
find_program() {
    local target=${CARGO_TARGET_DIR:-target} profile version
    program=''
    for profile in release dist debug; do
        if is_current "$target/$profile/tmux-task"; then
            program=$(realpath -- "$target/$profile/tmux-task")
            return 0
        fi
    done
    # Where somebody has built before, a build is quick, and shows the source as it is.
    if [ -d "$target/debug" ] || ! command -v tmux-task >/dev/null 2>&1; then return 0; fi
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
    if [ "$(tmux-task -V)" = "tmux-task $version" ]; then
        program=$(command -v tmux-task)
        # The tour is in another directory.
        program=$(cd "${program%/*}" && pwd)/tmux-task
    fi
}

program=''
if [ "$build" = no ]; then find_program; fi
need tmux tmux
need jq jq
if [ -z "$program" ]; then
    need_rust
    need_linker
fi
install_missing "$install"
if [ -z "$program" ]; then
    echo 'Building the program, in the dev profile (minutes the first time) ...'
    cargo build --locked --bin tmux-task
    program=$(realpath -- "${CARGO_TARGET_DIR:-target}/debug/tmux-task")
fi
echo "This is $program."
export PATH="${program%/*}:$PATH"

# --- the private environment -----------------------------------------------------

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

# The tasks' shells are login shells, and tmux reads its configuration from HOME.
mkdir "$world/home" "$world/project"
export HOME=$world/home
export TMUX_TASK_SESSION=demo
cd "$world/project"

# --- reading the feed ------------------------------------------------------------

# One line per record for the shell; `-` stands for a field that a record does not have.
# shellcheck disable=SC2016 # this is jq's language
readonly AS_LINES='
    select(.kind == "event" or .kind == "notice" or .kind == "followUp")
    | [ .kind, .seq, .type, .task.windowName, .task.exitCode
      , ((.events // []) | map(tostring) | join(" "))
      , (if .kind == "notice" then .text elif .kind == "followUp" then .message.content else .prompt end) ]
    | map(if . == null or . == "" then "-" else tostring end)
    | @tsv'

# By the seq of the event: its type, its task, its exit code, and how it was
# delivered.
type_of=()
task_of=()
code_of=()
route_of=()

began=$SECONDS

# next_record UNTIL: reads one record and prints it. Fails when SECONDS reaches UNTIL
# and when the feed ends.
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
            # jq writes newlines as \n.
            text=${text//\\n/$'\n'                   }
            printf '  route  #%-3s %s for #%s\n                   %s\n' "$seq" "$route" "${events// /, #}" "$text"
            ;;
    esac
}

# find_event TYPE TASK CODE: sets `found` to the seq of an event that was delivered;
# `*` matches any.
find_event() {
    local seq
    found=''
    for seq in "${!type_of[@]}"; do
        # The patterns are from this script.
        # shellcheck disable=SC2053
        if [ "${type_of[seq]}" = "$1" ] && [[ ${task_of[seq]} == $2 ]] && [[ ${code_of[seq]} == $3 ]] &&
            [ -n "${route_of[seq]-}" ]; then
            found=$seq
            return 0
        fi
    done
    return 1
}

# await TYPE TASK [CODE]: reads until the event and its delivery are there.
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
    'A daemon supervises that session, so that the agent does not have to poll it:'
printf '  $ tmux-task -s demo daemon --detach\n'
tmux-task -s demo daemon --detach
mkfifo "$world/feed" "$world/records"
tmux-task -s demo feed --follow --after 0 --format json >"$world/feed" &
feed_pid=$!
# It ends when the feed ends.
jq --unbuffered -r "$AS_LINES" <"$world/feed" >"$world/records" &
exec 3<"$world/records"

say 'It records each change of a task in a feed as an event, and then how the event was' \
    'delivered: as a notice (shown to the user) or as a follow-up (a message to the agent,' \
    'which starts a turn). Here is that feed, live.'

say '1. A task starts. The agent started it and knows: a notice.'
launch build "echo compiling; until [ -e $world/project/go ]; do sleep 0.1; done; echo built"
await started build

say '2. It exits. The agent gets the last lines of output: a follow-up.'
: >"$world/project/go"
await exited build 0

say '3. Another task fails.'
launch tests 'echo "1 of 12 tests failed"; exit 2'
await exited tests 2

say '4. A task rings the terminal bell, as many programs do when they finish.'
launch deploy 'printf "deployed\a\n"; exec sleep 1000'
await notify deploy

say '5. A task asks for input, which would otherwise go unnoticed.'
# shellcheck disable=SC2016 # for the task's shell
launch clean 'read -r -p "Proceed? [y/N] " answer; echo "you said $answer"'
await input clean
printf '  $ tmux send-keys -t %s y Enter        (you answer)\n' "$window"
tmux -u send-keys -t "$window" y Enter
await exited clean

say '6. A running task is killed from outside.'
launch server 'echo listening; exec sleep 1000'
await started server
printf '  $ tmux kill-window -t %s\n' "$window"
tmux -u kill-window -t "$window"
await disappeared server

# --- are all events there? -------------------------------------------------------

say 'The events, and how they were delivered:'
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
    echo "error: missing: $missing" >&2
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
printf '\nAll of these events were seen.\n'
echo "Next: $program --help, and \`tmux-task init\` for your own agent."
