#!/usr/bin/env bash
# Tests of the helper, hooks/tmux-task-run.sh, without the program, from outside.
# Prints `ok STORY` or `not ok STORY`, and exits 1 if any is not ok.
#
# Everything runs on a private tmux server in a temporary directory; both are removed
# at the end.
#
# shellcheck disable=SC2016,SC1003 # dollars, backquotes and backslashes are meant as they stand
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
helper=$root/hooks/tmux-task-run.sh

# The time limit of each step, in seconds.
readonly DEADLINE=10

unset TMUX TMUX_PANE TMUX_TASK_SESSION TMUX_TASK_TMUX PI_TMUX_SESSION XDG_CONFIG_HOME TMUX_TASK_RUNTIME_DIR
unset TMUX_TASK_OWNER CLAUDE_CODE_SESSION_ID CODEX_THREAD_ID PI_SESSION_ID
export LC_ALL=C.UTF-8
# A socket's path is limited to about 100 bytes: so it is in /tmp, whatever TMPDIR is.
dir=$(cd "$(mktemp -d /tmp/tmux-task-helper.XXXXXX)" && pwd -P)
cleanup() {
    if [ -e "$dir/real-tmux" ]; then
        "$dir/real-tmux" kill-server >/dev/null 2>&1 || true
    fi
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

real_tmux=$(type -P tmux) || { echo 'not ok: tmux is missing' >&2; exit 1; }
ln -s "$real_tmux" "$dir/real-tmux"
export TMUX_TMPDIR=$dir HOME=$dir/home XDG_RUNTIME_DIR=$dir/run
mkdir "$dir/run"
mkdir "$dir/bin" "$dir/home" "$dir/code"

# The tmux of these tests reads no configuration and notes that it was called.
cat >"$dir/bin/tmux" <<END
#!/bin/sh
: >'$dir/touched'
exec '$real_tmux' -f /dev/null "\$@"
END

# Writes its words, each ended by a NUL, to the file that the first one names.
cat >"$dir/bin/words" <<'END'
#!/usr/bin/env bash
file=$1
shift
{ if [ $# -gt 0 ]; then printf '%s\0' "$@"; fi; } >"$file.part"
mv "$file.part" "$file"
END
chmod +x "$dir/bin/tmux" "$dir/bin/words"

# PATH without the program: these are the tests of the script's own work.
path=$dir/bin
old_ifs=$IFS
IFS=:
for entry in $PATH; do
    [ -x "$entry/tmux-task" ] || path=$path:$entry
done
IFS=$old_ifs
export PATH=$path
cd "$dir/code"

# --- words of the tests -------------------------------------------------------

failed=0
told=0

# is STORY ACTUAL EXPECTED
is() {
    told=$((told + 1))
    if [ "$2" = "$3" ]; then
        printf 'ok %s\n' "$1"
    else
        failed=$((failed + 1))
        printf 'not ok %s\n' "$1"
        printf '  expected: %q\n  actual:   %q\n' "$3" "$2"
    fi
}

# holds STORY COMMAND...: COMMAND succeeds.
holds() {
    local story=$1 code=0
    shift
    "$@" || code=$?
    is "$story" "$code" 0
}

# same_bytes STORY ACTUAL-FILE EXPECTED-FILE
same_bytes() {
    told=$((told + 1))
    if cmp -s "$2" "$3"; then
        printf 'ok %s\n' "$1"
    else
        failed=$((failed + 1))
        printf 'not ok %s\n' "$1"
        printf '  expected: %s\n  actual:   %s\n' "$(od -An -c "$3" | tr -s ' \n' ' ')" "$(od -An -c "$2" | tr -s ' \n' ' ')"
    fi
}

# eventually COMMAND...: waits until it succeeds, at most until the deadline.
eventually() {
    local until=$((SECONDS + DEADLINE))
    until "$@"; do
        if [ "$SECONDS" -ge "$until" ]; then
            echo "  never came true: $*"
            return 1
        fi
        sleep 0.02
    done
}

# Runs the helper; sets `out`, `err`, `code`.
run() {
    code=0
    out=$("$helper" "$@" 2>"$dir/err" </dev/null) || code=$?
    err=$(cat "$dir/err")
}

# stop TMUX: ends its server. tmux may say that the server exited unexpectedly.
stop() {
    "$1" kill-server 2>/dev/null || true
    eventually no_server "$1"
}
no_server() { ! "$1" has-session 2>/dev/null; }

# The id that the last run printed.
window() { sed -n 's/^window_id=//p' <<<"$out"; }

# show TARGET FORMAT
show() { tmux -u display-message -p -t "$1" "$2"; }

# option TARGET NAME: a window option, byte for byte.
option() { tmux -u show-options -wqv -t "$1" "$2"; }

windows() { tmux -u list-windows -t "=$1:" -F '#{window_name}' | tr '\n' ' '; }

# tmux 3.3a of Debian may miss the end of a child until it gets another signal.
ended() {
    local state
    state=$(show "$1" '#{pane_dead} #{pane_dead_status}#{pane_dead_signal}')
    case $state in
        '1 '?*) return 0 ;;
    esac
    kill -CHLD "$(show "$1" '#{pid}')" 2>/dev/null || true
    return 1
}

# ends_with STORY EXPECTED COMMAND...: the run's code, or `signal N`.
ends_with() {
    local story=$1 expected=$2 id
    shift 2
    run code -- "$@"
    id=$(window)
    eventually ended "$id" || true
    is "$story" "$(show "$id" '#{?pane_dead_signal,signal #{pane_dead_signal},#{pane_dead_status}}')" "$expected"
}

alive() { [ "$(show "$1" '#{pane_dead}')" = 0 ]; }
exists() { [ -e "$1" ]; }
holds_text() { case $(cat "$1" 2>/dev/null) in *"$2"*) ;; *) return 1 ;; esac; }

# --- what is refused before tmux is touched -----------------------------------

rm -f "$dir/touched"

run api -- true
is 'without a session variable it fails with 1' "$code" 1
holds '... and names TMUX_TASK_SESSION' holds_text "$dir/err" TMUX_TASK_SESSION
holds '... and PI_TMUX_SESSION' holds_text "$dir/err" PI_TMUX_SESSION
is '... and prints nothing on stdout' "$out" ''

TMUX_TASK_SESSION='' PI_TMUX_SESSION='' run api -- true
is 'an empty session variable counts as unset' "$code" 1

for bad in 'a.b' 'a:b' '=a.b' '$1' 'a\b' $'a\tb' $'\xff' $'a\xff ; run-shell "touch owned" #' $'\xe9t\xe9'; do
    TMUX_TASK_SESSION=$bad run api -- true
    is "session name $(printf %q "$bad") is refused with 2" "$code" 2
done

export TMUX_TASK_SESSION=refused
forty=abcdefghijklmnopqrstuvwxyz0123456789ABCD
for bad in '' . .a -a _a 'a b' 'a:b' 'a/b' "a'b" 'a;' ä 'a#{pid}' $'a\nb' '*' "${forty}E"; do
    run "$bad" -- true
    is "task name $(printf %q "$bad") is refused with 2" "$code" 2
    holds '... saying what is allowed' holds_text "$dir/err" 'A-Z a-z 0-9 . _ -'
    is '... on one line and a hint' "$(wc -l <"$dir/err" | tr -d ' ')" 2
done

run
is 'no task name: 2' "$code" 2
run api
is 'no command: 2' "$code" 2
run api --
is 'no command after --: 2' "$code" 2
run api -- ' '
is 'a blank command: 2' "$code" 2
run api true
is 'no --: 2' "$code" 2
holds '... and says so' holds_text "$dir/err" '`--` must stand'
run --help
is '--help: 0' "$code" 0
case $out in 'Usage: tmux-task-run NAME -- COMMAND...'*) usage=yes ;; *) usage=no ;; esac
is '... prints the usage on stdout' "$usage" yes

TMUX_TASK_TMUX=$dir/no-such-tmux run api -- true
is 'no tmux: 1' "$code" 1
is '... one line says which' "$(head -n 1 "$dir/err")" "tmux-task-run: could not start \`$dir/no-such-tmux\`: no such program"

for version in 'tmux 3.1c' 'tmux 2.9' 'tmux 1.8'; do
    printf '#!/bin/sh\necho "%s"\n' "$version" >"$dir/old-tmux"
    chmod +x "$dir/old-tmux"
    TMUX_TASK_TMUX=$dir/old-tmux run api -- true
    is "$version is too old: 1" "$code" 1
    holds '... one line says so' holds_text "$dir/err" 'is too old: it is'
done

mkdir "$dir/program"
printf '#!/bin/sh\nprintf "<%%s>" "$@"\nexit 7\n' >"$dir/program/tmux-task"
chmod +x "$dir/program/tmux-task"
PATH=$dir/program:$PATH run api -- echo 'a b' ''
is 'the program, where it is on PATH, gets the call' "$out" '<run><--session><refused><api><--><echo><a b><>'
is '... and its code is ours' "$code" 7
PATH=$dir/program:$PATH run 'a b' -- true
is '... but never a name that is refused' "$code" 2

holds 'none of that touched tmux' test ! -e "$dir/touched"

ln -s "$helper" "$dir/bin/tmux-task"
TMUX_TASK_SESSION=itself run api -- 'exec sleep 1000'
is 'the script installed as tmux-task does not call itself' "$code" 0
rm "$dir/bin/tmux-task"
tmux kill-session -t '=itself'

# --- creating and reusing -----------------------------------------------------

export TMUX_TASK_SESSION=first
mkdir -p "$dir/code/project/.git" "$dir/code/project/src/deep"
cd "$dir/code/project/src/deep"
run api -- 'printf "%s|" "$TMUX_TASK_SESSION" "$PI_TMUX_SESSION" "${PI_SESSION_ID-unset}" "${PI_TMUX_ROOT_CWD-unset}" "$PWD" "${-//[!eu]/}" >'"$dir/env.part; mv $dir/env.part $dir/env; sleep 1000"
id=$(window)
is 'a launch prints exactly four lines' "$out" "session=first
window_id=$id
task=api
cwd=$dir/code/project/src/deep"
is '... nothing on stderr' "$err" ''
is '... and the task is the only window' "$(windows first)" 'api '
holds 'the task runs' eventually exists "$dir/env"
is '@tmux_task_run is 1' "$(option "$id" @tmux_task_run)" 1
is '@tmux_task_cwd is the directory' "$(option "$id" @tmux_task_cwd)" "$dir/code/project/src/deep"
is '@tmux_task_root is the work tree' "$(tmux show-options -qv -t '=first:' @tmux_task_root)" "$dir/code/project"
is '@tmux_task_replaced is not set' "$(option "$id" @tmux_task_replaced)" ''
is 'remain-on-exit' "$(option "$id" remain-on-exit)" on
is 'monitor-bell' "$(option "$id" monitor-bell)" on
is 'automatic-rename' "$(option "$id" automatic-rename)" off
is 'allow-rename' "$(option "$id" allow-rename)" off
is 'bell-action' "$(tmux show-options -qv -t '=first:' bell-action)" any
started=$(option "$id" @tmux_task_started)
is '@tmux_task_started is in milliseconds' "${#started}" 13
cd "$dir/code"

run web -- 'sleep 1000'
is 'a second task is a second window' "$(windows first)" 'api web '
is '... and does not become the current one' "$(show '=first:' '#{window_name}')" api

old_pid=$(show "$id" '#{pane_pid}')
# A different window is current, and the task's window is split.
tmux split-window -d -b -t "$id" 'sleep 1000'
tmux select-window -t '=first:{end}'
primary=$(tmux list-panes -t "$id" -F '#{pane_id}' | sort -t% -k2n | head -n 1)
extra=$(tmux list-panes -t "$id" -F '#{pane_id}' | sort -t% -k2n | tail -n 1)
extra_pid=$(show "$extra" '#{pane_pid}')
tmux select-pane -t "$extra"
run api -- 'echo again; sleep 1000'
is 'a rerun keeps the window' "$(window)" "$id"
is '... counts up' "$(option "$id" @tmux_task_run)" 2
is '... marks the live run as replaced' "$(option "$id" @tmux_task_replaced)" "$old_pid"
is '... leaves the extra pane alone' "$(show "$extra" '#{pane_pid} #{pane_dead}')" "$extra_pid 0"
is '... and which window is current' "$(show '=first:' '#{window_name}')" web
new_pid=$(show "$primary" '#{pane_pid}')
holds '... and runs in the primary pane' test "$new_pid" != "$old_pid"
old_gone() { ! kill -0 "$old_pid" 2>/dev/null; }
holds '... and the old process is gone' eventually old_gone
again_shown() { [ "$(tmux capture-pane -p -S - -t "$primary" | sed '/^$/d')" = again ]; }
holds '... with the screen and history of the new run only' eventually again_shown
tmux kill-pane -t "$extra"

run api -- true
holds 'a run ends' eventually ended "$id"
run api -- 'sleep 1000'
is 'a rerun of an ended run counts up' "$(option "$id" @tmux_task_run)" 4
is '... and does not mark it as replaced' "$(option "$id" @tmux_task_replaced)" ''
is '... and is alive' "$(show "$id" '#{pane_dead}')" 0

tmux new-session -d -s bystander -n api2 'sleep 1000'
tmux set-option -t '=bystander:' bell-action none
export TMUX_TASK_SESSION=bystander
run api -- 'sleep 1000'
is 'a session that stands there already is used' "$(windows bystander)" 'api2 api '
is '... and its bells are let through' "$(tmux show-options -qv -t '=bystander:' bell-action)" any

unset TMUX_TASK_SESSION
PI_TMUX_SESSION=pi run api -- 'sleep 1000'
is 'PI_TMUX_SESSION names the session too' "$(windows pi)" 'api '
TMUX_TASK_SESSION=mine PI_TMUX_SESSION=pi run api -- 'sleep 1000'
is 'TMUX_TASK_SESSION goes before it' "$(windows mine)" 'api '
TMUX_TASK_SESSION='' PI_TMUX_SESSION=pi run web -- 'sleep 1000'
is 'an empty TMUX_TASK_SESSION gives way' "$(windows pi)" 'api web '

# --- environment --------------------------------------------------------------

is 'inside: the session in both variables, the directory, errexit and nounset' "$(cat "$dir/env")" \
    "first|first|unset|unset|$dir/code/project/src/deep|eu|"

export TMUX_TASK_SESSION=environment
tmux set-environment -g PI_SESSION_ID leaked \; set-environment -g PI_TMUX_ROOT_CWD leaked
run api -- 'echo "${PI_SESSION_ID-unset} ${PI_TMUX_ROOT_CWD-unset}" >'"$dir/env2.part; mv $dir/env2.part $dir/env2"
holds 'a task of a server with Pi variables runs' eventually exists "$dir/env2"
is '... and does not see them' "$(cat "$dir/env2")" 'unset unset'
tmux set-environment -gu PI_SESSION_ID \; set-environment -gu PI_TMUX_ROOT_CWD

export TMUX_TASK_SESSION=variables
fresh() { rm -f "$dir/seen"; }
env0="env -0 >$dir/seen.part; mv $dir/seen.part $dir/seen"
has() { tr '\0' '\n' <"$dir/seen" | grep -qxF -e "$1"; }
lacks() { ! tr '\0' '\n' <"$dir/seen" | grep -q "^$1="; }
fresh
session=s task=t tmux=x name=n list=l cwd=c quoted=q LOAD=1 ATTEMPTS=2 run own -- "$env0"
holds 'variables named like ours run' eventually exists "$dir/seen"
for variable in session=s task=t tmux=x name=n list=l cwd=c quoted=q LOAD=1 ATTEMPTS=2; do
    holds "... and reach the task: $variable" has "$variable"
done
fresh
TMUX_TASK_RUNTIME_DIR=$dir/runtime run own -- "$env0"
holds 'a named runtime folder is used' eventually exists "$dir/seen"
is '... for us alone' "$(find "$dir/runtime" -prune -perm 700)" "$dir/runtime"
is '... and nothing stays in it' "$(ls "$dir/runtime")" ''
chmod 777 "$dir/runtime"
TMUX_TASK_RUNTIME_DIR=$dir/runtime run own -- true
is 'a runtime folder that others can write to is refused' "$code" 1
ln -s "$dir/code" "$dir/linked"
TMUX_TASK_RUNTIME_DIR=$dir/linked run own -- true
is '... and a link' "$code" 1
TMUX_TASK_RUNTIME_DIR=relative run own -- true
is '... and one that is not absolute' "$code" 1

owner() { option "$(window)" @tmux_task_owner; }
run own -- true
is 'a person owns nothing' "$(owner)" ''
CLAUDE_CODE_SESSION_ID=c1 CODEX_THREAD_ID=x1 run own -- true
is 'the conversation of the caller is the owner' "$(owner)" claude:c1
PI_SESSION_ID=$'p1\n#{pid} #(touch owned)' run own -- true
is '... as one line' "$(owner)" 'pi:p1 #{pid} #(touch owned)'
TMUX_TASK_OWNER=me CODEX_THREAD_ID=x1 run own -- true
is 'TMUX_TASK_OWNER goes before it' "$(owner)" me
run own -- true
is 'a rerun by a person has no owner' "$(owner)" ''
holds '... and nothing of it is run' test ! -e owned

# --- how runs end -------------------------------------------------------------

export TMUX_TASK_SESSION=codes
ends_with 'code 0' 0 true
ends_with 'code 3' 3 'exit 3'
ends_with 'code 3 of an argv' 3 bash -c 'exit 3'
ends_with 'code 255' 255 'exit 255'
ends_with 'code of the last command, also where errexit does not count it' 1 'false && true'
ends_with 'errexit: the first failure ends it' 4 '(exit 4); exit 0'
ends_with 'pipefail' 5 '(exit 5) | true'
ends_with 'nounset' 1 'echo $no_such_variable; exit 0'
ends_with 'a child killed by a signal is 128+N' 137 'sh -c '\''kill -KILL $$'\'
ends_with '... an argv too' 143 sh -c 'kill -TERM $$'
ends_with "the shell's own death by a signal is one" 'signal 9' 'kill -KILL $$'
ends_with 'a missing program is 127' 127 no-such-program
ends_with 'a comment at the end hides nothing' 6 '(exit 6) # the end'
ends_with 'nor a backslash' 0 'true \'
ends_with 'an argv that begins like an assignment is a command' 127 A=b true

# --- words kept exactly -------------------------------------------------------

export TMUX_TASK_SESSION=words
long=$(printf '%030000d' 0)
awkward=('' ' ' "it's" '"' "'" "''" '\' '\\' 'a\' $'two\nlines' $'\n' $'a\n   # indented\n' $'tab\there' ';' 'x;' ';;' '\;' '#{pid}' '##' '#[x]' '#(id)'
    '$(id)' '`id`' '$HOME' '~' '*' '{a,b}' '}' '%1' '!!' '-x' '--' 'ünï→日本' 'A=b' '#' '&&' '|' "$long"
    $'a\xff ; run-shell "touch owned" #' $'\xff' $'\xff\xfe\xc3')
every=''
for ((byte = 1; byte < 256; byte++)); do
    printf -v one '\\x%02x' "$byte"
    printf -v one '%b' "$one"
    every=$every$one
    awkward+=("<$one>")
done
awkward+=("$every")
printf '%s\0' "${awkward[@]}" >"$dir/expected"
run words -- "$dir/bin/words" "$dir/new" "${awkward[@]}"
is 'a launch with every awkward word' "$code" 0
holds '... runs' eventually exists "$dir/new"
same_bytes '... in a new session it gets them byte for byte' "$dir/new" "$dir/expected"
run words2 -- "$dir/bin/words" "$dir/window" "${awkward[@]}"
holds '... also in a new window' eventually exists "$dir/window"
same_bytes '... byte for byte' "$dir/window" "$dir/expected"
run words -- "$dir/bin/words" "$dir/rerun" "${awkward[@]}"
holds '... also in a rerun' eventually exists "$dir/rerun"
same_bytes '... byte for byte' "$dir/rerun" "$dir/expected"

holds '... and nothing of it is run by tmux' test ! -e owned

line="$dir/bin/words $dir"'/line "a  b" '\''it'\''\'\'''\''s'\'' "#{pid}" "$(echo sub)" "${#HOME}x"
  '"$dir/bin/words $dir"'/line2 second\;;'
printf '%s\0' 'a  b' "it's" '#{pid}' sub "${#HOME}x" >"$dir/expected"
run line -- "$line"
id=$(window)
holds 'one word is a shell line' eventually exists "$dir/line2"
same_bytes '... run as it stands' "$dir/line" "$dir/expected"
printf '%s\0' 'second;' >"$dir/expected"
same_bytes '... all of its lines' "$dir/line2" "$dir/expected"

shown() { # STORY EXPECTED WORD...
    local story=$1 expected=$2
    shift 2
    run shown -- "$@"
    is "@tmux_task_command: $story" "$(option "$(window)" @tmux_task_command)" "$expected"
}
shown 'a shell line stands as it is' "echo 'a' ; # \$(id) #{pid} #[x] ü;" "echo 'a' ; # \$(id) #{pid} #[x] ü;"
shown 'blanks and line breaks are folded' 'echo a b' $'  echo\t a\r\n\n b\v\f '
shown 'words are joined' 'npm run --port=80 a/b,c:d@e%f+g ü' npm run --port=80 a/b,c:d@e%f+g ü
shown 'words that need it are quoted' "echo '' 'a b' '\$x' '*' 'it'\\''s' ';'" echo '' 'a b' '$x' '*' "it's" ';'
shown 'a word that looks like an option' "-x" -x
shown 'a lone semicolon' ';' ';'

# --- directories kept exactly -------------------------------------------------

export TMUX_TASK_SESSION=directories
here() { # STORY: three ways to start
    local slot
    rm -f "$dir/here"
    for slot in "$2" "$2"; do
        run "$slot" -- "pwd >$dir/here.part; mv $dir/here.part $dir/here"
        eventually exists "$dir/here" || true
        is "$1" "$(cat "$dir/here" 2>/dev/null)" "$PWD"
        is '... printed' "$(tail -n 1 <<<"$out")" "cwd=$PWD"
        is '... recorded' "$(option "$(window)" @tmux_task_cwd)" "$PWD"
        rm -f "$dir/here"
    done
}
n=0
for name in 'a b' "it's" 'say "x"' '#{pid}' '##{pid}' '#[x]' '##[x]' '###' 'a#' '$(id)' '#(id)' '%H' 'ü→日本' 'end;' ';' '~' '{a,b}' 'back\slash' '*' '-x' '$HOME' '  '; do
    n=$((n + 1))
    mkdir -p "$dir/code/$name"
    cd "$dir/code/$name"
    here "directory $(printf %q "$name")" "d$n"
done
cd "$dir/code"
mkdir "$dir/code/"'#{pid} new;'
cd "$dir/code/"'#{pid} new;'
TMUX_TASK_SESSION=directories2 here 'directory of a new session' d
is '@tmux_task_root outside a work tree is the directory' "$(tmux show-options -qv -t '=directories2:' @tmux_task_root)" "$PWD"
for name in $'a\xff ; run-shell "touch owned" #' $'\xff' $'\xe9t\xe9'; do
    mkdir -p "$dir/code/$name"
    cd "$dir/code/$name"
    run refused -- true
    is "directory $(printf %q "$name") is refused with 1" "$code" 1
    is '... one line says so' "$(cat "$dir/err")" \
        'tmux-task-run: could not use the current directory: its name is not UTF-8'
    holds '... and nothing of it is run by tmux' test ! -e owned
done
cd "$dir/code"
ln -s "$dir/code/a b" "$dir/code/link"
cd "$dir/code/link"
run link -- 'sleep 1000'
is 'a link to a directory is resolved' "$(tail -n 1 <<<"$out")" "cwd=$dir/code/a b"
cd "$dir/code"
mkdir "$dir/code/gone"
cd "$dir/code/gone"
rmdir "$dir/code/gone"
run gone -- true
is 'a directory that is gone: 1' "$code" 1
# Bash itself may complain before the script begins.
is '... one line says so' "$(grep -c '^tmux-task-run: ' "$dir/err")" 1
cd "$dir/code"

# --- whose window it is -------------------------------------------------------

export TMUX_TASK_SESSION=api
run api2 -- 'sleep 1000'
id2=$(window)
run api -- 'sleep 1000'
id=$(window)
run api.v2 -- 'sleep 1000'
id3=$(window)
is 'task api beside api2 and api.v2 in a session api: a window each' "$(windows api)" 'api2 api api.v2 '
run api -- 'sleep 1000'
is 'rerun of the task named like the session' "$(window) $(option "$id" @tmux_task_run)" "$id 2"
run api.v2 -- 'sleep 1000'
is 'rerun of a dotted name' "$(window) $(option "$id3" @tmux_task_run)" "$id3 2"
run ap -- 'sleep 1000'
is 'a prefix of a name is another task' "$(windows api)" 'api2 api api.v2 ap '
is 'none of them was hit by mistake' "$(option "$id2" @tmux_task_run)" 1
TMUX_TASK_SESSION=ap run x -- 'sleep 1000'
is 'a prefix of a session name is another session' "$(windows ap)" 'x '
TMUX_TASK_SESSION='api*' run x -- 'sleep 1000'
is 'a pattern is no pattern in a session name' "$(windows 'api*')" 'x '

for odd in "a 'b' \"c\";" '#{pid} #[x]' '=x' '@1' '%1' '-x' '{end}' '~' 'ü→'; do
    TMUX_TASK_SESSION=$odd run one -- 'sleep 1000'
    TMUX_TASK_SESSION=$odd run two -- 'sleep 1000'
    TMUX_TASK_SESSION=$odd run one -- 'sleep 1000'
    is "session name $(printf %q "$odd")" "$(head -n 1 <<<"$out") $(windows "$odd")$(option "$(window)" @tmux_task_run)" "session=$odd one two 2"
done

export TMUX_TASK_SESSION=twice
run api -- 'sleep 1000'
one=$(window)
tmux new-window -d -t '=twice:' -n api 'sleep 1000'
two=$(show '=twice:{end}' '#{window_id}')
run api -- 'sleep 1000'
is 'two windows of a name: 1' "$code" 1
holds '... naming one' holds_text "$dir/err" "$one"
holds '... and the other' holds_text "$dir/err" "$two"
is '... and neither is touched' "$(option "$one" @tmux_task_run)" 1

tmux link-window -d -s "$one" -t '=first:'
TMUX_TASK_SESSION=first run other -- 'sleep 1000'
tmux unlink-window -t "=first:$(tmux list-windows -t '=first' -F '#{window_id} #{window_index}' | sed -n "s/^$one //p")"
tmux kill-window -t "$two"
tmux link-window -d -s "$one" -t '=twice:9'
run api -- 'sleep 1000'
is 'one window linked twice is one window' "$(window) $code" "$one 0"

export TMUX_TASK_SESSION=shells
tmux new-session -d -s shells -n node
shell=$(show '=shells:' '#{window_id} #{pane_pid}')
run node -- 'sleep 1000'
is "a person's shell of that name is left alone" "$code $(windows shells)" '0 node node '
is '... its process too' "$(show "${shell%% *}" '#{window_id} #{pane_pid}')" "$shell"
slot=$(window)
run node -- 'sleep 1000'
is '... and the task is run again in its own' "$code $(window) $(option "$slot" @tmux_task_run)" "0 $slot 2"
tmux kill-window -t "${shell%% *}"
tmux set-option -g default-command 'exec /bin/sh'
tmux new-window -d -t '=shells:' -n sh
run sh -- 'sleep 1000'
is '... also where shells are started by default-command' "$code $(windows shells | tr ' ' '\n' | sort | tr -s '\n' ' ')" '0 node sh sh '
tmux set-option -gu default-command
tmux set-option -g automatic-rename-format sleep
tmux new-window -d -t '=shells:' sleep 901
other=$(show '=shells:{end}' '#{window_id}')
named() { [ "$(show "$other" '#{window_name}')" = sleep ]; }
holds 'tmux names a window after its program' eventually named
pid=$(show "$other" '#{pane_pid}')
run sleep -- 'exec sleep 1000'
slot=$(window)
run sleep -- 'exec sleep 1000'
is '... which is no slot then' "$code $(window) $(show "$other" '#{pane_pid} #{pane_dead}')" "0 $slot $pid 0"

# --- with a configuration of the user's ---------------------------------------------

# hooked STORY HOOK COMMAND: launches, launches again and makes a second task.
hooked() {
    local story=$1 first second other
    tmux set-hook -g "$2" "$3"
    export TMUX_TASK_SESSION=hooked
    : >"$dir/runs"
    run api -- "echo run >>$dir/runs"
    first="$code $(window)"
    eventually ended "$(window)" || true
    run api -- "echo run >>$dir/runs"
    second="$code $(window)"
    eventually ended "$(window)" || true
    run web -- 'exit 3'
    eventually ended "$(window)" || true
    other="$code $(show "$(window)" '#{window_name} #{pane_dead_status}')"
    is "$story" "$first $other $(wc -l <"$dir/runs" | tr -d ' ')" "$second 0 web 3 2"
    is '... a window each' "$(tmux list-windows -t '=hooked' -F '#{@tmux_task_command}' | grep -c .)" 2
    tmux set-hook -gu "$2"
    tmux kill-session -t '=hooked'
}
hooked 'a hook that renames new windows' after-new-window 'rename-window x#I'
hooked 'a hook that waits after a new session' after-new-session 'run-shell "sleep 0.2"'
hooked 'a hook that waits when a session is made' session-created 'run-shell "sleep 0.2"'
hooked 'a hook that waits after a new window' after-new-window 'run-shell "sleep 0.2"'
hooked 'a hook that prints after a new window' after-new-window 'run-shell "echo new"'
hooked 'a hook that says something after a new window' after-new-window 'display-message -p "window @99"'
hooked 'a hook that makes a window after a new window' after-new-window 'new-window -d "sleep 1000"'
hooked 'a hook that splits a new window' after-new-window 'split-window -d "sleep 1000"'
hooked 'a hook that splits before' after-new-window 'split-window -d -b "sleep 1000"'
hooked 'a hook that waits after an option is set' after-set-option 'run-shell "sleep 0.02"'

echo 'set-option -s exit-unattached on' >"$dir/unattached.conf"
printf '#!/bin/sh\nexec "%s" -L unattached -f "%s" "$@"\n' "$real_tmux" "$dir/unattached.conf" >"$dir/unattached-tmux"
chmod +x "$dir/unattached-tmux"
TMUX_TASK_TMUX=$dir/unattached-tmux TMUX_TASK_SESSION=unattached run api -- 'sleep 1000'
is 'exit-unattached: 1' "$code" 1
is '... one line says so' "$(head -n 1 "$dir/err")" \
    "tmux-task-run: task \`api\` ends as soon as it was started: tmux's option exit-unattached is on, and no client is attached"

# --- a session that was renamed ------------------------------------------------

# As a daemon leaves it that was asked for `given`: any process that lives will do.
export TMUX_TASK_SESSION=given
tmux new-session -d -s 'now § 2' -n stay 'sleep 1000'
tmux set-option -t '=now § 2:' @tmux_task_name given
tmux set-option -t '=now § 2:' @tmux_task_daemon $$
run api -- "'$dir/bin/words' '$dir/names' \"\$TMUX_TASK_SESSION\" \"\$PI_TMUX_SESSION\"; sleep 1000"
is 'the name that its daemon has it by is as good' "$code ${out%%$'\n'*}" '0 session=now § 2'
is '... one session' "$(windows 'now § 2')" 'stay api '
holds '... whose name the task knows' eventually test -s "$dir/names"
is '... by both variables' "$(tr '\0' '|' <"$dir/names")" 'now § 2|now § 2|'
tmux set-option -t '=now § 2:' @tmux_task_daemon 99999999
run api -- 'sleep 1000'
is '... unless that daemon is gone' "$code ${out%%$'\n'*}" '0 session=given'
tmux set-option -t '=now § 2:' @tmux_task_daemon $$
run web -- 'sleep 1000'
is '... or another session has it' "$code $(windows given)" '0 api web '

# --- many at once -------------------------------------------------------------

# at_once SESSION EXISTING
at_once() {
    local i pids=''
    export TMUX_TASK_SESSION=$1
    for i in 1 2 3 4 5 6; do
        "$helper" api -- 'sleep 1000' >"$dir/out.$i" 2>&1 </dev/null &
        pids="$pids $!"
    done
    code=0
    for i in $pids; do wait "$i" || code=$?; done
    is "six at once $2: all succeed" "$code" 0
    is '... one window' "$(tmux list-windows -t "=$1" -F '#{window_name}' | grep -c '^api$')" 1
    is '... told to all six' "$(cat "$dir"/out.? | sort | uniq -c | tr -s ' \n' ' ')" \
        " 6 cwd=$dir/code 6 session=$1 6 task=api 6 window_id=$(show "=$1:{end}" '#{window_id}') "
    is '... six runs' "$(option "=$1:{end}" @tmux_task_run)" 6
    holds '... the last one alive' alive "=$1:{end}"
}
at_once together 'in a new session'
tmux new-session -d -s together2 -n stay 'sleep 1000'
at_once together2 'in a new window'
at_once2() {
    tmux kill-server
    at_once "$1" 'without a server'
}
at_once2 together3

# beside_hook STORY HOOK COMMAND: three at once, in a new session and in a new window. The
# server is the test's own, so that the hook is there when the session is made.
beside_hook() {
    local i pids where
    printf 'set-hook -g %s "%s"\n' "$2" "${3//\"/\\\"}" >"$dir/hooked.conf"
    printf '#!/bin/sh\nexec "%s" -L beside -f "%s" "$@"\n' "$real_tmux" "$dir/hooked.conf" >"$dir/hooked-tmux"
    chmod +x "$dir/hooked-tmux"
    export TMUX_TASK_SESSION=beside
    for where in 'a new session' 'a new window'; do
        if [ "$where" = 'a new window' ]; then
            "$dir/hooked-tmux" new-session -d -s beside -n stay 'sleep 1000'
        fi
        pids=''
        for i in 1 2 3; do
            TMUX_TASK_TMUX=$dir/hooked-tmux "$helper" api -- 'sleep 1000' >"$dir/out.$i" 2>&1 </dev/null &
            pids="$pids $!"
        done
        code=0
        for i in $pids; do wait "$i" || code=$?; done
        is "$1: three at once in $where succeed" "$code" 0
        is '... one window, whose runs are counted' \
            "$("$dir/hooked-tmux" list-windows -t '=beside' -F '#{?@tmux_task_command,#{window_name} #{@tmux_task_run} #{pane_dead} #{history_limit},}' | grep .)" \
            'api 3 0 50000'
        TMUX_TASK_TMUX=$dir/hooked-tmux run api -- 'sleep 1000'
        is '... which is the slot' \
            "$("$dir/hooked-tmux" list-windows -t '=beside' -F '#{?@tmux_task_command,#{window_name} #{@tmux_task_run},}' | grep .)" \
            'api 4'
        stop "$dir/hooked-tmux"
    done
}
beside_hook 'a hook that renames new windows' after-new-window 'rename-window x#I'
beside_hook 'a hook that waits after a new session' after-new-session 'run-shell "sleep 0.2"'
beside_hook 'a hook that waits after a new window' after-new-window 'run-shell "sleep 0.2"'
beside_hook 'a hook that waits and renames' after-new-window 'run-shell "sleep 0.2" ; rename-window x#I'
beside_hook 'a hook that renames after the launch' window-linked 'rename-window x#I'

export TMUX_TASK_SESSION=closing
tmux new-session -d -s closing -n stay 'sleep 1000'
tmux set-hook -g after-new-window kill-window
run api -- true
is 'a hook that closes new windows: 1' "$code" 1
is '... one line says so, and a hint why' "$err" \
    'tmux-task-run: could not start task `api`: its window was gone right after it was made
hint: a hook of tmux may have closed it: `tmux show-hooks -g` lists them'
is '... and nothing is left' "$(windows closing)" 'stay '
tmux set-hook -gu after-new-window

# --- without stdin, and elsewhere ----------------------------------------------

export TMUX_TASK_SESSION=closed
code=0
out=$("$helper" api -- 'sleep 1000' 2>"$dir/err" <&-) || code=$?
is 'with stdin closed' "$code $(windows closed)" '0 api '

printf '#!/bin/sh\nexec "%s" -L other -f /dev/null "$@"\n' "$real_tmux" >"$dir/other-tmux"
chmod +x "$dir/other-tmux"
TMUX_TASK_TMUX=$dir/other-tmux run elsewhere -- 'sleep 1000'
is 'TMUX_TASK_TMUX names the program' "$("$dir/other-tmux" list-windows -t '=closed' -F '#{window_name}')" elsewhere
socket=$("$dir/other-tmux" display-message -p '#{socket_path},#{pid},0')
TMUX=$socket run inside -- 'sleep 1000'
is 'TMUX names the server' "$("$dir/other-tmux" list-windows -t '=closed' -F '#{window_name}' | tr '\n' ' ')" 'elsewhere inside '
"$dir/other-tmux" kill-server

# --- a server that it starts ---------------------------------------------------

printf '#!/bin/sh\nexec "%s" -L started -f /dev/null "$@"\n' "$real_tmux" >"$dir/started-tmux"
chmod +x "$dir/started-tmux"
export TMUX_TASK_SESSION=started
exec 8>"$dir/lock"
if type -P flock >/dev/null; then flock 8; fi
TMUX_TASK_TMUX=$dir/started-tmux run api -- "pwd >$dir/stands.part; mv $dir/stands.part $dir/stands; sleep 1000"
exec 8>&-
is 'a server that it starts' "$code" 0
holds '... runs the task' eventually exists "$dir/stands"
is '... in the directory of the caller' "$(cat "$dir/stands")" "$dir/code"
if type -P flock >/dev/null; then
    holds '... and holds no lock of the caller' flock -n "$dir/lock" true
fi
if [ -d /proc/self/fd ]; then
    server=$("$dir/started-tmux" display-message -p '#{pid}')
    is '... stands in /' "$(readlink "/proc/$server/cwd")" /
    is '... and has none of its files' "$(readlink "/proc/$server"/fd/* | grep -c "^$dir")" 0
fi
stop "$dir/started-tmux"
(cd "$dir" && TMUX_TASK_TMUX=started-tmux "$helper" api -- 'sleep 1000') >/dev/null 2>"$dir/err" </dev/null || true
holds 'a program is not looked for in the directory' holds_text "$dir/err" 'no such program'
cp "$dir/started-tmux" "$dir/code/started-tmux"
TMUX_TMPDIR=../code TMUX_TASK_TMUX=./started-tmux run api -- 'sleep 1000'
is 'a relative program and a relative folder for the socket' "$code $err" '0 '
TMUX_TMPDIR=$dir/code stop "$dir/started-tmux"

# --- what it says ---------------------------------------------------------------

# says STORY NAME EXPECTED: the task's name in the error, in two locales.
says() {
    local locale
    for locale in C C.UTF-8; do
        LC_ALL=$locale run "$2" -- true
        is "$1 ($locale)" "$(head -n 1 "$dir/err")" \
            "tmux-task-run: invalid task name \`$3\`: 1 to 40 of A-Z a-z 0-9 . _ - are allowed, the first a letter or digit"
    done
}
says 'what people write stays' 'é ж日本😀→' 'é ж日本😀→'
says 'controls are not printed' $'a\u009b2J\u0085' 'a?2J?'
says '... nor are marks of direction' $'a\u202eb\u2066\u061c' 'a?b??'
says '... nor what takes no room' $'a\u200bb\ufeff\u00ad' 'a?b??'
says '... nor tags' $'a\U000e0041' 'a?'
says '... nor bytes that are not UTF-8' $'a\xff\x9b\xc3' 'a???'
TMUX=$'/no/such/\e[31m\u009b\u202e\xff,1,0' run api -- true
is '... wherever they are from' "$code $(LC_ALL=C tr -d ' -~\n' <"$dir/err" | wc -c | tr -d ' ')" '1 0'

# --- what bash obeys -------------------------------------------------------------

export TMUX_TASK_SESSION=obeyed
for setting in FUNCNEST=1 FUNCNEST=3 SHELLOPTS=keyword BASH_XTRACEFD=1 BASH_XTRACEFD=2; do
    rm -f "$dir/obeyed"
    code=0
    out=$(env "$setting" "$helper" api -- "$dir/bin/words" "$dir/obeyed" a=b 2>"$dir/err" </dev/null) || code=$?
    is "$setting" "$code $(cat "$dir/err") $(tail -n 1 <<<"$out")" "0  cwd=$dir/code"
    holds '... runs the task' eventually exists "$dir/obeyed"
    is '... with its words' "$(tr '\0' '|' <"$dir/obeyed")" 'a=b|'
done
rm -f "$dir/seen"
FUNCNEST=99 run api -- "$env0"
holds 'a variable of these' eventually exists "$dir/seen"
holds '... reaches the task' has FUNCNEST=99

echo "$((told - failed)) of $told ok"
[ "$failed" -eq 0 ]
