#!/usr/bin/env bash
# Replaces rustdoc while `cargo test --doc` runs: before the doc tests, it builds the
# documentation with private items and denies all warnings. `cargo doc` does the same,
# but needs the metadata of all dependencies, which it creates in a second build.
set -euo pipefail

rustdoc=$(rustc --print sysroot)/bin/rustdoc
has_tests=no is_value=no words=()
for word in "$@"; do
    if [ "$is_value" = yes ]; then
        is_value=no
        continue
    fi
    case $word in
        --test) has_tests=yes ;;
        --test-run-directory | --test-args | --test-runtool | --test-runtool-arg) is_value=yes ;;
        --test-* | --no-run | --nocapture) ;;
        *) words+=("$word") ;;
    esac
done
if [ "$has_tests" = yes ]; then
    "$rustdoc" "${words[@]}" --document-private-items -D warnings -o "${CARGO_TARGET_DIR:-target}/doc"
fi
exec "$rustdoc" "$@"
