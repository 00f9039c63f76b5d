#!/usr/bin/env bash
# Answers questions twice, or by six senders at once, and checks that no answer reaches
# another question, and that no first answer is refused.
#
#   tests/storms/answers.sh [ROUNDS [WORKERS]]
#
# ROUNDS   how many questions are answered twice (1000)
# WORKERS  how many tasks are answered at the same time (4)
#
# The programs ask `OK? [y/N]` and, at once or after a while, `Wipe? [y/N]`: with and
# without echo, by blocking and polled reads, single keys and menus, in bash, Python, Perl
# and Node. $TMUX_TASK is the program that is tested (target/debug/tmux-task). It needs jq.
# Exits with a code other than 0 if an answer was in the wrong place, or refused.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"
rounds=${1:-1000} workers=${2:-4}
program=$(realpath "${TMUX_TASK:-target/debug/tmux-task}")
# shellcheck source=tests/world.sh
source tests/world.sh
python=$(python3 -c 'import sys; print(sys.executable)' || true)
make_world
trap 'task daemon stop >/dev/null 2>&1 || true; end_world' EXIT
export TMUX_TASK_SESSION=answers

task() { "$program" "$@"; }

# Each gets the file for the answers and the pause between the questions.
mkdir "$world/asks"
bash_program() {
    # shellcheck disable=SC2016 # for the task's shell to expand
    printf 'ask() { read %s -p "$1" a; echo "$a" >>"$2"; }\nask "OK? [y/N] " "$1"; sleep "$2"; ask "Wipe? [y/N] " "$1"; sleep 1000\n' \
        "$2" >"$world/asks/$1"
}
bash_program bash-echo ''
bash_program bash-hidden '-s'
bash_program bash-key '-n 1'
bash_program bash-hidden-key '-s -n 1'
bash_program bash-polled '-t 600'
bash_program bash-hidden-polled '-s -t 600'
cat >"$world/asks/bash-in-place" <<'END'
stty -echo
printf 'OK? [y/N] '; read a; echo "$a" >>"$1"; sleep "$2"
printf '\rWipe? [y/N]\b\b\r\e[11C'; read a; echo "$a" >>"$1"; sleep 1000
END
cat >"$world/asks/bash-menu" <<'END'
ask() { PS3="$1 [y/N] "; select x in y n; do echo "$REPLY" >>"$2"; break; done; }
ask OK? "$1"; sleep "$2"; ask Wipe? "$1"; sleep 1000
END
cat >"$world/asks/bash-again" <<'END'
ask() { a=; until [ "$a" = y ] || [ "$a" = n ]; do read -p "$1" a; echo "$a" >>"$2"; done; }
ask "OK? [y/N] " "$1"; sleep "$2"; ask "Wipe? [y/N] " "$1"; sleep 1000
END
cat >"$world/asks/bash-hidden-again" <<'END'
ask() { printf '%s' "$1"; a=; until [ "$a" = y ] || [ "$a" = n ]; do read -s a; echo "$a" >>"$2"; done; }
ask "OK? [y/N] " "$1"; sleep "$2"; echo; ask "Wipe? [y/N] " "$1"; sleep 1000
END
cat >"$world/asks/python-line" <<'END'
import sys, time
def ask(text): print(input(text), file=open(sys.argv[1], 'a'), flush=True)
ask('OK? [y/N] '); time.sleep(float(sys.argv[2])); ask('Wipe? [y/N] '); time.sleep(1000)
END
cat >"$world/asks/python-hidden" <<'END'
import getpass, sys, time
def ask(text): print(getpass.getpass(text), file=open(sys.argv[1], 'a'), flush=True)
ask('OK? [y/N] '); time.sleep(float(sys.argv[2])); ask('Wipe? [y/N] '); time.sleep(1000)
END
cat >"$world/asks/python-keys" <<'END'
import os, select, sys, time, tty
tty.setcbreak(0)
def ask(text):
    print('\r' + text, end='', flush=True)
    while not select.select([0], [], [], 0.1)[0]: pass
    print(os.read(0, 1).decode(), file=open(sys.argv[1], 'a'), flush=True)
ask('OK? [y/N] '); time.sleep(float(sys.argv[2])); ask('Wipe? [y/N] '); time.sleep(1000)
END
cat >"$world/asks/perl-line" <<'END'
$| = 1;
sub ask { print $_[0]; my $a = <STDIN>; open my $f, '>>', $ARGV[0]; print $f $a; close $f; }
ask('OK? [y/N] '); select undef, undef, undef, $ARGV[1]; ask('Wipe? [y/N] '); sleep 1000;
END
cat >"$world/asks/node-line" <<'END'
const { createInterface } = require('readline'), fs = require('fs');
const [file, pause] = process.argv.slice(2), rl = createInterface({ input: process.stdin, output: process.stdout });
const ask = text => new Promise(done => rl.question(text, a => { fs.appendFileSync(file, a + '\n'); done(); }));
(async () => {
    await ask('OK? [y/N] '); await new Promise(done => setTimeout(done, pause * 1000));
    await ask('Wipe? [y/N] '); setTimeout(() => {}, 1e6);
})();
END
kinds=()
for path in "$world"/asks/*; do
    kind=${path##*/}
    case $kind in
        python-*) [ -n "$python" ] || continue ;;
        perl-* | node-*) command -v "${kind%%-*}" >/dev/null || continue ;;
    esac
    kinds+=("$kind")
done

say() { echo "$*" >>"$world/found"; }

# asks NAME QUESTION: waits until the task asks it; prints the whole prompt.
asks() {
    local until=$((SECONDS + 20)) prompt
    while [ $SECONDS -lt $until ]; do
        prompt=$(task explain "$1" --json | jq -r 'select(.state == "waiting").prompt')
        case $prompt in *"$2"*)
            printf '%s' "$prompt"
            return
            ;;
        esac
        sleep 0.05
    done
    return 1
}

# A round: NUMBER KIND GAP PAUSE. GAP is the time between the two answers, or `six`.
round() {
    local name=q$1 kind=$2 gap=$3 pause=$4 answers=$world/answers.$1 options=() interpreter=bash prompt typed expected n
    case $kind in
        python-*) interpreter=$python ;;
        perl-* | node-*) interpreter=${kind%%-*} ;;
    esac
    case $kind in *-key | *-keys) options=(--no-enter) ;; esac
    task run "$name" -- "$interpreter" "$world/asks/$kind" "$answers" "$pause" >/dev/null 2>"$world/err.$1"
    if ! prompt=$(asks "$name" OK?); then
        say "unasked $kind"
        return
    fi
    expected=$'y\nn'
    if [[ $kind == *-again ]]; then
        # The same is asked again at once: another question.
        task send "$name" x --if-prompt "$prompt" 2>>"$world/err.$1" || say "refused-first $kind $gap $pause $(tail -n 2 "$world/err.$1" | head -n 1)"
        n=0
        until [ "$(cat "$answers" 2>/dev/null)" = x ] || [ $((n += 1)) -gt 100 ]; do sleep 0.02; done
        expected=$'x\ny\nn'
    fi
    typed=0
    if [ "$gap" = six ]; then
        local pids=() pid
        for n in 1 2 3 4 5 6; do
            task send "$name" "${options[@]}" y --if-prompt "$prompt" 2>>"$world/err.$1.$n" &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do ! wait "$pid" || typed=$((typed + 1)); done
    else
        ! task send "$name" "${options[@]}" y --if-prompt "$prompt" 2>>"$world/err.$1" || typed=1
        [ $typed = 1 ] || say "refused-first $kind $gap $pause $(tail -n 2 "$world/err.$1" | head -n 1)"
        sleep "$gap"
        ! task send "$name" "${options[@]}" y --if-prompt "$prompt" 2>>"$world/err.$1" || typed=$((typed + 1))
    fi
    [ $typed = 1 ] || say "typed-$typed $kind $gap $pause"
    if prompt=$(asks "$name" Wipe?); then
        task send "$name" "${options[@]}" n --if-prompt "$prompt" 2>>"$world/err.$1" || say "refused-first $kind $gap $pause $(tail -n 2 "$world/err.$1" | head -n 1)"
        n=0
        until [ "$(cat "$answers")" = "$expected" ] || [ $((n += 1)) -gt 100 ]; do sleep 0.02; done
    fi
    if [ "$(cat "$answers" 2>/dev/null)" = "$expected" ]; then
        say right
    else
        say "wrong $kind $gap $pause $(tr '\n' ' ' <"$answers")"
    fi
    task kill "$name" --grace 0 >/dev/null
}

gaps=(0 0.02 0.1 0.2 six 0.5) pauses=(0 0.3 0 1.2)
worker() {
    local n
    for ((n = $1; n < rounds; n += workers)); do
        round "$n" "${kinds[n % ${#kinds[@]}]}" "${gaps[n / ${#kinds[@]} % ${#gaps[@]}]}" "${pauses[n / ${#kinds[@]} / ${#gaps[@]} % ${#pauses[@]}]}"
    done
}
tmux new-session -d -s answers -n keep 'sleep 100000'
task daemon --detach
started=$SECONDS pids=()
for ((n = 0; n < workers; n += 1)); do
    worker "$n" &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || say "broken worker"; done
echo "$rounds questions of ${#kinds[@]} kinds, each answered twice or by six senders, in $((SECONDS - started)) s:"
sort "$world/found" | grep -v '^right' | uniq -c || true
right=$(grep -c '^right' "$world/found" || true)
echo "right: $right of $rounds"
! grep -q -v -e '^right' "$world/found" && [ "$right" = "$rounds" ]
