#!/usr/bin/env bash
# The compiler of our crate in tests/run.sh, by RUSTC_WORKSPACE_WRAPPER, with all warnings
# denied: clippy for the tests and benchmarks, rustc for the program and its library, since
# the live tests take a tenth longer with a program that clippy has compiled. The tests of
# the library, and those of tmux-task-fleet, contain all of it, so clippy sees it there. `cargo clippy` needs the metadata
# of all dependencies, which it creates in a second build; this uses what the first one has.
# All features are on; tests/features.sh checks the library with none, and with each alone.
set -euo pipefail

rustc=$1
shift
# Only what is to be linked, not what cargo asks the compiler.
case " $* " in
    *' --crate-name ___ '*) exec "$rustc" "$@" ;;
    *' --emit='*) ;;
    *) exec "$rustc" "$@" ;;
esac

driver=$("$rustc" --print sysroot)/bin/clippy-driver
# cargo compiles again what clippy has compiled when this changes: tests/run.sh sets it too.
export CLIPPY_ARGS=${CLIPPY_ARGS:--D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__}

# lint WORD...: checks what the words compile.
lint() {
    local words=() option='' word
    metadata=$(mktemp -d)
    trap 'rm -rf -- "$metadata"' EXIT
    for word in "$@"; do
        case $option$word in
            *--out-dir) option=$word ;;
            *--out-dir*) option='' ;;
            *--emit=*) words+=(--emit=metadata) ;;
            # cargo knows of one product.
            *--json=*) words+=("${word/artifacts,/}") ;;
            *incremental=*) words+=("incremental=$metadata") ;;
            *) words+=("$word") ;;
        esac
    done
    "$driver" "$rustc" "${words[@]}" --out-dir "$metadata"
}

program=()
case " $* $(uname)" in
    # The tests start the program thousands of times. The linker of a program that is loaded
    # anywhere would have to change 125,000 addresses each time, a quarter of the start.
    *' --crate-type bin '*Linux) program=(-C relocation-model=static) ;;
esac

case " $* " in
    *' --test '*) exec "$driver" "$rustc" "$@" ;;
    *' --crate-name tmux_task '*' --crate-type lib '*)
        exec "$rustc" "$@" "${program[@]}" -D warnings
        ;;
    *' --crate-name tmux_task_fleet '*' --crate-type bin '*)
        exec "$rustc" "$@" "${program[@]}" -D warnings
        ;;
    *' --crate-name tmux_task '*' --crate-type bin '*)
        "$rustc" "$@" "${program[@]}" -D warnings
        lint "$@"
        ;;
    *) exec "$driver" "$rustc" "$@" ;;
esac
