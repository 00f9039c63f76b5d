#!/usr/bin/env bash
# Runs bursts of tasks in many windows, with three consumers, and kills the daemon
# twice. Then compares the feed and the records of the consumers with the tasks'
# journals, and each daemon's memory and descriptors with those after its first
# minute.
#
#   tests/storms/soak.sh [SECONDS [WINDOWS [SEED]]]
#
# SECONDS  how long it lasts (600)
# WINDOWS  windows of the session (300)
# SEED     the seed of the random choices (the time)
#
# It builds the release profile. tests/run.sh runs a shorter soak in fewer windows.
# Exits with a code other than 0 if anything was lost, doubled or skipped, or if a
# daemon's memory or descriptors grew.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"
STORM_SECONDS=${1:-600} STORM_WINDOWS=${2:-300} STORM_SEED=${3:-$(date +%s)}
STORM_WORKERS=40 STORM_RINGS=20
export STORM_SECONDS STORM_WINDOWS STORM_WORKERS STORM_RINGS STORM_SEED
echo "seconds: $STORM_SECONDS, windows: $STORM_WINDOWS, seed: $STORM_SEED"
exec cargo test --release --locked --test it -- --exact --nocapture \
    storms::many_tasks_for_a_while_lose_nothing_and_double_nothing
