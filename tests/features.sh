#!/usr/bin/env bash
# Checks the library and the programs with no feature, and with each one alone.
#
#   tests/features.sh
#
# tests/run.sh checks both with all features only. This builds the dependencies of each
# set, which takes minutes: run it after a change to what a feature switches on or off.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
features=$(cargo metadata --no-deps --format-version 1 --locked |
    python3 -c 'import json, sys; print(*json.load(sys.stdin)["packages"][0]["features"]["default"], "webhook", "fleet")')
for feature in '' $features; do
    echo "=== ${feature:-no feature}"
    cargo clippy --locked --no-default-features --features "$feature" --lib --bins -- -D warnings
done
