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
# The lists go to `tmux source-file -` on stdin: everybody can read arguments, and
# those of the command that starts a server stay readable as long as it lives.

# --- the caller's environment, before anything here hides a part of it -----------

# What bash obeys wherever it finds it; no function runs before this. With `keyword`,
# words like `a=b` would be variables of a command.
set +k
bash_of_caller=$(declare -p FUNCNEST BASH_XTRACEFD 2>/dev/null) || :
unset -v FUNCNEST
case ${BASH_XTRACEFD-} in
    [012])
        # Unset, it is closed as well.
        descriptor_of_caller=$BASH_XTRACEFD
        exec {kept_descriptor}>&"$descriptor_of_caller"
        unset -v BASH_XTRACEFD
        eval "exec $descriptor_of_caller>&$kept_descriptor $kept_descriptor>&-"
        ;;
esac
unset -v BASH_XTRACEFD
set -euo pipefail

functions_of_caller=$(declare -fx)

# exported_names: prints the names of all variables of the environment.
exported_names() {
    awk 'BEGIN { for (name in ENVIRON) print name }' </dev/null 2>/dev/null || compgen -e
}

# environment_text: prints what a shell reads to have our environment; called
# before any variable of ours can hide one of the caller's, and without any of its
# own. Read with the word `again` it leaves out what means something to bash itself:
# that is set for a shell that starts, never in one that runs. Names that no shell
# can have are left out.
environment_text() (
    set -f
    # shellcheck disable=SC2046 # names are words
    set -- $(exported_names)
    if [ -n "${LC_ALL+x}" ]; then declare -p LC_ALL; fi
    # shellcheck disable=SC2030 # only here
    LC_ALL=C
    for _ in "$@"; do
        case $1 in
            LC_ALL | '' | *[!A-Za-z0-9_]* | [0-9]*) ;;
            # What belongs to the terminal.
            TMUX | TMUX_PANE | TERM* | COLUMNS | LINES | SHLVL | PWD | OLDPWD | _) ;;
            # What names or opens an agent's conversation.
            PI_SESSION_ID | PI_SESSION_FILE | PI_TMUX_ROOT_CWD | CLAUDECODE | CLAUDE_CODE_* | CLAUDE_PID) ;;
            CODEX_THREAD_ID | CODEX_SESSION_ID | CODEX_TOOL_CALL_ID | CODEX_MANAGED_*) ;;
            OPENCODE | OPENCODE_PID | OPENCODE_SERVER_PASSWORD | AI_AGENT | AGENT | TMUX_TASK_OWNER) ;;
            BASH* | ENV | IFS | UID | EUID | PPID | GROUPS | SHELLOPTS | POSIXLY_CORRECT) set -- "$@" "$1" ;;
            OPTIND | OPTARG | OPTERR | RANDOM | SRANDOM | SECONDS | LINENO | EPOCHSECONDS) set -- "$@" "$1" ;;
            EPOCHREALTIME | HISTCMD | FUNCNAME | FUNCNEST | DIRSTACK | PIPESTATUS) set -- "$@" "$1" ;;
            GLOBIGNORE | EXECIGNORE) set -- "$@" "$1" ;;
            *) declare -p "$1" 2>/dev/null || : ;;
        esac
        shift
    done
    # shellcheck disable=SC2016 # for the task's shell to expand
    printf '%s\n' '[ "${1-}" != again ] || return 0' "$functions_of_caller"
    printf '%s\n' "$bash_of_caller"
    while [ $# -gt 0 ]; do
        declare -p "$1" 2>/dev/null || :
        shift
    done
)

environment_of_caller=$(environment_text)

# Where the caller's locale is not installed, bash warns each time that it is in force
# again. From here on only tmux and the task get it.
locale_of_caller=''
# shellcheck disable=SC2031 # the subshells that set it are over
if [ -n "${LC_ALL-}" ] && [ -n "$("$BASH" -pc : 2>&1)" ]; then
    locale_of_caller=$LC_ALL
    LC_ALL=C
fi

# --- words ---------------------------------------------------------------------

# How often to look again when others change the session meanwhile.
ATTEMPTS=50

# How many rows of history a task's pane keeps.
HISTORY_LIMIT=50000

# What tmux refuses as the value of an option when the session is not what the look
# showed. `if-shell` would do as well, but tmux never frees the commands that it has
# parsed for it.
CHANGED='changed-meanwhile'

# The word that marks the process which a new window begins with.
STAND_IN='tmux-task-stand-in'

usage() {
    cat <<'END'
Usage: tmux-task-run NAME -- COMMAND...

Starts COMMAND as the task NAME, a window of the task session, or reruns it
there; a live run is replaced. One COMMAND word is a shell line, several are
an argv, each kept as one word.

  NAME          1 to 40 of A-Z a-z 0-9 . _ - , the first a letter or digit
  -h, --help    print this help

The task runs in this environment, but for what belongs to the terminal and to
an agent's conversation.

Environment:
  TMUX_TASK_SESSION   the task session (else PI_TMUX_SESSION)
  TMUX_TASK_OWNER     who asks (else what an agent's environment says)
  TMUX_TASK_TMUX      the tmux program (else tmux)
END
}

# safe_text TEXT: prints it with a `?` in the place of each byte that is not UTF-8, and
# of each character that a terminal obeys or does not show: controls, marks of
# direction and of width, tags, and those of no agreed meaning.
safe_text() (
    LC_ALL=C
    next=$'[\x80-\xbf]'
    rest=$1
    safe=''
    while [ -n "$rest" ]; do
        case $rest in
            [' '-'~']*) length=1 ;;
            $'\xc2'[$'\x80'-$'\x9f']* | $'\xc2\xad'* | $'\xcd\x8f'* | $'\xd8\x9c'*) length=-2 ;;
            [$'\xc2'-$'\xdf']$next*) length=2 ;;
            $'\xe0'[$'\x80'-$'\x9f']* | $'\xed'[$'\xa0'-$'\xbf']*) length=-1 ;;
            $'\xe1\x85'[$'\x9f'-$'\xa0']* | $'\xe1\x9e'[$'\xb4'-$'\xb5']* | $'\xe1\xa0'[$'\x8b'-$'\x8f']*) length=-3 ;;
            $'\xe2\x80'[$'\x8b'-$'\x8f']* | $'\xe2\x80'[$'\xa8'-$'\xae']* | $'\xe2\x81'[$'\xa0'-$'\xaf']*) length=-3 ;;
            $'\xe3\x85\xa4'* | [$'\xee']$next$next* | $'\xef'[$'\x80'-$'\xa3']$next*) length=-3 ;;
            $'\xef\xb8'[$'\x80'-$'\x8f']* | $'\xef\xbb\xbf'* | $'\xef\xbe\xa0'* | $'\xef\xbf'[$'\xb0'-$'\xbc']* | $'\xef\xbf'[$'\xbe'-$'\xbf']*) length=-3 ;;
            [$'\xe0'-$'\xef']$next$next*) length=3 ;;
            $'\xf0'[$'\x90'-$'\xbf']$next$next*) length=4 ;;
            [$'\xf1'-$'\xf3']$next$next$next* | $'\xf4'[$'\x80'-$'\x8f']$next$next*) length=-4 ;;
            *) length=-1 ;;
        esac
        case $length in
            -*) safe="$safe?" length=${length#-} ;;
            *) safe=$safe${rest:0:length} ;;
        esac
        rest=${rest:length}
    done
    printf '%s' "$safe"
)

# fail CODE MESSAGE [HINT]
fail() {
    printf 'tmux-task-run: %s\n' "$(safe_text "$2")" >&2
    if [ $# -gt 2 ]; then printf 'hint: %s\n' "$(safe_text "$3")" >&2; fi
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
# id, and tmux rewrites backslashes, control characters and what is not UTF-8.
valid_session_name() (
    LC_ALL=C
    case $1 in
        '$'* | *[.:\\]* | *[[:cntrl:]]*) return 1 ;;
    esac
    is_utf8 "$1"
)

# is_utf8 TEXT
is_utf8() (
    LC_ALL=C
    next=$'[\x80-\xbf]'
    rest=$1
    while [ -n "$rest" ]; do
        case $rest in
            [!$'\x80'-$'\xff']*) rest=${rest#?} ;;
            [$'\xc2'-$'\xdf']$next*) rest=${rest#??} ;;
            [$'\xe0'-$'\xef']$next$next*) rest=${rest#???} ;;
            [$'\xf0'-$'\xf4']$next$next$next*) rest=${rest#????} ;;
            *) return 1 ;;
        esac
    done
)

# shell_quote WORD: sets `quoted`, WORD in single quotes for a shell.
shell_quote() {
    local q="'" r="'\\''"
    quoted="'${1//$q/$r}'"
}

# tmux_quote WORD: sets `quoted`, WORD for tmux's own parser. In single quotes
# it reads everything as it stands but a newline, whose indentation it eats, and
# a byte 255, which it takes for the end of everything: what follows would be
# read as commands.
tmux_quote() {
    local LC_ALL=C n=$'\n' r="'\"\\n\"'" end=$'\xff' escape="'\"\\377\"'"
    shell_quote "$1"
    quoted=${quoted//$n/$r}
    quoted=${quoted//$end/$escape}
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
    local folded LC_ALL=C
    # Most texts are one line already, and each process costs time.
    case $1 in
        ' '* | *' ' | *'  '*) ;;
        *)
            folded=${1// /}
            case $folded in
                *[[:space:][:cntrl:]]*) ;;
                *)
                    printf '%s' "$1"
                    return
                    ;;
            esac
            ;;
    esac
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

# hex: prints its input as hexadecimal digits.
hex() { LC_ALL=C od -An -v -tx1 | tr -d ' \t\n'; }

# command_record WORD...: prints the directory and the words, each ended by a NUL, as
# hexadecimal digits: what runs the task again exactly. tmux expands no digits.
command_record() {
    printf '%s' "$cwd" | hex
    printf ' '
    printf '%s\0' "$@" | hex
}

# While a run is being ended, its shell has to be the last of its processes: at its end
# the terminal is hung up. The daemon sends it SIGPWR; when its present command has
# ended, it waits for the daemon's hangup, and ends with that command's code.
# shellcheck disable=SC2016 # for the task's shell to expand
HOLD='builtin trap '\''{ c=$?; builtin set +xv; } 2>/dev/null; if builtin [ -n "$(builtin trap -p TERM)" ]; then builtin kill -TERM $$; else builtin [ $c -ne 158 ] || c=143; builtin trap "builtin exit $c" HUP; builtin trap : STKFLT; { builtin exec {f}<> <(:); builtin read -r -t 3600 -u $f _; } 2>/dev/null || :; builtin exit $c; fi'\'' PWR 2>/dev/null || :'

# task_script WORD...: sets `pane`, the words of a task's pane, whose last shell runs
# the script with `bash -lc`. The pane keeps one process: each of its shells takes
# the place of the one before. `eval` ends the
# command where it ends, whatever its last character is. The last line keeps bash
# from becoming the command's last process: the child's death by a signal would
# then be the shell's own. The trap asks the terminal for a sign of life: tmux
# drops what it has not read yet when a process ends, and once it answers it has
# read everything. A task with `set -x` does not show it.
#
# For an EXIT trap bash catches all signals that would end it. A hangup that comes
# while it starts a program would then be lost: the new process still has bash's
# handler, or bash waits for it in the trap, and the program outlives its pane. So
# a hangup ends the shell at once: bash does not catch a signal that already has a
# trap. A line that contains `trap` may clean up at a hangup, so bash's own handling
# is kept.
task_script() {
    local body='' word before="builtin trap 'builtin exit 129' HUP; " after='; builtin trap - HUP'
    if [ $# -eq 1 ]; then
        body=$1
        case $body in *trap*) before='' after='' ;; esac
    else
        for word in "$@"; do
            shell_quote "$word"
            body="$body${body:+ }$quoted"
        done
    fi
    local names=''
    shell_quote "$session"
    names="TMUX_TASK_SESSION=$quoted PI_TMUX_SESSION=$quoted TMUX_TASK_NAME=$task"
    shell_quote "$body"
    # The command begins in the first line, so that bash counts its lines from 1.
    script="command unset -v $WITHHELD 2>/dev/null || :; \
if [ -r \"\${1-}\" ]; then . \"\$1\" again 2>/dev/null; : >|\"\$1\"; command -p rm -f -- \"\$1\"; fi; \
[ \"\${2-\$PWD}\" = \"\$PWD\" ] || builtin cd -- \"\$2\" || builtin exit 1; \
builtin set --; builtin export $names; builtin set -euo pipefail; \
${before}builtin trap '{ builtin set +xv; } 2>/dev/null; IFS= builtin read -rs -d n -t 0.5 -p \$'\\''\\e[5n'\\'' _ </dev/tty 2>/dev/tty || :' EXIT$after; $HOLD; builtin eval $quoted
builtin exit \"\$?\""
    pane=(bash -pc "$CLEAR" bash "$script" "$environment_file" "$LOAD")
}

# --- the task's environment ----------------------------------------------------

# What names or opens an agent's conversation: no task sees it, whoever set it.
# shellcheck disable=SC2016 # for the task's shell to expand
WITHHELD='PI_SESSION_ID PI_SESSION_FILE PI_TMUX_ROOT_CWD CLAUDECODE ${!CLAUDE_CODE_@} CLAUDE_PID CODEX_THREAD_ID CODEX_SESSION_ID CODEX_TOOL_CALL_ID ${!CODEX_MANAGED_@} OPENCODE OPENCODE_PID OPENCODE_SERVER_PASSWORD AI_AGENT AGENT TMUX_TASK_OWNER'

# The first shell of a pane: keeps what tmux tells of the terminal and nothing
# else of tmux's environment. It passes on the directory in which tmux has started the
# pane, for a profile may contain a `cd`; and here and below `builtin` keeps functions of
# the caller and of the profile from taking the place of what starts the task. Its words
# are the script, the environment's file and `LOAD`. Where the file has been read already, somebody has respawned the pane by
# hand: what tmux has is the best there is then.
# shellcheck disable=SC2016
CLEAR='[ -r "$2" ] || builtin exec "$BASH" -lc "$1" bash "" "$PWD"
for n in TMUX TMUX_PANE TERM TERM_PROGRAM TERM_PROGRAM_VERSION TERMINFO TERMINFO_DIRS; do
[ -z "${!n+x}" ] || set -- "$@" "$n=${!n}"
done
builtin exec -c "$BASH" -pc "$3" bash "$1" "$2" "$BASH" "$PWD" "${@:4}"'

# The second: sets the environment, so that the login shell's profile runs in it.
# shellcheck disable=SC2016
LOAD='export "${@:5}"; . "$2" 2>/dev/null; builtin exec "$3" -lc "$1" bash "$2" "$4"'

# Sets `environment_folder`: the user's own, where no one else can create files.
find_environment_folder() {
    local folder listed
    folder=/tmp/tmux-task-$(id -u)
    if [ -n "${TMUX_TASK_RUNTIME_DIR-}" ]; then
        folder=$TMUX_TASK_RUNTIME_DIR
    elif [[ ${XDG_RUNTIME_DIR-} == /* ]] && [ -O "$XDG_RUNTIME_DIR" ]; then
        # After `su` it can be another user's.
        folder=$XDG_RUNTIME_DIR/tmux-task
    fi
    case $folder in
        /*) ;;
        *) fail 1 "the folder $(one_line "$folder") for runtime files is not absolute" \
            'set TMUX_TASK_RUNTIME_DIR to a folder of yours' ;;
    esac
    # shellcheck disable=SC2174 # what is above it need not be closed
    mkdir -p -m 700 -- "$folder" 2>/dev/null || :
    listed=$(LC_ALL=C ls -ldn -- "$folder" 2>/dev/null) || :
    case $listed in
        d????-??-?*) ;;
        *) listed='' ;;
    esac
    if [ -z "$listed" ] || [ -L "$folder" ] || ! [ -O "$folder" ]; then
        fail 1 "the folder $(one_line "$folder") is not there, or not ours alone to write to" \
            'set TMUX_TASK_RUNTIME_DIR to a folder of yours'
    fi
    environment_folder=$folder
}

# Puts the environment into a file that the task's first shells read and remove;
# sets `environment_file`. Nothing of it may stand in a command line, or in what
# tmux keeps.
write_environment() {
    find_environment_folder
    # What was left by tasks that ended before they read theirs.
    find "$environment_folder" -name 'task-env-*' -mmin +10 -exec rm -f -- {} + 2>/dev/null || :
    environment_file=$environment_folder/task-env-$mark
    if ! (umask 077 && set -C && printf '%s\n' "$environment_of_caller" >"$environment_file" &&
        : >"$environment_file.reply") 2>/dev/null; then
        rm -f -- "$environment_file"
        environment_file=''
        fail 1 "could not write the task's environment to $(one_line "$environment_folder")"
    fi
    reply_file=$environment_folder/task-env-$mark.reply
    trap 'rm -f -- "$reply_file" ${environment_file:+"$environment_file"}' EXIT
}

# Sets `owner`: the conversation of the agent whose shell we run in, if any.
find_owner() {
    local found
    owner=''
    for found in "${TMUX_TASK_OWNER-}" "${CLAUDE_CODE_SESSION_ID:+claude:$CLAUDE_CODE_SESSION_ID}" \
        "${CODEX_THREAD_ID:+codex:$CODEX_THREAD_ID}" "${PI_SESSION_ID:+pi:$PI_SESSION_ID}"; do
        [ -n "$found" ] || continue
        owner=$(one_line "$found")
        [ -z "$owner" ] || break
    done
    owner=${owner:0:200}
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
ask() { reply=$(client "$@" </dev/null 2>&1); }
tell() { reply=$(printf '%s\n' "$list" | client start-server \; source-file - 2>&1); }

# How long tmux may take to answer when it is looked at, in seconds. Where there is no
# `timeout`, and where a hook of the user may be what takes long, it may take any time.
ANSWERS_WITHIN=10

# The same as `ask`, unless tmux does not answer. What it says goes into a file: a server
# that is stopped keeps a pipe open after its client was killed. A client that gets
# another signal waits for the server to agree.
ask_in_time() {
    local code=0 time_limit=(timeout -s KILL "$ANSWERS_WITHIN")
    if ! type -P timeout >/dev/null; then
        ask "$@"
        return
    fi
    client "$@" </dev/null >|"$reply_file" 2>&1 || code=$?
    reply=$(<"$reply_file")
    if [ "$code" = 137 ]; then
        fail 1 "tmux did not answer within $ANSWERS_WITHIN s; nothing was started"
    fi
    return "$code"
}
# The same for a list that may start the server.
tell_first() {
    local from=/
    tell
}

# client WORD...: a client of the server, with no more of our environment than a
# server may have: one that we start keeps all of it for every task and shell to
# come. It would also keep the caller's files and locks open, and its directory.
client() (
    if [ "$from" = / ]; then
        case ${TMUX_TMPDIR-} in
            '' | /*) ;;
            *) TMUX_TMPDIR=$PWD/$TMUX_TMPDIR ;;
        esac
        cd /
    fi
    set -- ${time_limit[@]+"${time_limit[@]}"} "$tmux" -u ${socket:+-S "$socket"} "$@"
    if [ "${#strange_names[@]}" -gt 0 ]; then
        set -- env "${strange_names[@]}" "$@"
    fi
    # shellcheck disable=SC2086 # names are words
    unset -f $foreign_functions 2>/dev/null || :
    # shellcheck disable=SC2086
    unset -v $foreign_names 2>/dev/null || :
    set +f
    for descriptor in /dev/fd/*; do
        descriptor=${descriptor##*/}
        case $descriptor in
            0 | 1 | 2 | *[!0-9]*) ;;
            *) eval "exec $descriptor>&-" 2>/dev/null || : ;;
        esac
    done
    if [ -n "$locale_of_caller" ]; then { export LC_ALL=$locale_of_caller; } 2>/dev/null; fi
    exec "$@"
)

# Sets what of our environment no server may have: `foreign_names`,
# `foreign_functions`, and `strange_names` for those that no shell can have.
find_foreign() {
    local name
    foreign_names='' strange_names=()
    foreign_functions=$(declare -Fx)
    foreign_functions=${foreign_functions//declare -fx /}
    while IFS= read -r name; do
        case $name in
            HOME | USER | LOGNAME | SHELL | PATH | HOSTNAME | MAIL | LANG | LANGUAGE | LC_* | LOCPATH) ;;
            LOCALE_ARCHIVE | TZ | TZDIR | TMPDIR | TMUX_TMPDIR | TERM | TERMINFO | TERMINFO_DIRS) ;;
            COLORTERM | XDG_* | DISPLAY | WAYLAND_DISPLAY | XAUTHORITY | WINDOWID) ;;
            DBUS_SESSION_BUS_ADDRESS | SSH_AUTH_SOCK | SSH_AGENT_PID | SSH_CONNECTION | SSH_CLIENT) ;;
            SSH_TTY | SSH_ASKPASS | KRB5CCNAME | EDITOR | VISUAL | LD_LIBRARY_PATH | LD_PRELOAD | DYLD_*) ;;
            '' | BASH_FUNC_*) ;;
            # What no shell can unset.
            BASHOPTS | SHELLOPTS | BASH_VERSINFO | EUID | PPID | UID) strange_names+=(-u "$name") ;;
            *[!A-Za-z0-9_]* | [0-9]*) strange_names+=(-u "$name") ;;
            *) foreign_names="$foreign_names $name" ;;
        esac
    done <<END
$(exported_names)
END
}

# Whether `reply` says that what was asked for is not there (any more). A server
# that is just starting has no session at all, and therefore no current target.
nothing_there() {
    case $reply in
        *"can't find "* | *"$CHANGED" | *'no current target'* | *'no sessions'* | \
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
    if ! version=$(client -V </dev/null 2>&1); then
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
# `windows` (the ids of the task's windows), `primary` (the lowest pane id of the
# last of them: a user's split never takes its place), `dead` (1 when that has ended, 0
# when it runs, `new` when another launch has made it for a task) and `named` (what tmux
# says of all windows of that name).
look() {
    list_windows
    if [ -z "$session_id" ] && follow_rename; then list_windows; fi
}

# Sets `session` to the name that the session has now which a living daemon was
# asked for by this one. Fails when there is none.
follow_rename() {
    local id pid name
    ask list-sessions -F '#{session_id} #{@tmux_task_daemon} +#{@tmux_task_name}+' || return 1
    while read -r id pid name; do
        if [ "$name" = "+$session+" ] && kill -0 "$pid" 2>/dev/null; then
            ask display-message -p -t "$id:" '#{session_name}' || return 1
            session=$reply
            task_script "${command[@]}"
            return 0
        fi
    done <<END
$reply
END
    return 1
}

list_windows() {
    local id window pane same is_task is_dead daemon seen name lowest='' others=''
    # Whether the pane runs a shell that was opened without a command, tmux has named the
    # window after what runs in it, or the window belongs to further sessions.
    # shellcheck disable=SC2016 # tmux expands it
    local bare='#{||:#{==:#{pane_start_command},},#{||:#{==:#{pane_start_command},#{default-command}},#{||:#{==:#{pane_start_command},"#{default-command}"},#{||:#{automatic-rename},#{window_linked}}}}}'
    session_id='' windows='' primary='' dead='' named='' has_daemon=''
    # `list-commands` would start a server, which -N forbids.
    if ! ask_in_time -N list-panes -s -t "=$session:" -F \
        "#{session_id} #{window_id} #{pane_id} $IS_NAMED #{?#{||:#{==:#{@tmux_task_pane},},#{==:#{@tmux_task_pane},#{window_id}}},#{?#{||:#{@tmux_task_command},#{@pi_task_command}},1,#{?$bare,0,1}},0} #{?$(is_stand_in ''),new,#{pane_dead}} #{?@tmux_task_daemon,1,0} +$NAMED +#{session_name}+" \; \
        list-commands -F "$INHERITED" list-commands \; \
        show-options -q -t "=$session:" @tmux_task_command \; \
        show-options -q -t "=$session:" @pi_task_command; then
        if nothing_there || [[ $reply == *'No such file or directory'* ]]; then return; fi
        fail 1 "could not look at session \`$session\`: ${reply##*$'\n'}"
    fi
    refuse_inherited
    while read -r id window pane same is_task is_dead daemon seen name; do
        # Where no session has the name, tmux takes the client of that name. Between two marks, blanks
        # at its ends are kept.
        [ "$name" = "+$session+" ] || continue
        session_id=$id
        has_daemon=$daemon
        named=${seen#+}
        [ "$same" = 1 ] || continue
        case " $windows $others " in
            *" $window "*) ;;
            *)
                # A person's window that tmux has named after what runs in it is no task.
                if [ "$is_task" = 0 ]; then
                    others="$others $window"
                    continue
                fi
                windows="$windows${windows:+ }$window"
                lowest=''
                ;;
        esac
        case " $windows " in *" $window "*) ;; *) continue ;; esac
        if [ -z "$lowest" ] || [ "${pane#%}" -lt "$lowest" ]; then
            lowest=${pane#%}
            primary=$pane
            dead=$is_dead
        fi
    done <<END
$(sort_panes <<<"$reply")
END
}

# refuse_inherited: fails when options that mark a window as a task's are set for more
# than one window: any shell would count as a task then, and be replaced.
refuse_inherited() {
    local name
    case $reply in
        *$'\n'"inherited @"*)
            name=${reply##*$'\n'inherited }
            name=${name%%$'\n'*}
            fail 1 "$name is set for all windows: any shell would count as a task" \
                "\`tmux set-option -gu $name\` unsets it (-gwu or -su, where it was set so)"
            ;;
    esac
    for name in @tmux_task_command @pi_task_command; do
        case $reply$'\n' in
            *$'\n'"$name ''"$'\n'*) ;;
            *$'\n'"$name "*)
                fail 1 "$name is set on the session: any shell in it would count as a task" \
                    "\`tmux set-option -t '=$session:' -u $name\` unsets it"
                ;;
        esac
    done
}

# Puts the panes of each window in the order of their ids: the first is the primary.
sort_panes() { LC_ALL=C sort -s -t ' ' -k 3.2,3n; }

# window_options TARGET: adds what marks a window as this task's.
window_options() {
    add set-option -w -t "$1" remain-on-exit on
    add set-option -w -t "$1" monitor-bell on
    add set-option -w -t "$1" automatic-rename off
    add set-option -w -t "$1" allow-rename off
    add set-option -w -t "$1" @tmux_task_command "$shown"
    add set-option -w -t "$1" @tmux_task_cwd "$cwd"
    # In a pane that a user has split off or moved here, tmux finds the window's value.
    add set-option -w -t "$1" @tmux_task_pane other
    add set-option -pF -t "$1" @tmux_task_pane '#{window_id}'
    local started
    started=$(now_ms)
    add set-option -w -t "$1" @tmux_task_started "$started"
    add set-option -w -t "$1" @tmux_task_rerun "1 $started caller $record"
    if [ -n "$owner" ]; then
        add set-option -w -t "$1" @tmux_task_owner "$owner"
    else
        add set-option -wu -t "$1" @tmux_task_owner
    fi
}

# A window begins with a stand-in, which ends by itself, and gets the task when all
# is set: hooks of the user may run in between, wait, print, rename and make
# windows. The stand-in's last word says whose it is. Another launch of the same name
# may use the window before us.
#
# add_stand_in COMMAND...: adds the tmux command that makes a window with one.
add_stand_in() {
    format_literal "$cwd"
    add "$@" -P -F "made-$mark #{window_id} #{pane_id}" -n "$task" -c "$literal" sh -c 'exec sleep 60' "$STAND_IN window-$mark"
}

# is_stand_in WORD: prints the format that is true of a pane with the stand-in whose
# last word begins like that.
is_stand_in() { printf '%s' "#{m:*$STAND_IN $1*,#{pane_start_command}}"; }

# add_task TARGET RUN: adds what turns the window into the task's, starts it and says
# so; RUN is the count's new value, a format. Whatever fails after that, the task was
# started.
add_task() {
    window_options "$1"
    # See `settle_name`. A window that another launch has made may have its task by now.
    case $dead in
        0 | 1) ;;
        new) add set-option -wF -t "$1" @tmux_task_naming "#{?$(is_stand_in ''),$task,#{@tmux_task_naming}}" ;;
        *) add set-option -w -t "$1" @tmux_task_naming "$task" ;;
    esac
    add set-option -wF -t "$1" @tmux_task_run "$2"
    respawn "$1"
    add display-message -p -t "$1" "$STARTED"
}

# go_on_if TARGET CONDITION: adds what fails the list unless the format is true. A
# task's window keeps its dead panes anyway.
go_on_if() { add set-option -wF -t "$1" remain-on-exit "#{?$2,on,$CHANGED}"; }

# respawn TARGET: adds what starts the task in the pane.
respawn() {
    format_literal "$cwd"
    add respawn-pane -k -t "$1" -c "$literal" "${pane[@]}"
    add clear-history -t "$1"
}

# add_first_run TARGET CONDITION: adds the first run in a window of ours, if TARGET is
# it and CONDITION, a format, is true: that no other window has got the name. Else it
# closes the window.
add_first_run() {
    local before=$list task_list close is_ours
    is_ours=$(is_stand_in "window-$mark")
    list=''
    add if-shell -F -t "$1" "#{==:#{window_name},$task}" '' "rename-window -t '$1' $task"
    add_task "$1" 1
    task_list=$list
    list=''
    add kill-window -t "$1"
    close=$list
    list=''
    add if-shell -F -t "$1" "$is_ours" "$close"
    close=$list
    list=$before
    add if-shell -F -t "$1" "#{&&:$is_ours,$2}" "$task_list" "$close"
}

# Wakes the session's daemon, if it has one: it waits on this channel.
call_daemon() {
    if [ "$has_daemon" = 1 ]; then add wait-for -S "tmux-task-$session_id"; fi
}

# Creates the session with the task as its only window.
create_session() {
    local first="=$session:^" replace make close before literal_cwd is_free
    format_literal "$cwd"
    literal_cwd=$literal
    format_literal "$session"
    # While a hook of the user waits, another launch may find the session.
    is_free="#{==:$NAMED,}"
    list=''
    # The length of a history is fixed when its pane is made, so this window is replaced.
    # It has no task's name: no launch may use it.
    add new-session -d -s "$literal" -n "_$STAND_IN" -c "$literal_cwd" sh -c 'exec sleep 60' "$STAND_IN session-$mark"
    add set-option -t "=$session:" history-limit "$HISTORY_LIMIT"
    # It lives for its tasks, and not for whoever looks at it.
    add set-option -t "=$session:" destroy-unattached off
    add set-option -t "=$session:" @tmux_task_root "$(work_tree "$cwd")"
    add set-option -t "=$session:" bell-action any
    before=$list
    list=''
    add_stand_in new-window -d -k -t "$first"
    replace=$list
    list=''
    add kill-window -t "$first"
    close=$list
    list=''
    add if-shell -F -t "$first" "$is_free" "$replace" "$close"
    replace=$list
    list=''
    add_stand_in new-window -d -a -t "=$session:{end}"
    make=$list
    list=''
    add if-shell -F -t "$first" "$is_free" "$make"
    make=$list
    list=$before
    add if-shell -F -t "$first" "$(is_stand_in "session-$mark")" "$replace" "$make"
    add_first_run "$first" "#{||:$is_free,#{==:$NAMED,#{window_id}+}}"
    tell_first
}

# Creates the task's window, unless the windows of its name are others by now.
create_window() {
    local end="$session_id:{end}"
    list=''
    add set-option -F -t "$session_id:" history-limit "#{?#{==:$NAMED,$named},$HISTORY_LIMIT,$CHANGED}"
    add set-option -t "$session_id:" bell-action any
    add_stand_in new-window -d -a -t "$end"
    # A hook of the user may have renamed it, or made another window.
    go_on_if "$end" "#{&&:$(is_stand_in "window-$mark"),#{==:#{window_name},$task}}"
    add_task "$end" 1
    call_daemon
    tell
}

# A hook of the user has waited, has renamed our window, or made another one where ours
# was to be: starts the task in the one that tmux said it made for us. Where another
# launch has used that one, or made one of the name, the caller looks again.
start_in_made() {
    local made_pane=${reply##*"made-$mark @"} others
    made_pane=${made_pane#* %}
    made_pane=%${made_pane%%[!0-9]*}
    others="#{W:#{?#{&&:$IS_NAMED,#{!=:#{window_id},$made}},#{window_id}+,}}"
    list=''
    # `if-shell` does not fail where its target is gone.
    add list-panes -t "$made_pane" -F ''
    add_first_run "$made_pane" "#{==:$others,$named}"
    if [ -n "$session_id" ]; then call_daemon; fi
    tell
}

# The names of all clients that are attached to any session, as one word. A client of
# another session may get a pane's output as well: sessions can be grouped, and windows
# linked.
ATTACHED_CLIENTS='+#{S:#{?session_attached_list,#{session_attached_list}+,}}'

# control_clients: sets `clients`, the names of the server's control clients, and
# `attached`, those of all clients.
control_clients() {
    local mode all name
    clients=() attached=+
    # Without any there may be no list.
    ask list-clients -F "#{client_control_mode} $ATTACHED_CLIENTS #{client_name}" ||
        return 0
    while read -r mode all name; do
        if [ "$mode" = 1 ]; then clients+=("$name"); fi
        attached=${all:-+}
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
    local window=$1 clients attached is_first
    # Another launch has made the window, and has not started its task.
    is_first=$(is_stand_in '')
    control_clients
    list=''
    # A client that has come since they were listed is not among those in the line.
    go_on_if "$primary" "#{==:#{window_id} $ATTACHED_CLIENTS $IS_NAMED,$window ${attached//,/#,} 1}"
    # tmux up to 3.7c crashes when a pane is respawned of whose output a control
    # client has not consumed all, unless it is paused for that client. First in
    # the line: a client that has gone meanwhile fails it.
    for_clients pause
    # A live run that we replace is marked, so that its end is reported as such.
    add set-option -wF -t "$primary" @tmux_task_replaced "#{?$is_first,,#{?pane_dead,,#{pane_pid}}}"
    add set-option -t "$session_id:" bell-action any
    add_task "$primary" "#{?$is_first,1,#{e|+:#{?@tmux_task_run,#{@tmux_task_run},1},1}}"
    for_clients continue
    call_daemon
    tell
}

# Hooks that tmux runs after the line that makes a window may rename it, or one that
# waits while another launch uses the window. Gives it the name back. Until its maker
# has come here, the window is found by the option as well.
settle_name() {
    local forget=(set-option -wu -t "$window_id" @tmux_task_naming)
    if [ "$window_id" != "$made" ]; then forget=(set-option -wq -t "$window_id" remain-on-exit on); fi
    ask -N set-option -wF -t "$window_id" remain-on-exit "#{?#{==:#{window_name},$task},on,$CHANGED}" \; "${forget[@]}" ||
        [[ $reply != *"$CHANGED" ]] ||
        ask -N rename-window -t "$window_id" "$task" \; "${forget[@]}" || :
}

# Starts or reruns the task and sets `window_id`.
launch() {
    local attempt done_what ok flags made=''
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
        ok=yes
        # shellcheck disable=SC2086 # a function and the window's id
        $done_what || ok=no
        if [[ $reply == *"made-$mark @"* ]]; then
            made=${reply##*"made-$mark @"}
            made=@${made%%[!0-9]*}
        fi
        if [[ $reply == *"made-$mark @"* && $reply != *"started-$mark @"* ]]; then
            ok=yes
            start_in_made || ok=no
            if [ "$ok" = no ] && [[ $reply != *"started-$mark @"* ]]; then
                ! nothing_there ||
                    fail 1 "could not start task \`$task\`: its window was gone right after it was made" \
                        "a hook of tmux may have closed it: \`tmux show-hooks -g\` lists them"
                fail 1 "could not start task \`$task\` in the window that was made for it: ${reply##*$'\n'}"
            fi
        fi
        case $reply in
            *"started-$mark @"*)
                window_id=${reply##*"started-$mark "}
                flags=${window_id#* }
                window_id=${window_id%%[!@0-9]*}
                environment_file=''
                if [ "${flags:1:1}" = 1 ]; then settle_name; fi
                if [ "${flags:0:1}" = 1 ]; then
                    fail 1 "task \`$task\` ends as soon as it was started: tmux's option exit-unattached is on, and no client is attached" \
                        'tmux set-option -s exit-unattached off'
                fi
                return
                ;;
        esac
        # Else something came or went since the look.
        [ "$ok" = yes ] || nothing_there || [[ $reply == *'duplicate session'* ]] ||
            fail 1 "could not start task \`$task\`: ${reply##*$'\n'}"
    done
    fail 1 "could not start task \`$task\`: session \`$session\` kept changing${reply:+ (${reply##*$'\n'})}" \
        'try again'
}

# --- the call ----------------------------------------------------------------

usage_hint='tmux-task-run NAME -- COMMAND...'
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
    set -- "$program" run --session "$session" "$task" -- "$@"
    # What our own variables have hidden is the caller's again.
    eval "$environment_of_caller" 2>/dev/null || :
    exec "$@"
fi

tmux=${TMUX_TASK_TMUX:-tmux}
# Where the next client stands; nothing for where we are.
from=''
socket=${TMUX-}
socket=${socket%%,*}
find_foreign
require_tmux

# The `x` keeps a line break at the end of the directory's name.
cwd=$(pwd -P 2>/dev/null && printf x) || fail 1 'could not find the current directory: is it gone?'
cwd=${cwd%$'\n'x}
tmux=$(type -P "$tmux") || :
case $tmux in
    /*) ;;
    *) tmux=$cwd/$tmux ;;
esac
case $cwd in
    *$'\n'*) fail 1 "could not use the current directory: its name has a line break" ;;
esac
is_utf8 "$cwd" || fail 1 "could not use the current directory: its name is not UTF-8"
command=("$@")
shown=$(display_command "$@")
record=$(command_record "$@")
mark=$$-$RANDOM$RANDOM$RANDOM
find_owner
# What tmux knows of the windows of the task's name: as long as that is the same, so
# are they. A launch that has not ended yet notes the name in an option: a hook may have
# renamed its window.
IS_NAMED="#{||:#{==:#{window_name},$task},#{==:#{@tmux_task_naming},$task}}"
NAMED="#{W:#{?$IS_NAMED,#{window_id}+,}}"
# Options that no window may inherit. A format finds them also where they are set for
# all windows; that of `list-commands` is expanded for no window, and finds only those.
INHERITED="#{?#{!=:#{@tmux_task_command},},inherited @tmux_task_command,#{?#{!=:#{@pi_task_command},},inherited @pi_task_command,}}"
# What tmux says when the task runs; 1 behind the window where the server is about to
# end, and another 1 where the window's name is to be settled.
STARTED="started-$mark #{window_id} #{?exit-unattached,#{?#{m:*[1-9]*,#{S:#{session_attached}}},0,1},0}#{?@tmux_task_naming,1,0}"
write_environment
task_script "$@"

launch
if [ "${dead-}" = 0 ] && [ -t 2 ]; then
    printf '%s\n' "tmux-task-run: replaced the live run of task \`$task\`" >&2
fi
# The task runs, whether or not anybody wants to know it.
{ : 3>&1; } 2>/dev/null || exit 0
printf 'session=%s\nwindow_id=%s\ntask=%s\ncwd=%s\n' "$session" "$window_id" "$task" "$cwd"
