#!/usr/bin/env bash
# Packages tmux-task: the program and that of the fleet, the helper, manual pages, completions, a systemd
# user unit and the documentation. Debug symbols go to a file of their own.
#
#   docs/package.sh files|deb|tar|static [--program PATH] [--check] [--install]
#
# files      build the program and write all files to target/package
# deb        the same, and a Debian package, with cargo-deb
# tar        the same, and an archive that can be unpacked in /usr/local or ~/.local,
#            with its checksum
# static     as tar, with programs that need no libraries (Linux with glibc). The program
#            is also there as tmux-task-static, which `init host` takes where it lies
#            beside tmux-task and that does not start on the other machine
# --program  package this program, and tmux-task-fleet beside it, with their symbols,
#            instead of building them
# --check    then run tasks in an empty root that has this program, tmux, bash, and the
#            libraries of these two, if the program is not static also its own
# --install  install missing packages with sudo; root always installs them
#
# What it writes is in target/package. It says what is missing. What cargo-deb puts
# into the package is in Cargo.toml, in the table package.metadata.deb. The archives
# have the names by which cargo-binstall and mise find them in a release.
#
# Static glibc has the rules of names in it that glibc has itself: /etc/hosts and DNS.
# Names by other services (nss_ldap, mDNS, systemd-resolved's) are found only where the
# libraries of that machine are of the same version.
set -euo pipefail

# The maximum size of the program without symbols, in bytes, and what glibc may add to it.
readonly MAX_BYTES=15000000 MAX_GLIBC_BYTES=1500000

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

fail() {
    echo "docs/package.sh: $1" >&2
    echo "hint: $2" >&2
    exit "${3:-1}"
}

install=no
check=no
program=''
kind=''
while [ "$#" -gt 0 ]; do
    case $1 in
        files | deb | tar | static) kind=$1 ;;
        --program)
            [ "$#" -ge 2 ] || fail '--program needs a path' 'docs/package.sh --help' 2
            [ -x "$2" ] || fail "no program at $2" 'docs/package.sh --help' 2
            program=$(realpath -- "$2")
            [ -x "$(dirname -- "$program")/tmux-task-fleet" ] ||
                fail "no tmux-task-fleet beside $program" 'cargo build --features fleet --bins' 2
            shift
            ;;
        --check) check=yes ;;
        --install) install=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) fail "unknown option \`$1\`" 'docs/package.sh --help' 2 ;;
    esac
    shift
done
[ -n "$kind" ] || fail 'say what to make' 'docs/package.sh files|deb|tar|static' 2
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
# shellcheck source=tests/needs.sh
. tests/needs.sh

need objcopy binutils
need gzip gzip
if [ -z "$program" ]; then
    need_rust
    need_linker
fi
case $kind in
    deb)
        need_rust
        # Finds the libraries on which the package depends.
        need dpkg-shlibdeps dpkg-dev
        ;;
    tar | static) need xz xz-utils ;;
esac
if [ "$check" = yes ]; then
    need tmux tmux
    need unshare util-linux
    need ldd libc-bin
fi
install_missing "$install"
if [ "$kind" = deb ] && ! command -v cargo-deb >/dev/null 2>&1; then
    fail 'missing: cargo-deb' 'cargo install cargo-deb --locked'
fi

# --- the files -------------------------------------------------------------------

out=$root/target/package
rm -rf "$out"
mkdir -p "$out/man" "$out/completions"

# The system that the program is for, as Rust names it.
triple=$({ rustc -vV 2>/dev/null || true; } | sed -n 's/^host: //p')
triple=${triple:-$(uname -m)-unknown-linux-gnu}

built=no
if [ -z "$program" ]; then
    built=yes
    folder=${CARGO_TARGET_DIR:-target}
    options=()
    if [ "$kind" = static ]; then
        case $triple in *-linux-gnu) ;; *) fail "no static program for $triple" 'it needs Linux with glibc' ;; esac
        # With a target, what is compiled for the build itself is linked as ever.
        options=(--target "$triple")
        folder=$folder/$triple
        export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
    fi
    # The same code as for everybody, with lines for the file of symbols.
    CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
        cargo build --release --locked --features fleet,webhook --bins "${options[@]}"
    program=$(realpath -- "$folder/release/tmux-task")
fi
if [ "$kind" = static ]; then
    # `ldd` prints "statically linked" for those that the kernel itself can place.
    for file in "$program" "$(dirname -- "$program")/tmux-task-fleet"; do
        # To its end: objdump would fail if nobody read the rest.
        if objdump -p "$file" | grep NEEDED >/dev/null; then fail "$file needs libraries" 'docs/package.sh static'; fi
    done
    # It runs with musl, too, and this is the name by which installers choose it there.
    triple=${triple%-gnu}-musl
fi

# The program carries the name of the file with its symbols, which debuggers look for
# beside it and in /usr/lib/debug.
has_symbols=no
for name in tmux-task tmux-task-fleet; do
    from=$(dirname -- "$program")/$name
    if [ "$name" = tmux-task ]; then from=$program; fi
    if [ "$(nm "$from" 2>/dev/null | wc -l)" -gt 0 ]; then
        has_symbols=yes
        objcopy --only-keep-debug --compress-debug-sections "$from" "$out/$name.debug"
        chmod 644 "$out/$name.debug"
        (cd "$out" && objcopy --strip-all --add-gnu-debuglink="$name.debug" "$from" "$name")
    else
        echo "docs/package.sh: $from has no symbols, so none are packaged" >&2
        cp "$from" "$out/$name"
    fi
    chmod 755 "$out/$name"
done

# The program names itself in what it prints, so it is run by that name.
export PATH="$out:$PATH"
tmux-task man --dir "$out/man"
gzip -9n "$out"/man/*.1
tmux-task completions bash >"$out/completions/tmux-task.bash"
tmux-task completions fish >"$out/completions/tmux-task.fish"
# zsh runs the file as a function at the first completion: then it has to complete too.
{
    tmux-task completions zsh
    # shellcheck disable=SC2016 # for zsh
    echo 'if [ "$funcstack[1]" = _tmux-task ]; then _clap_dynamic_completer_tmux_task "$@"; fi'
} >"$out/completions/_tmux-task"
sed 's|%h/.cargo/bin/tmux-task|/usr/bin/tmux-task|' 'hooks/service/tmux-task@.service' \
    >"$out/tmux-task@.service"

tmux-task --version
version=$(tmux-task -V)
version=${version#tmux-task }
size=$(stat -c %s "$out/tmux-task")
printf 'program  %d KiB\n' "$((size / 1024))"
if [ "$has_symbols" = yes ]; then
    printf 'symbols  %d KiB\n' "$(($(stat -c %s "$out/tmux-task.debug") / 1024))"
fi

# Another program may be of any profile.
most=$MAX_BYTES
if [ "$kind" = static ]; then most=$((MAX_BYTES + MAX_GLIBC_BYTES)); fi
if [ "$built" = yes ] && [ "$size" -gt "$most" ]; then
    fail "the program has $size bytes, more than $most" \
        'docs/design/performance.md, "Size of the program", says what its bytes are and how they were counted'
fi

# --- the package -----------------------------------------------------------------

# archive NAME FOLDER: packs a folder below target/package, the same for the same files.
archive() {
    local made
    made=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$root" log -1 --format=%ct 2>/dev/null || echo 0)}
    tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$made" -cf - "$2" |
        xz -T0 >"$out/$1"
    (cd "$out" && sha256sum "$1" >"$1.sha256")
    echo "$out/$1"
}

make_tar() {
    local name tree
    name=tmux-task-$triple-v$version
    tree=$out/$name
    install -D -m 755 -t "$tree/bin" "$out/tmux-task" "$out/tmux-task-fleet"
    install -m 755 hooks/tmux-task-run.sh "$tree/bin/tmux-task-run"
    install -D -m 644 -t "$tree/share/man/man1" "$out"/man/*.1.gz
    install -D -m 644 "$out/completions/tmux-task.bash" \
        "$tree/share/bash-completion/completions/tmux-task"
    install -D -m 644 -t "$tree/share/fish/vendor_completions.d" "$out/completions/tmux-task.fish"
    install -D -m 644 -t "$tree/share/zsh/site-functions" "$out/completions/_tmux-task"
    install -D -m 644 -t "$tree/share/doc/tmux-task" README.md LICENSE hooks/claude-code/skills/tmux-task/SKILL.md
    install -D -m 644 -t "$tree/share/doc/tmux-task/docs" docs/[a-z]*.md docs/*.json docs/*.svg
    install -D -m 644 -t "$tree/share/doc/tmux-task/docs/design" docs/design/*.md
    install -D -m 644 -t "$tree/share/doc/tmux-task/service" hooks/service/*
    archive "$name.tar.xz" "$name"
    rm -rf "$tree"
    if [ "$has_symbols" = yes ]; then
        # Sorted by name it is behind the program: one of the tools that install takes the first.
        mkdir "${tree}_debug"
        cp "$out"/*.debug "${tree}_debug/"
        archive "${name}_debug.tar.xz" "${name}_debug"
        rm -rf "${tree}_debug"
    fi
}

# --- the check -------------------------------------------------------------------

# in_empty_root: what runs there, with bash alone.
in_empty_root() {
    expect() {
        if [ "$2" != "$3" ]; then
            printf 'FAILED: %s: expected %q, got %q\n' "$1" "$2" "$3"
            exit 1
        fi
        echo "ok: $1"
    }
    local code=0
    tmux-task --version
    expect 'a task runs' hello "$(tmux-task run ok --wait -- 'echo hello' >/dev/null && tmux-task logs ok)"
    tmux-task run bad --wait -- 'exit 7' >/dev/null 2>&1 || code=$?
    expect 'its code is known' 7 "$code"
    # shellcheck disable=SC2016 # for the task
    tmux-task run ask -- 'read -rp "Proceed? [y/N] " x; [ "$x" = y ]' >/dev/null
    code=0
    tmux-task wait ask --timeout 20s >/dev/null 2>&1 || code=$?
    expect 'a question is noticed' 6 "$code"
    tmux-task send ask y --if-prompt 'Proceed? [y/N]'
    code=0
    tmux-task wait ask --timeout 20s >/dev/null || code=$?
    expect 'and answered' 0 "$code"
    local records=()
    mapfile -t records <<<"$(tmux-task feed --type exited --format json)"
    expect 'each end is recorded' 3 "${#records[@]}"
    tmux-task kill-all --yes >/dev/null
    tmux-task daemon stop >/dev/null
}

# check_in_empty_root: what is mounted, and every process, ends with the namespaces.
check_in_empty_root() {
    local root own=() path library from
    root=$(mktemp -d /tmp/tt-root.XXXXXX)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$root'" EXIT
    mkdir -p "$root"/{bin,dev/pts,etc,proc,run,root,tmp}
    cp "$out/tmux-task" "$root/bin/"
    for path in "$(command -v bash)" "$(command -v tmux)" "$out/tmux-task"; do
        [ "$path" = "$out/tmux-task" ] || cp -L "$path" "$root/bin/"
        while IFS= read -r library; do
            install -D "$library" "$root$library"
        done < <(ldd "$path" 2>/dev/null | grep -o '/[^ ]*')
    done
    ln -s bash "$root/bin/sh"
    # Where glibc does not have it itself, tmux needs a locale with UTF-8.
    for from in /usr/lib/locale/C.utf8 /usr/lib/locale/C.UTF-8; do
        if [ -d "$from" ]; then mkdir -p "$root/usr/lib/locale" && cp -r "$from" "$root/usr/lib/locale/"; fi
    done
    touch "$root/dev/null" "$root/dev/tty"
    ln -s pts/ptmx "$root/dev/ptmx"
    {
        echo 'set -euo pipefail'
        declare -f in_empty_root
        echo in_empty_root
    } >"$root/check"
    # Other users need a namespace in which they may mount.
    [ "$(id -u)" -eq 0 ] || own=(--user --map-root-user)
    echo 'In the empty root:'
    (cd "$root" && { find bin lib* usr/lib* -type f 2>/dev/null || true; } | grep -v /locale/ | sort | sed 's/^/    /')
    # shellcheck disable=SC2016 # for the other shell
    unshare "${own[@]}" --mount --pid --fork bash -euc '
        mount -t proc proc "$1/proc"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
        mount --bind /dev/null "$1/dev/null"
        mount --bind /dev/tty "$1/dev/tty"
        exec env -i PATH=/bin HOME=/root SHELL=/bin/bash LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=/run \
            TMUX_TASK_SESSION=check "$(command -v chroot)" "$1" /bin/bash /check
    ' bash "$root"
}

case $kind in
    files) echo "$out" ;;
    # The program is built and stripped already.
    deb) cargo deb --no-build --no-strip --output "$out/" ;;
    tar) make_tar ;;
    static)
        make_tar
        cp "$out/tmux-task" "$out/tmux-task-static"
        echo "$out/tmux-task-static"
        ;;
esac
if [ "$check" = yes ]; then check_in_empty_root; fi
