#!/usr/bin/env bash
# Runs the fuzz targets in tests/fuzz/targets.rs with libFuzzer, one after the other.
#
#   tests/fuzz/run.sh [SECONDS [TARGET...]]
#
# SECONDS  how long each target runs (60)
# TARGET   control, snapshots, feed, socket or consumers (all)
#
# It needs a nightly toolchain, cargo-fuzz and a C++ compiler, and says which of them is
# missing. Everything is written to target/fuzz: what was built, inputs that reached
# new code (corpus/TARGET), and inputs that failed (failed/TARGET-*). An input that failed is
# reported with the command that repeats it; add it to tests/fuzz/corpus/TARGET, which
# tests/run.sh runs as well. Exits 1 if any target failed.
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
cd "$root"

seconds=${1:-60}
case $seconds in
    -h | --help)
        sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
        exit 0
        ;;
    '' | *[!0-9]*)
        echo "tests/fuzz/run.sh: not a number of seconds: \`$seconds\`" >&2
        exit 2
        ;;
esac
if [ $# -gt 0 ]; then shift; fi
if [ $# -eq 0 ]; then set -- control snapshots feed socket consumers; fi
for target in "$@"; do
    if [ ! -f "tests/fuzz/fuzz_targets/$target.rs" ]; then
        echo "tests/fuzz/run.sh: unknown target \`$target\`" >&2
        exit 2
    fi
done

missing=0
# missing WHAT HOW
missing() {
    echo "tests/fuzz/run.sh: $1 is missing: $2" >&2
    missing=1
}
cargo +nightly --version >/dev/null 2>&1 ||
    missing 'a nightly toolchain' 'rustup toolchain install nightly --profile minimal'
cargo fuzz --version >/dev/null 2>&1 || missing cargo-fuzz 'cargo install --locked cargo-fuzz'
command -v c++ >/dev/null 2>&1 || missing 'a C++ compiler' 'apt-get install g++'
if [ "$missing" -ne 0 ]; then exit 1; fi

out=$root/target/fuzz
# The targets write files; a disk would take most of the time.
temporary=$(mktemp -d "$(if [ -w /dev/shm ]; then echo /dev/shm; else echo /tmp; fi)/fuzz.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
export TMPDIR=$temporary

failed=()
for target in "$@"; do
    mkdir -p "$out/corpus/$target" "$out/failed"
    printf '\n=== %s, %d s\n' "$target" "$seconds"
    # There is no unsafe code whose errors an address sanitizer could find.
    cargo +nightly fuzz run --sanitizer none --fuzz-dir tests/fuzz \
        --target-dir "$out/build" "$target" \
        "$out/corpus/$target" "tests/fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$out/failed/$target-" || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    printf '\nFAILED: %s\n' "${failed[*]}"
    exit 1
fi
printf '\nall good: %s\n' "$*"
