#!/usr/bin/env bash
# Runs several hundred programs as tasks, and counts which of those that wait for input
# are reported, and which others are.
#
#   tests/survey/prompts.sh [--mode shown|hidden|both] [--only REGEX] [--out DIR] [--jobs N]
#
# --mode   shown: the daemon may read which system call blocks a program (the default)
#          hidden: it may not, as with Yama's ptrace_scope at 1
#          both: both at the same time, on two tmux servers
# --only   only the cases whose name, kind or file matches
# --out    folder for results.jsonl: one line for each case and mode
# --jobs   tasks that run at the same time on each server (12)
#
# The cases are in tests/survey/cases. Missing programs are installed first: packages of
# Debian with apt-get (as root), others into $SURVEY_HOME, by default
# ~/.cache/tmux-task-survey (about 1 GB). Cases whose program cannot be installed are
# listed as skipped. SURVEY_INSTALL=no installs nothing.
#
# Uses target/release/tmux-task, else target/debug/tmux-task, or $TMUX_TASK_PROGRAM.
# It takes 40 minutes, with --jobs 30 a quarter of an hour, and is not part of
# tests/run.sh. Exits 1 if fewer than 97 of 100 programs that wait are reported, or any
# other one is, and 2 if it cannot run.
set -euo pipefail
exec </dev/null

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }
for word in "$@"; do
    case $word in -h | --help) usage && exit ;; esac
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
runner=$root/tests/survey/prompts.py
export SURVEY_HOME=${SURVEY_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tmux-task-survey}
if [ -z "${TMUX_TASK_PROGRAM:-}" ]; then
    TMUX_TASK_PROGRAM=$root/target/release/tmux-task
    [ -x "$TMUX_TASK_PROGRAM" ] || TMUX_TASK_PROGRAM=$root/target/debug/tmux-task
    [ -x "$TMUX_TASK_PROGRAM" ] || { echo "error: build first: cargo build --release" >&2; exit 2; }
fi
export TMUX_TASK_PROGRAM
"$TMUX_TASK_PROGRAM" --version >/dev/null || { echo "error: $TMUX_TASK_PROGRAM does not run" >&2; exit 2; }
for program in tmux python3 cc; do
    command -v "$program" >/dev/null || { echo "error: \`$program\` is missing" >&2; exit 2; }
done

# install COMMAND... -- PACKAGE...: all at once, else one by one. With pip always one by
# one: it may search for hours for versions that suit all of them.
install() {
    local command=() package
    while [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    shift
    [ $# -gt 0 ] || return 0
    echo "installing with ${command[0]##*/}: $*"
    if [ "${command[0]##*/}" != pip ]; then
        "${command[@]}" "$@" >>"$SURVEY_HOME/install.log" 2>&1 && return
    fi
    for package in "$@"; do
        "${command[@]}" "$package" >>"$SURVEY_HOME/install.log" 2>&1 || echo "not installed: $package"
    done
}

mkdir -p "$SURVEY_HOME"
if [ "${SURVEY_INSTALL:-yes}" != no ]; then
    [ -x "$SURVEY_HOME/venv/bin/python" ] || python3 -m venv "$SURVEY_HOME/venv" || true
    mapfile -t apt < <(python3 -B "$runner" --missing apt "$@")
    mapfile -t pip < <(python3 -B "$runner" --missing pip "$@")
    mapfile -t npm < <(python3 -B "$runner" --missing npm "$@")
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        install env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
            install --yes --no-install-recommends -- "${apt[@]}"
    fi
    install "$SURVEY_HOME/venv/bin/pip" --disable-pip-version-check install -- "${pip[@]}"
    if command -v npm >/dev/null; then
        install npm install --prefix "$SURVEY_HOME/npm" --no-audit --no-fund --loglevel=error -- "${npm[@]}"
    fi
fi
exec python3 -B "$runner" "$@"
