#!/usr/bin/env bash
# Three machines behind ssh and two conversations, while ssh, links, the programs that serve
# them, daemons and clients are killed at random, and networks are cut and slowed. Then
# checks that each end of a task was told once, to the conversation whose task it was, and
# in the order of the machine's feed.
#
#   tests/storms/hosts.sh [SECONDS [SEED]]
#
# SECONDS  how long the storm lasts (600)
# SEED     the seed of the random choices (the time)
#
# tests/run.sh runs a storm of ten seconds without networks. With root, each machine has a
# network namespace here; otherwise it says that there are none. Exits with a code other
# than 0 if an end was lost, doubled, out of order or told to another.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"
STORM_SECONDS=${1:-600} STORM_SEED=${2:-$(date +%s)} STORM_NETWORKS=1
export STORM_SECONDS STORM_SEED STORM_NETWORKS
echo "seconds: $STORM_SECONDS, seed: $STORM_SEED"
cargo test --locked --test it --no-run
# What is left of its networks ends with it.
apart=(unshare --net --mount)
"${apart[@]}" true 2>/dev/null || apart=()
# shellcheck disable=SC2016 # The words are this shell's.
"${apart[@]}" bash -c '
    if [ "$1" = apart ]; then
        ip link set lo up
        mkdir -p /run/netns
        mount -t tmpfs netns /run/netns
    fi
    exec cargo test --locked --test it -- --exact --nocapture \
        storms::hosts::each_end_on_machines_behind_ssh_is_told_once_whatever_is_killed_or_cut
' storm "${apart[0]:+apart}"
