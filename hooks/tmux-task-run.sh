#!/usr/bin/env bash
# Starts or reruns a task in its slot: a window of the task session.
#
# Where the program `tmux-task` is on PATH it does the work. Otherwise this
# script does the same with tmux alone, so that it works where only the script
# was copied. It runs on bash 3.2 and newer, with tmux 3.2 and newer.
#
# No lock is taken. The look at the session may be out of date a moment later,
# so every change is one tmux command list that first tests, inside the server,
# whether that look still holds; when it does not, the script looks again.
#
# The lists go to `tmux source-file -` on stdin: as arguments they could not be
# longer than 16 KB, and a word ending in `;` would be taken for two.
set -euo pipefail

# How often to look again when others change the session meanwhile.
readonly ATTEMPTS=50

usage() {
    cat <<'END'
Usage: tmux-task-run NAME -- COMMAND...

Starts COMMAND as the task NAME, a window of the task session, or reruns it
there; a live run is replaced. One COMMAND word is a shell line, several are
an argv, each kept as one word.

  NAME          1 to 40 of A-Z a-z 0-9 . _ - , the first a letter or digit
  -h, --help    print this help

Environment:
  TMUX_TASK_SESSION   the task session (else PI_TMUX_SESSION)
  TMUX_TASK_TMUX      the tmux program (else tmux)
END
}

# fail CODE MESSAGE [HINT]
fail() {
    printf 'tmux-task-run: %s\n' "$2" >&2
    if [ $# -gt 2 ]; then printf 'hint: %s\n' "$3" >&2; fi
    exit "$1"
}

# The C locale makes ranges and classes mean ASCII. The subshells keep it from
# the tmux server, which takes over our environment when we start it.
valid_task_name() (
    LC_ALL=C
    [ "${#1}" -le 40 ] || return 1
    case $1 in
        [A-Za-z0-9]*) ;;
        *) return 1 ;;
    esac
    case $1 in
        *[!A-Za-z0-9._-]*) return 1 ;;
    esac
)

# A dot or colon separates windows and panes in a target, a leading `$` marks an
# id, and tmux rewrites backslashes and control characters in names.
valid_session_name() (
    LC_ALL=C
    case $1 in
        '$'* | *[.:\\]* | *[[:cntrl:]]*) return 1 ;;
    esac
)

# shell_quote WORD: sets `quoted`, WORD in single quotes for a shell.
shell_quote() {
    local q="'" r="'\\''"
    quoted="'${1//$q/$r}'"
}

# tmux_quote WORD: sets `quoted`, WORD for tmux's own parser. In single quotes
# it reads everything as it stands but a newline, whose indentation it eats.
tmux_quote() {
    local n=$'\n' r="'\"\\n\"'"
    shell_quote "$1"
    quoted=${quoted//$n/$r}
}

# add COMMAND WORD...: appends one tmux command to `list`. Every word is quoted, so
# that a value which is a semicolon separates nothing.
add() {
    local word
    if [ -n "$list" ]; then list="$list ;"; fi
    for word in "$@"; do
        tmux_quote "$word"
        list="$list $quoted"
    done
}

# format_literal TEXT: sets `literal`, TEXT for where tmux expands formats. A
# doubled `#` is one, except before `[`, where tmux leaves `#` as they are.
format_literal() {
    local rest=$1 run
    literal=
    while [[ $rest == *'#'* ]]; do
        literal=$literal${rest%%'#'*}
        rest=${rest#"${rest%%'#'*}"}
        run=${rest%%[!#]*}
        rest=${rest#"$run"}
        case $rest in
            '['*) literal=$literal$run ;;
            *) literal=$literal$run$run ;;
        esac
    done
    literal=$literal$rest
}

# needs_quotes WORD: whether a person would quote it on a command line.
needs_quotes() (
    LC_ALL=C
    case $1 in
        '') return 0 ;;
        *[[:space:][:cntrl:]\"\'\\\$\`\&\|\;\<\>\(\)\*\?\[\]\{\}\~\#\!]*) return 0 ;;
    esac
    return 1
)

# one_line TEXT: prints it with every run of blanks and control characters as
# one blank.
one_line() {
    local folded
    folded=$(printf '%s' "$1" | LC_ALL=C tr -s '[:space:][:cntrl:]' ' ')
    folded=${folded# }
    printf '%s' "${folded% }"
}

# display_command WORD...: prints the command as a person would have typed it.
display_command() {
    local shown='' word
    if [ $# -eq 1 ]; then
        one_line "$1"
        return
    fi
    for word in "$@"; do
        if needs_quotes "$word"; then
            shell_quote "$word"
            word=$quoted
        fi
        shown="$shown $word"
    done
    one_line "$shown"
}

# task_script WORD...: sets `script`, what `bash -lc` runs. `eval` ends the
# command where it ends, whatever its last character is. The last line keeps bash
# from becoming the command's last process: the child's death by a signal would
# then be the shell's own. The trap asks the terminal for a sign of life: tmux
# drops what it has not read yet when a process ends, and once it answers it has
# read everything.
task_script() {
    local body='' word
    if [ $# -eq 1 ]; then
        body=$1
    else
        for word in "$@"; do
            shell_quote "$word"
            body="$body${body:+ }$quoted"
        done
    fi
    shell_quote "$body"
    script="unset PI_SESSION_ID PI_TMUX_ROOT_CWD
set -euo pipefail
trap 'IFS= read -rs -d n -t 0.5 -p \$'\\''\\e[5n'\\'' _ </dev/tty 2>/dev/tty || :' EXIT
eval $quoted
exit \"\$?\""
}

# work_tree DIRECTORY: prints the enclosing git work tree, else DIRECTORY.
work_tree() {
    local dir=$1
    while [ ! -e "${dir%/}/.git" ]; do
        if [ -z "${dir%/}" ]; then
            printf '%s' "$1"
            return
        fi
        dir=${dir%/*}
        dir=${dir:-/}
    done
    printf '%s' "$dir"
}

# Prints milliseconds since 1970, or whole seconds as such where the shell and
# `date` know no better.
now_ms() {
    local now=${EPOCHREALTIME-}
    now=${now//[!0-9]/}
    if [ "${#now}" -eq 16 ]; then
        printf '%s' "${now%???}"
        return
    fi
    now=$(date +%s%3N)
    case $now in
        *[!0-9]*) now=$(date +%s)000 ;;
    esac
    printf '%s' "$now"
}

# --- talking to tmux ---------------------------------------------------------

# Both set `reply` to what tmux said on either stream and return its code.
ask() { reply=$("$tmux" -u "$@" </dev/null 2>&1); }
tell() { reply=$(printf '%s\n' "$list" | "$tmux" -u start-server \; source-file - 2>&1); }

# Whether `reply` says that what was asked for is not there (any more). A server
# that is just starting has no session at all, and therefore no current target.
nothing_there() {
    case $reply in
        *"can't find "* | *'no current target'* | *'no sessions'* | \
            *'no server running'* | *'server exited'* | *'lost server'*) return 0 ;;
    esac
    return 1
}

require_tmux() {
    local version major minor
    if ! command -v "$tmux" >/dev/null 2>&1; then
        fail 1 "could not start \`$tmux\`: no such program" \
            'install tmux 3.2 or newer, or name it in TMUX_TASK_TMUX'
    fi
    if ! version=$("$tmux" -V </dev/null 2>&1); then
        fail 1 "could not ask \`$tmux\` for its version: ${version##*$'\n'}"
    fi
    # "tmux 3.3a", "tmux next-3.6"; a version without a number is a newer one.
    version=${version#tmux }
    version=${version#next-}
    case $version in
        [0-9]*.[0-9]*)
            major=${version%%.*}
            minor=${version#*.}
            minor=${minor%%[!0-9]*}
            if [ "$major" -lt 3 ] || { [ "$major" -eq 3 ] && [ "$minor" -lt 2 ]; }; then
                fail 1 "\`$tmux\` is too old: it is tmux $version" 'install tmux 3.2 or newer'
            fi
            ;;
    esac
}

# Looks at the session. Sets `session_id` (empty when there is no such session),
# `windows` (the ids of the task's windows) and `primary` (the lowest pane id of
# the last of them: a user's split never takes its place).
look() {
    list_windows
    if [ -z "$session_id" ] && follow_rename; then list_windows; fi
}

# Sets `session` to the name that the session has now which a living daemon was
# asked for by this one. Fails when there is none.
follow_rename() {
    local id pid name
    ask list-sessions -F '#{session_id} #{@tmux_task_daemon} #{@tmux_task_name}' || return 1
    while read -r id pid name; do
        if [ "$name" = "$session" ] && kill -0 "$pid" 2>/dev/null; then
            ask display-message -p -t "$id:" '#{session_name}' || return 1
            session=$reply
            set_environment
            return 0
        fi
    done <<END
$reply
END
    return 1
}

# The task's own variables.
set_environment() {
    environment=(-e "TMUX_TASK_SESSION=$session" -e "PI_TMUX_SESSION=$session")
}

list_windows() {
    local id window pane same name lowest=''
    session_id='' windows='' primary=''
    if ! ask list-panes -s -t "=$session:" -F \
        "#{session_id} #{window_id} #{pane_id} #{==:#{window_name},$task} #{session_name}"; then
        if nothing_there || [[ $reply == *'No such file or directory'* ]]; then return; fi
        fail 1 "could not look at session \`$session\`: ${reply##*$'\n'}"
    fi
    while read -r id window pane same name; do
        # Where no session has the name, tmux takes the client of that name.
        [ "$name" = "$session" ] || continue
        session_id=$id
        [ "$same" = 1 ] || continue
        case " $windows " in
            *" $window "*) ;;
            *)
                windows="$windows${windows:+ }$window"
                lowest=''
                ;;
        esac
        if [ -z "$lowest" ] || [ "${pane#%}" -lt "$lowest" ]; then
            lowest=${pane#%}
            primary=$pane
        fi
    done <<END
$reply
END
}

# window_options TARGET: adds what marks a window as this task's.
window_options() {
    add set-option -w -t "$1" remain-on-exit on
    add set-option -w -t "$1" monitor-bell on
    add set-option -w -t "$1" automatic-rename off
    add set-option -w -t "$1" allow-rename off
    add set-option -w -t "$1" @tmux_task_command "$shown"
    add set-option -w -t "$1" @tmux_task_cwd "$cwd"
    add set-option -w -t "$1" @tmux_task_started "$(now_ms)"
}

# Creates the session with the task as its only window.
create_session() {
    local literal_name
    format_literal "$session"
    literal_name=$literal
    format_literal "$cwd"
    list=''
    add new-session -d -P -F 'window #{window_id}' -s "$literal_name" -n "$task" -c "$literal" \
        "${environment[@]}" bash -lc "$script"
    window_options "=$session:{end}"
    add set-option -w -t "=$session:{end}" @tmux_task_run 1
    # It lives for its tasks, and not for whoever looks at it.
    add set-option -t "=$session:" destroy-unattached off
    add set-option -t "=$session:" @tmux_task_root "$(work_tree "$cwd")"
    add set-option -t "=$session:" bell-action any
    tell
}

# Wakes the session's daemon, if it has one: it waits on this channel.
call_daemon() {
    add if-shell -F -t "$session_id:" '#{@tmux_task_daemon}' \
        "wait-for -S 'tmux-task-$session_id'"
}

# Creates the task's window, unless the session got one meanwhile.
create_window() {
    local create
    format_literal "$cwd"
    list=''
    add new-window -d -P -F 'window #{window_id}' -a -t "$session_id:{end}" -n "$task" -c "$literal" \
        "${environment[@]}" bash -lc "$script"
    window_options "$session_id:{end}"
    add set-option -w -t "$session_id:{end}" @tmux_task_run 1
    add set-option -t "$session_id:" bell-action any
    call_daemon
    create=$list
    list=''
    add if-shell -F -t "$session_id:" "#{W:#{?#{==:#{window_name},$task},1,}}" \
        'display-message -p again' "$create"
    tell
}

# control_clients: sets `clients`, the names of the server's control clients.
control_clients() {
    local mode name
    clients=()
    # Without any there may be no list.
    ask list-clients -F '#{client_control_mode} #{client_name}' || return 0
    while read -r mode name; do
        if [ "$mode" = 1 ]; then clients+=("$name"); fi
    done <<END
$reply
END
}

# for_clients STATE: adds what sets the pane's output to STATE for them.
for_clients() {
    local client
    for client in ${clients[@]+"${clients[@]}"}; do
        add refresh-client -t "$client" -A "$primary:$1"
    done
}

# Reruns the task in the window that it has.
rerun() {
    local window=$1 rerun clients
    format_literal "$cwd"
    control_clients
    list=''
    # tmux up to 3.7c crashes when a pane is respawned of whose output a control
    # client has not consumed all, unless it is paused for that client. First in
    # the line: a client that has gone meanwhile fails it.
    for_clients pause
    # A live run that we replace is marked, so that its end is told as that.
    add if-shell -F -t "$primary" '#{pane_dead}' \
        "set-option -wu -t $window @tmux_task_replaced" \
        "set-option -wF -t $primary @tmux_task_replaced '#{pane_pid}'"
    window_options "$window"
    add set-option -wF -t "$primary" @tmux_task_run \
        '#{e|+:#{?@tmux_task_run,#{@tmux_task_run},0},1}'
    add set-option -t "$session_id:" bell-action any
    add respawn-pane -k -t "$primary" -c "$literal" "${environment[@]}" bash -lc "$script"
    for_clients continue
    add clear-history -t "$primary"
    call_daemon
    add display-message -p "window $window"
    rerun=$list
    list=''
    add if-shell -F -t "$primary" "#{==:#{window_id} #{window_name},$window $task}" \
        "$rerun" 'display-message -p again'
    tell
}

# Starts or reruns the task and sets `window_id`.
launch() {
    local attempt done_what
    for ((attempt = 0; attempt < ATTEMPTS; attempt++)); do
        look
        case $windows in
            *' '*)
                fail 1 "task \`$task\` is ambiguous: windows ${windows// /, } of session \`$session\` have that name" \
                    'rename or close all but one of them'
                ;;
        esac
        if [ -z "$session_id" ]; then
            done_what=create_session
        elif [ -z "$windows" ]; then
            done_what=create_window
        else
            done_what="rerun $windows"
        fi
        # shellcheck disable=SC2086 # a function and the window's id
        if $done_what; then
            case $reply in
                *'window @'*)
                    window_id=@${reply##*window @}
                    window_id=${window_id%%[!@0-9]*}
                    return
                    ;;
            esac
        else
            # Else something came or went since the look.
            nothing_there || [[ $reply == *'duplicate session'* ]] ||
                fail 1 "could not start task \`$task\`: ${reply##*$'\n'}"
        fi
    done
    fail 1 "could not start task \`$task\`: session \`$session\` kept changing${reply:+ (${reply##*$'\n'})}" \
        'try again'
}

# --- the call ----------------------------------------------------------------

readonly usage_hint='tmux-task-run NAME -- COMMAND...'
case ${1-} in
    -h | --help)
        usage
        exit 0
        ;;
esac
[ $# -gt 0 ] || fail 2 'no task name given' "$usage_hint"
task=$1
shift
if ! valid_task_name "$task"; then
    fail 2 "invalid task name \`$(one_line "$task")\`: 1 to 40 of A-Z a-z 0-9 . _ - are allowed, the first a letter or digit" \
        "$usage_hint"
fi
case ${1-} in
    -h | --help)
        usage
        exit 0
        ;;
    --) shift ;;
    '') fail 2 "no command given for task \`$task\`" "$usage_hint" ;;
    *) fail 2 "unexpected \`$(one_line "$1")\`: \`--\` must stand between task name and command" "$usage_hint" ;;
esac
case $* in
    *[![:space:]]*) ;;
    *) fail 2 "no command given for task \`$task\`" "$usage_hint" ;;
esac

session=${TMUX_TASK_SESSION:-${PI_TMUX_SESSION:-}}
if [ -z "$session" ]; then
    fail 1 'no task session: TMUX_TASK_SESSION is not set, nor is PI_TMUX_SESSION' \
        'set TMUX_TASK_SESSION to the name of the tmux session for tasks'
fi
if ! valid_session_name "$session"; then
    # shellcheck disable=SC2016 # the dollar is meant
    fail 2 "invalid session name \`$(one_line "$session")\`: \`.\`, \`:\`, \`\\\`, a leading \`\$\` and control characters are not allowed" \
        'choose another name in TMUX_TASK_SESSION'
fi

program=$(type -P tmux-task || true)
if [ -n "$program" ] && ! [ "$program" -ef "${BASH_SOURCE[0]}" ]; then
    exec "$program" run --session "$session" "$task" -- "$@"
fi

tmux=${TMUX_TASK_TMUX:-tmux}
require_tmux

# The `x` keeps a line break at the end of the directory's name.
cwd=$(pwd -P 2>/dev/null && printf x) || fail 1 'could not find the current directory: is it gone?'
cwd=${cwd%$'\n'x}
case $cwd in
    *$'\n'*) fail 1 "could not use the current directory: its name has a line break" ;;
esac
shown=$(display_command "$@")
task_script "$@"
set_environment

launch
printf 'session=%s\nwindow_id=%s\ntask=%s\ncwd=%s\n' "$session" "$window_id" "$task" "$cwd"
