#!/usr/bin/env bash
# Kills the daemon at random instants while tasks start, ring the bell, ask for input,
# exit and disappear, and two consumers acknowledge, one of which is killed as well.
# Then compares the feed, its deliveries and the acknowledgements with the tasks'
# journals.
#
#   tests/storms/crash.sh [KILLS [SEED]]
#
# KILLS  how often the daemon is killed (500)
# SEED   the seed of the random choices (the time)
#
# It builds the release profile and takes about ten minutes for 500 kills;
# tests/run.sh runs 15. Exits with a code other than 0 if anything was lost,
# doubled or skipped.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"
STORM_KILLS=${1:-500} STORM_SEED=${2:-$(date +%s)}
export STORM_KILLS STORM_SEED
echo "kills: $STORM_KILLS, seed: $STORM_SEED"
exec cargo test --release --locked --test it -- --exact --nocapture \
    storms::a_daemon_that_is_killed_at_random_loses_nothing_and_doubles_nothing
