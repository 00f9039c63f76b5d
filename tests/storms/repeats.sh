#!/usr/bin/env bash
# Runs the tests that repeat what can fail by chance (many tasks, reruns and waits, daemons
# that start in the same instant) five times as long as tests/run.sh does.
#
#   tests/storms/repeats.sh [FACTOR]
#
# FACTOR  how many times as many repetitions (5)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"
TEST_REPEATS=${1:-5}
export TEST_REPEATS
exec cargo test --locked --test it -- many_ of_two_daemons_that_start_in_the_same_instant
