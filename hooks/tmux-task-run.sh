#!/usr/bin/env bash
# tmux-task-run NAME -- COMMAND...: starts COMMAND as the task NAME of the task session, or runs it
# again there. Calls `tmux-task run` for the session that the environment names, and never guesses one.
set -euo pipefail

if [ -z "${TMUX_TASK_SESSION:-}${PI_TMUX_SESSION:-}" ]; then
    echo 'tmux-task-run: no task session: TMUX_TASK_SESSION is not set, nor is PI_TMUX_SESSION' >&2
    exit 1
fi
for program in "${TMUX_TASK_PROGRAM:-}" "$(type -P tmux-task || :)" \
    "$(dirname -- "${BASH_SOURCE[0]}")/tmux-task" ~/.cargo/bin/tmux-task ~/.local/bin/tmux-task; do
    if [ -f "$program" ] && [ -x "$program" ]; then
        # Four lines, where `run` has one for people.
        if [ -t 1 ]; then "$program" run "$@" | cat; exit; fi
        exec "$program" run "$@"
    fi
done
# shellcheck disable=SC2016 # a command to read
echo 'tmux-task-run: the program tmux-task is missing: `cargo install --path . --locked` in its source installs it' >&2
exit 127
