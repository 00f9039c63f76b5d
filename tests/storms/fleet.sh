#!/usr/bin/env bash
# Three hosts of a fleet and two conversations, while the broker, daemons and clients are
# killed at random, and connections are cut. Then checks that each end of a task was told
# once, to the conversation whose task it was. In a storm of two minutes or more, one host
# after the other loses its connection until it is reported as gone, and then as back.
#
#   tests/storms/fleet.sh [SECONDS [SEED]]
#
# SECONDS  how long the storm lasts (600)
# SEED     the seed of the random choices (the time)
#
# tests/run.sh runs a storm of ten seconds. It needs nats-server, as tests/run.sh installs
# it. Exits with a code other than 0 if an end was lost, doubled or told to another.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"
STORM_SECONDS=${1:-600} STORM_SEED=${2:-$(date +%s)}
export STORM_SECONDS STORM_SEED
echo "seconds: $STORM_SECONDS, seed: $STORM_SEED"
exec cargo test --locked --features fleet --test it -- --exact --nocapture \
    storms::fleet::each_end_on_three_hosts_is_told_once_whatever_is_killed_or_cut
