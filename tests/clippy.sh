#!/usr/bin/env bash
# The compiler of our crate in tests/run.sh, by RUSTC_WORKSPACE_WRAPPER: clippy, with all
# warnings denied. `cargo clippy` checks all dependencies in a second build; this needs
# none. The library is also checked without its default features, against the same
# dependencies. tests/features.sh builds each set of features by itself.
set -euo pipefail

driver=$("$1" --print sysroot)/bin/clippy-driver
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
"$driver" "$@"

case " $* " in
    *' --crate-name tmux_task '*' --crate-type lib '*) ;;
    *) exit 0 ;;
esac
bare=$(mktemp -d)
trap 'rm -rf -- "$bare"' EXIT
words=() option=''
for word in "$@"; do
    case $option$word in
        --cfg | --out-dir) option=$word ;;
        # Other settings than features stay.
        --cfgfeature=* | --out-dir*) option='' ;;
        --cfg*) words+=(--cfg "$word") option='' ;;
        --emit=*) words+=(--emit=metadata) ;;
        incremental=*) words+=("incremental=$bare") ;;
        *) words+=("$word") ;;
    esac
done
"$driver" "${words[@]}" --out-dir "$bare"
