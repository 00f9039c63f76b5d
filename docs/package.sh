#!/usr/bin/env bash
# Packages tmux-task: the program and that of the fleet, the helper, manual pages, completions, a systemd
# user unit and the documentation. Debug symbols go to a file of their own.
#
#   docs/package.sh files|deb|tar [--program PATH] [--install]
#
# files      build the program and write all files to target/package
# deb        the same, and a Debian package, with cargo-deb
# tar        the same, and an archive that can be unpacked in /usr/local or ~/.local
# --program  package this program, and tmux-task-fleet beside it, with their symbols,
#            instead of building them
# --install  install missing packages with sudo; root always installs them
#
# What it writes is in target/package. It says what is missing. What cargo-deb puts
# into the package is in Cargo.toml, in the table package.metadata.deb.
set -euo pipefail

# The maximum size of the program without symbols, in bytes.
readonly MAX_BYTES=15000000

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }

fail() {
    echo "docs/package.sh: $1" >&2
    echo "hint: $2" >&2
    exit "${3:-1}"
}

install=no
program=''
kind=''
while [ "$#" -gt 0 ]; do
    case $1 in
        files | deb | tar) kind=$1 ;;
        --program)
            [ "$#" -ge 2 ] || fail '--program needs a path' 'docs/package.sh --help' 2
            [ -x "$2" ] || fail "no program at $2" 'docs/package.sh --help' 2
            program=$(realpath -- "$2")
            [ -x "$(dirname -- "$program")/tmux-task-fleet" ] ||
                fail "no tmux-task-fleet beside $program" 'cargo build --features fleet --bins' 2
            shift
            ;;
        --install) install=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) fail "unknown option \`$1\`" 'docs/package.sh files|deb|tar [--program PATH] [--install]' 2 ;;
    esac
    shift
done
[ -n "$kind" ] || fail 'say what to make' 'docs/package.sh files|deb|tar' 2
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
    tar) need xz xz-utils ;;
esac
install_missing "$install"
if [ "$kind" = deb ] && ! command -v cargo-deb >/dev/null 2>&1; then
    fail 'missing: cargo-deb' 'cargo install cargo-deb --locked'
fi

# --- the files -------------------------------------------------------------------

out=$root/target/package
rm -rf "$out"
mkdir -p "$out/man" "$out/completions"

built=no
if [ -z "$program" ]; then
    built=yes
    # The same code as for everybody, with lines for the file of symbols.
    CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
        cargo build --release --locked --features fleet,webhook --bins
    program=$(realpath -- "${CARGO_TARGET_DIR:-target}/release/tmux-task")
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

version=$(tmux-task --version)
version=${version#tmux-task }
size=$(stat -c %s "$out/tmux-task")
printf 'program  %d KiB\n' "$((size / 1024))"
if [ "$has_symbols" = yes ]; then
    printf 'symbols  %d KiB\n' "$(($(stat -c %s "$out/tmux-task.debug") / 1024))"
fi

# Another program may be of any profile.
if [ "$built" = yes ] && [ "$size" -gt "$MAX_BYTES" ]; then
    fail "the program has $size bytes, more than $MAX_BYTES" \
        'docs/design/performance.md, "Size of the program", says what its bytes are and how they were counted'
fi

# --- the package -----------------------------------------------------------------

# archive NAME FOLDER: packs a folder below target/package, the same for the same files.
archive() {
    local made
    made=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$root" log -1 --format=%ct 2>/dev/null || echo 0)}
    tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$made" -cf - "$2" |
        xz -T0 >"$out/$1"
    echo "$out/$1"
}

make_tar() {
    local name tree
    name=tmux-task-$version-$(uname -m)-linux
    tree=$out/$name
    install -D -m 755 -t "$tree/bin" "$out/tmux-task" "$out/tmux-task-fleet"
    install -m 755 hooks/tmux-task-run.sh "$tree/bin/tmux-task-run"
    install -D -m 644 -t "$tree/share/man/man1" "$out"/man/*.1.gz
    install -D -m 644 "$out/completions/tmux-task.bash" \
        "$tree/share/bash-completion/completions/tmux-task"
    install -D -m 644 -t "$tree/share/fish/vendor_completions.d" "$out/completions/tmux-task.fish"
    install -D -m 644 -t "$tree/share/zsh/site-functions" "$out/completions/_tmux-task"
    install -D -m 644 -t "$tree/share/doc/tmux-task" README.md LICENSE hooks/skill/SKILL.md
    install -D -m 644 -t "$tree/share/doc/tmux-task/docs" docs/[a-z]*.md docs/*.json docs/*.svg
    install -D -m 644 -t "$tree/share/doc/tmux-task/docs/design" docs/design/*.md
    install -D -m 644 -t "$tree/share/doc/tmux-task/service" hooks/service/*
    archive "$name.tar.xz" "$name"
    rm -rf "$tree"
    if [ "$has_symbols" = yes ]; then
        mkdir "$tree-debug"
        cp "$out"/*.debug "$tree-debug/"
        archive "$name-debug.tar.xz" "$name-debug"
        rm -rf "$tree-debug"
    fi
}

case $kind in
    files) echo "$out" ;;
    # The program is built and stripped already.
    deb) cargo deb --no-build --no-strip --output "$out/" ;;
    tar) make_tar ;;
esac
