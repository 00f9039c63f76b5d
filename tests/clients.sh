#!/usr/bin/env bash
# Runs the adapters with the real clients, against a scripted model on loopback.
#
#   tests/clients.sh [--clients DIR] [--newest] [SCENARIO...]     (default: all)
#
#   pi, claude, codex, opencode, copilot, qwen, opencode2
#                                 each end is told once: while the client is idle and busy, ten at
#                                 once, after a kill of the daemon, a restart and a kill of the
#                                 client (pi: also if the receipt is lost, and its menu). Run for
#                                 one prompt, as `claude -p` does, it ends with its turn.
#                                 opencode2 is a stand-in for OpenCode 2: opencode2.mjs
#   turns-CLIENT, for each of these
#                                 a message comes after the turn, and with `next-step` within it
#                                 (codex, qwen: after the turn only)
#   escape, clear, removed        Claude Code: Escape during a turn, /clear, an emptied queue: what
#                                 was dropped or not answered is given again (a minute each)
#   claude+claude, codex+codex, opencode+opencode, pi+pi, pi+claude, claude+opencode,
#   codex+opencode                two conversations, 200 exits between them: each gets its
#                                 own once, and none of the other's
#   mcp                           clients with nothing but the MCP server
#
# --clients DIR  folder of the clients; missing ones are installed into it
#                (default: target/clients; about 2.0 GB)
# --newest       the newest version of each client that the registry has, in a folder of its own,
#                instead of those that the adapters were last tested with; at the end a table of
#                versions and scenarios
#
# Each client runs in a network namespace with loopback only, with an empty
# environment, a private HOME and an invented key. The script reports scenarios that
# could not be run, and fails then. It is not part of tests/run.sh. If
# TMUX_TASK_PROGRAM is set, the program is not built.
set -euo pipefail
exec </dev/null

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
clients=$root/target/clients
newest=
names=()
all=(pi claude codex opencode copilot qwen opencode2 turns-{pi,claude,codex,opencode,copilot,qwen,opencode2} escape clear removed mcp
    pi+pi claude+claude codex+codex opencode+opencode pi+claude claude+opencode codex+opencode)
while [ $# -gt 0 ]; do
    case $1 in
        --clients)
            clients=${2:?"tests/clients.sh: --clients takes a folder"}
            shift
            ;;
        --newest) newest=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            case " ${all[*]} " in
                *" $1 "*) names+=("$1") ;;
                *)
                    echo "tests/clients.sh: unknown word \`$1\`" >&2
                    echo 'hint: tests/clients.sh --help' >&2
                    exit 2
                    ;;
            esac
            ;;
    esac
    shift
done
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")
for program in unshare ip npm python3 git tmux; do
    command -v "$program" >/dev/null || {
        echo "tests/clients.sh: \`$program\` is missing" >&2
        exit 1
    }
done

install_client() { # FOLDER PACKAGE@VERSION
    local folder=$clients/$1 package=$2
    if [ -n "$newest" ] && [ "$1" != node ]; then
        local version
        version=$(npm view "${package%@*}" version) || return 1
        package=${package%@*}@$version
    fi
    if [ "$(version_of "$1" "${package%@*}")" != "${package##*@}" ] && ! { [ "$1" = node ] && [ -d "$folder" ]; }; then
        rm -rf "$folder"
        npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "$package"
    fi
}

version_of() { # FOLDER PACKAGE
    sed -n 's/^[[:blank:]]*"version": "\(.*\)",*$/\1/p' "$clients/$1/node_modules/$2/package.json" 2>/dev/null | head -n 1
}

[ -z "$newest" ] || clients=$clients/newest

mkdir -p "$clients"
clients=$(cd "$clients" && pwd -P)
install_client node node@24
PATH=$clients/node/node_modules/node/bin:$PATH
for name in "${names[@]}"; do
    [ "$name" = mcp ] && name=mcp+claude+opencode
    name=${name#turns-}
    for client in ${name//+/ }; do
        case $client in
            pi) install_client pi @earendil-works/pi-coding-agent@1.6.0 ;;
            claude | escape | clear | removed) install_client claude @anthropic-ai/claude-code@2.1.332 ;;
            codex) install_client codex @openai/codex@0.171.0 ;;
            opencode)
                install_client opencode opencode-ai@1.18.33
                install_client opencode-config @opencode-ai/plugin@1.18.33
                ;;
            copilot) install_client copilot @github/copilot@1.0.102 ;;
            qwen) install_client qwen @qwen-code/qwen-code@0.24.4 ;;
            mcp) install_client inspector @modelcontextprotocol/inspector@2.12.0 ;;
        esac || echo "tests/clients.sh: $client could not be installed" >&2
    done
done

program=${TMUX_TASK_PROGRAM:-}
if [ -z "$program" ]; then
    cargo build --locked --manifest-path "$root/Cargo.toml"
    program=${CARGO_TARGET_DIR:-$root/target}/debug/tmux-task
fi

namespace=(unshare --net --pid --fork --mount-proc --kill-child)
[ "$(id -u)" = 0 ] || namespace=("${namespace[@]:0:1}" --map-root-user "${namespace[@]:1}")
failed=0
declare -A results
for name in "${names[@]}"; do
    if "${namespace[@]}" -- env -i PATH="$PATH" LANG=C.UTF-8 \
        python3 -B "$root/tests/clients/run.py" "$name" "$program" "$clients"; then
        echo "ok $name"
        result=ok
    else
        echo "FAILED $name"
        result=FAILED
        failed=1
    fi
    case $name in
        escape | clear | removed) told=claude ;;
        mcp) told="claude opencode" ;;
        turns-*) told=${name#turns-} ;;
        *) told=$(tr + '\n' <<<"$name" | sort -u) ;;
    esac
    for client in $told; do
        results[$client]+="${results[$client]:+, }$name $result"
    done
done
if [ -n "$newest" ]; then
    echo
    # opencode2 is a stand-in, which has no version.
    echo "| client, on $(date +%F) | version | scenarios |"
    echo '|---|---|---|'
    while read -r client package; do
        [ -z "${results[$client]:-}" ] || echo "| $client | $(version_of "$client" "$package") | ${results[$client]} |"
    done <<'END'
pi @earendil-works/pi-coding-agent
claude @anthropic-ai/claude-code
codex @openai/codex
opencode opencode-ai
copilot @github/copilot
qwen @qwen-code/qwen-code
END
fi
exit "$failed"
