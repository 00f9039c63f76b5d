#!/usr/bin/env bash
# Runs PostgreSQL, nginx and redis as tasks, ends them and starts them again: by `kill`
# and `run`, by `restart`, and by `down` and `up`. After each start, every server has to
# answer, and to have what was stored before.
#
#   tests/storms/servers.sh [--install] [ROUNDS]
#
# --install  install missing packages with sudo; root always installs them
# ROUNDS     how often each of the three (20)
#
# Uses target/release/tmux-task, else target/debug/tmux-task, or $TMUX_TASK_PROGRAM.
# PostgreSQL does not run as root: then an unprivileged user runs it. It takes minutes
# and is not part of tests/run.sh. Exits 1 if a server does not end, does not start,
# has lost something, or leaves a process.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=tests/world.sh
. "$root/tests/world.sh"
# shellcheck source=tests/needs.sh
. "$root/tests/needs.sh"

install=no
if [ "${1:-}" = --install ]; then
    install=yes
    shift
fi
rounds=${1:-20}
if [ -n "${TMUX_TASK_PROGRAM:-}" ]; then
    program=$TMUX_TASK_PROGRAM
else
    program=$root/target/release/tmux-task
    [ -x "$program" ] || program=$root/target/debug/tmux-task
    [ -x "$program" ] || { echo "error: build first: cargo build --release" >&2; exit 2; }
fi

# Debian's servers are not on everybody's PATH.
PATH=$PATH:/usr/sbin
for folder in /usr/lib/postgresql/*/bin; do
    if [ -d "$folder" ]; then PATH=$folder:$PATH; fi
done
need tmux tmux
need postgres postgresql
need nginx nginx
need redis-server redis-server
need curl curl
install_missing "$install"
for folder in /usr/lib/postgresql/*/bin; do
    if [ -d "$folder" ]; then PATH=$folder:$PATH; fi
done
export PATH

make_world
finish() {
    "$program" kill-all --yes >/dev/null 2>&1 || true
    "$program" daemon stop >/dev/null 2>&1 || true
    end_world
}
trap finish EXIT
export TMUX_TASK_SESSION=servers
cd "$world"

# --- the servers ---------------------------------------------------------------

free_port() {
    local port
    for port in $(shuf -i 20000-30000 -n 100); do
        if ! { : <"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then
            echo "$port"
            return
        fi
    done
}
pg_port=$(free_port) redis_port=$(free_port) nginx_port=$(free_port)

chmod 755 "$world"
mkdir pg redis nginx
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    chown 65534:65534 pg
    as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
"${as_user[@]}" initdb -D "$world/pg" -U tester -A trust >/dev/null
sql() { psql -h 127.0.0.1 -p "$pg_port" -U tester -d postgres -X -q -A -t -c "$1"; }
cat >nginx/nginx.conf <<END
pid $world/nginx/pid;
error_log stderr notice;
worker_processes 2;
events { }
http {
    access_log off;
    server { listen 127.0.0.1:$nginx_port; location / { root $world/nginx; } }
}
END
chmod 755 nginx

declare -A command=(
    [db]="${as_user[*]} postgres -D $world/pg -p $pg_port -k $world/pg -h 127.0.0.1"
    [cache]="redis-server --port $redis_port --bind 127.0.0.1 --dir $world/redis --appendonly yes"
    [web]="nginx -c $world/nginx/nginx.conf -g 'daemon off;'"
)
declare -A ready=(
    [db]='ready to accept connections'
    [cache]='Ready to accept connections'
    [web]='start worker process '
)
names=(db cache web)
for name in "${names[@]}"; do
    printf '[tasks.%s]\ncommand = """%s"""\nready = "%s"\n' "$name" "${command[$name]}" "${ready[$name]}"
done >tmux-task.toml

# --- what is checked -----------------------------------------------------------

fail() {
    echo "FAILED: $1" >&2
    for name in "${names[@]}"; do
        echo "--- $name" >&2
        "$program" logs "$name" >&2 || true
    done
    exit 1
}

# server_processes: what runs of the servers.
server_processes() {
    local process
    for process in /proc/[0-9]*; do
        { tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null | grep -q -e "$world" -e "127.0.0.1:$redis_port" || continue
        case $(cat "$process/comm" 2>/dev/null) in
            postgres | nginx | redis-server) echo "${process#/proc/}" ;;
        esac
    done
}

n_stored=0 n_starts=0
# store: every server is asked for what was stored, and stores something more.
store() {
    local n
    n=$(sql 'select count(*) from rounds') || fail 'PostgreSQL does not answer'
    [ "$n" = "$n_stored" ] || fail "PostgreSQL has $n of $n_stored rows"
    n=$(redis-cli -p "$redis_port" get rounds) || fail 'redis does not answer'
    [ "${n:-0}" = "$n_stored" ] || fail "redis has counted ${n:-0} of $n_stored"
    n=$(curl -fsS "http://127.0.0.1:$nginx_port/round") || fail 'nginx does not answer'
    [ "$n" = "$n_stored" ] || fail "nginx serves $n instead of $n_stored"
    n_stored=$((n_stored + 1))
    sql "insert into rounds values ($n_stored)"
    redis-cli -p "$redis_port" incr rounds >/dev/null
    echo "$n_stored" >nginx/round
}

begin_all() {
    local name
    for name in "${names[@]}"; do
        "$program" run "$name" --until "${ready[$name]}" --timeout 60s -- "${command[$name]}" >/dev/null ||
            fail "$name does not start"
        n_starts=$((n_starts + 1))
    done
}

# none_left: all servers have ended.
none_left() {
    local left
    left=$(server_processes)
    [ -z "$left" ] || fail "$1 left processes: $left"
}

# --- the rounds ----------------------------------------------------------------

echo 0 >nginx/round
begin_all
sql 'create table rounds (n int)'
store

began=$SECONDS
for ((round = 0; round < rounds; round++)); do
    "$program" kill "${names[@]}" >/dev/null || fail 'kill fails'
    none_left kill
    begin_all
    store
done
printf '%d times kill and run: %d s\n' "$rounds" "$((SECONDS - began))"

began=$SECONDS
for ((round = 0; round < rounds; round++)); do
    for name in "${names[@]}"; do
        "$program" restart "$name" --until "${ready[$name]}" --timeout 60s >/dev/null ||
            fail "$name does not restart"
        n_starts=$((n_starts + 1))
    done
    store
done
printf '%d times restart: %d s\n' "$rounds" "$((SECONDS - began))"

began=$SECONDS
for ((round = 0; round < rounds; round++)); do
    "$program" down >/dev/null || fail 'down fails'
    none_left down
    "$program" up --wait >/dev/null || fail 'up fails'
    n_starts=$((n_starts + ${#names[@]}))
    store
done
printf '%d times down and up: %d s\n' "$rounds" "$((SECONDS - began))"

"$program" down >/dev/null
none_left down
# What the runs wrote is stored.
stored=$(find "$XDG_STATE_HOME/tmux-task" -name '*.log' -path '*/runs/*')
count() { xargs -d '\n' grep -l -e "$1" <<<"$stored" 2>/dev/null | wc -l; }
printf '%d starts, %d rounds of data, %d runs stored\n' "$n_starts" "$n_stored" "$(grep -c . <<<"$stored")"
[ "$(count 'ready to accept connections')" -gt 0 ] || fail 'the stored output is not readable'
printf 'could not bind: %d; PostgreSQL was not shut down properly: %d\n' \
    "$(count 'Address already in use\|could not bind')" "$(count 'not properly shut down')"
[ "$(count 'Address already in use\|could not bind')" -eq 0 ] || exit 1
