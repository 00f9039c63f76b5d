# shellcheck shell=bash disable=SC1090,SC1091,SC2016,SC2034,SC2064,SC2154,SC2317
#
# What the shell of a task does before its command begins, and what it has set for its end. It is
# evaluated by
#
#     bash --noprofile -lc 'builtin eval "$TMUX_TASK_SHELL"; COMMAND' bash WORDS...
#
# in which the command is in the first line, so that bash counts its lines from 1 in what it says of
# errors. Before this text come assignments:
#
#     tmux_task_unset     what `unset` removes of the environment: no task may see it
#     tmux_task_save      what of the environment a profile may not change, for `declare -p`
#     tmux_task_hang_up   whether a hangup ends the shell at once
#
# `builtin` keeps functions of the environment and of the profile from taking the place of what starts
# the task. bash 3.2 of macOS has to read it too.

# Reads the login profile, and undoes what it has changed of the environment and the directory.
#
# A profile may end the shell, or replace it with another one. Where bash lets a function take the place
# of `exit` and `exec`, the script is run again without the profile; everything else that ends the shell
# is an error. So bash does not read the profile by itself, which it would do before the script.
# `command exec` and `builtin exec` find no such builtin meanwhile. Behind `||`, `set -e` ends nothing;
# `builtin .` would not pass that on. Like bash, this reads no profile in POSIX mode, which knows no such
# functions.
case "${TMUX_TASK_PROFILE-read} :$SHELLOPTS:" in
read\ *:posix:*) ;;
read\ *)
    tmux_task_words=("$@")
    builtin set --
    tmux_task_dir=$PWD
    tmux_task_env=$(
        builtin declare -pf exit exec logout 2>/dev/null
        builtin eval "builtin declare -p $tmux_task_save"
    )
    tmux_task_restore='builtin eval "builtin unset -v $tmux_task_unset" 2>/dev/null || builtin :
        builtin eval "$tmux_task_env" 2>/dev/null || builtin :'
    tmux_task_plain='builtin eval "$tmux_task_restore"
        builtin cd -- "$tmux_task_dir"
        builtin enable exec
        builtin export TMUX_TASK_SHELL TMUX_TASK_PROFILE=skip
        builtin exec "$BASH" --noprofile -lc "$BASH_EXECUTION_STRING" bash "${tmux_task_words[@]}"'
    tmux_task_shell="$$ 0"
    case $tmux_task_hang_up in ?*) builtin trap 'builtin exit 129' HUP ;; esac
    builtin trap 'case $$ in "${BASHPID-$$}")
        builtin echo "tmux-task: exec: the login profile has ended the shell" >&2
        builtin exit 126 ;;
    esac' EXIT
    case $tmux_task_hang_up in ?*) builtin trap - HUP ;; esac
    exit() {
        case "${BASHPID-$$} $BASH_SUBSHELL" in "$tmux_task_shell") builtin trap "$tmux_task_plain" EXIT ;; esac
        builtin exit "$@"
    }
    logout() { exit "$@"; }
    exec() {
        case "$# ${BASHPID-$$} $BASH_SUBSHELL" in
        "0 "*) ;;
        *" $tmux_task_shell") exit ;;
        esac
        builtin enable exec
        builtin exec "$@"
        builtin enable -n exec
    }
    builtin enable -n exec
    if builtin [ -r /etc/profile ]; then . /etc/profile || builtin :; fi
    if builtin [ -r ~/.bash_profile ]; then . ~/.bash_profile || builtin :
    elif builtin [ -r ~/.bash_login ]; then . ~/.bash_login || builtin :
    elif builtin [ -r ~/.profile ]; then . ~/.profile || builtin :; fi
    # bash would have read this file before the script.
    case ${TMUX_TASK_BASH_ENV:+x} in x)
        builtin eval "tmux_task_file=\"$TMUX_TASK_BASH_ENV\""
        . "$tmux_task_file" || builtin :
        ;;
    esac
    builtin trap - EXIT
    builtin unset -f exit logout exec
    builtin enable exec
    builtin [ "$tmux_task_dir" = "$PWD" ] || builtin cd -- "$tmux_task_dir" || builtin exit 1
    builtin eval "$tmux_task_restore"
    builtin set -- "${tmux_task_words[@]}"
    builtin unset -v tmux_task_words tmux_task_dir tmux_task_env tmux_task_restore tmux_task_plain \
        tmux_task_shell tmux_task_file
    ;;
esac
case ${TMUX_TASK_BASH_ENV+x} in x) builtin export BASH_ENV="$TMUX_TASK_BASH_ENV" ;; esac
builtin set -euo pipefail

# tmux drops output that it has not read when a process ends. So at the end the shell sends the
# terminal a status request: when tmux answers (`ESC [ 0 n`) it has read everything. A terminal
# that does not answer costs half a second, and three seconds with bash 3.2, which can only wait for
# whole ones. A task with `set -x` or `set -v` does not show it.
#
# For an `EXIT` trap bash catches all signals that would end it, except those that have a trap of
# their own already. If it caught a hangup while it starts a program, the program could outlive
# its pane (seen with bash 5.2): the new process still has bash's handler until it executes the
# program, and bash, if it is still to wait for that process, waits inside the `EXIT` trap.
case $tmux_task_hang_up in ?*) builtin trap 'builtin exit 129' HUP ;; esac
builtin trap '{ builtin set +xv; } 2>/dev/null
    IFS= builtin read -rs -d n -t "${BASH_VERSINFO/#[4-9]/0.5}" -p $'\''\e[5n'\'' _ </dev/tty 2>/dev/tty || :' EXIT
case $tmux_task_hang_up in ?*) builtin trap - HUP ;; esac

# While a run is being ended, its shell has to be the last of its processes: at its end the kernel
# hangs up the terminal, and what has not stopped by then gets `SIGHUP` and loses its output. So the
# daemon sends the shell `SIGPWR`, which nothing else uses, instead of the stop signal, which it notes as
# the shell's limit of file locks: Linux keeps that and does not use it. When the shell's present command
# has ended, this trap runs the line's trap for the stop signal, which may end the shell, but not go on
# with the line: `break` leaves a loop of ours, and `return` a file. Then it waits for the daemon's hangup,
# and ends with the code of the command; that it waits is seen by its catching `SIGSTKFLT`, and that it is
# past the line's commands by its catching `SIGURG`. bash runs a
# trap between commands: a hangup that comes just before `read` begins to wait is noticed only when that
# ends, hence the short pauses; while it opens a file, a signal would be an error. `wait` returns 158 for
# this signal, and 128 more than its number for the stop signal. After an hour the shell ends by itself.
builtin trap '{ tmux_task_code=$?; builtin trap : URG; builtin set +xv +o posix; } 2>/dev/null
    { tmux_task_stop=$(builtin ulimit -Sx) && builtin [ "$tmux_task_stop" -lt 32 ]; } 2>/dev/null || tmux_task_stop=15
    builtin [ $tmux_task_code -ne 158 ] || tmux_task_code=$((128 + tmux_task_stop))
    builtin eval "tmux_task_trap=($(builtin trap -p $tmux_task_stop))"
    exit() { builtin exit "${@-$tmux_task_code}"; }
    case "${tmux_task_trap[2]-}$(builtin exit $tmux_task_code)" in ?*)
        for tmux_task_stop in 1; do builtin . <(builtin printf %s "${tmux_task_trap[2]}"); done ;;
    esac
    {
        builtin exec {tmux_task_file}<> <(:)
        builtin trap "builtin exit $tmux_task_code" HUP
        tmux_task_stop=0
        builtin trap : STKFLT
        while builtin [ $((tmux_task_stop += 1)) -le 36000 ]; do
            builtin read -r -t 0.1 -u $tmux_task_file _ || :
        done
    } 2>/dev/null || :
    builtin exit $tmux_task_code' PWR 2>/dev/null || :
builtin unset -v TMUX_TASK_SHELL TMUX_TASK_PROFILE TMUX_TASK_BASH_ENV tmux_task_unset tmux_task_save \
    tmux_task_hang_up
