#!/usr/bin/env bash
# Checks what those rely on who build, package or publish tmux-task.
#
#   tests/packaging.sh
#
# version    which commit and day build.rs names: in a work tree, below one, in a package
#            of cargo, without git
# packages   Pi's package and Claude Code's plugin are complete, and of this version
# rules      tests/deny.toml holds: licences, sources, banned crates
# workflows  .github/workflows has no mistakes
#
# It needs rustc, git, npm and jq. Where cargo-deny, actionlint or claude is missing, it
# says what was not checked. It is part of tests/run.sh.
set -euo pipefail

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"; }
case ${1:-} in -h | --help) usage && exit ;; esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
n_failed=0

# expect TITLE EXPECTED ACTUAL
expect() {
    if [ "$2" = "$3" ]; then
        echo "ok: $1"
    else
        printf 'FAILED: %s\n    expected: %s\n    got:      %s\n' "$1" "$2" "$3"
        n_failed=$((n_failed + 1))
    fi
}

# succeeds TITLE COMMAND...
succeeds() {
    local title=$1 code=0
    shift
    "$@" >"$folder/output" 2>&1 || code=$?
    expect "$title" 0 "$code"
    if [ "$code" -ne 0 ]; then sed 's/^/    /' "$folder/output"; fi
}

# --- version -----------------------------------------------------------------------

rustc --edition 2024 -o "$folder/build" build.rs

# version FOLDER [VARIABLE=VALUE]...: what build.rs says there, of a release.
version() {
    local at=$1
    shift
    (cd "$at" && env -i PATH="$PATH" CARGO_PKG_VERSION=1.2.3 PROFILE=release "$@" "$folder/build") |
        sed -n 's/^cargo::rustc-env=LONG_VERSION=//p'
}

repo() {
    env -u GIT_DIR -u GIT_WORK_TREE GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null \
        GIT_COMMITTER_DATE=2026-03-01T23:30:00-0500 \
        git -C "$folder/repo" -c user.name=a -c user.email=a@b.c "$@"
}

mkdir -p "$folder/repo/sub" "$folder/package" "$folder/plain" "$folder/bin"
repo init -q
repo commit -q --allow-empty -m 1
commit=$(repo rev-parse HEAD)
commit=${commit:0:9}
repo worktree add -q ../worktree
echo '{ "git": { "sha1": "0123456789abcdef0123456789abcdef01234567" }, "path_in_vcs": "" }' |
    jq . >"$folder/package/.cargo_vcs_info.json"

is="1.2.3 ($commit 2026-03-02)"
expect 'version: the commit, and its day in UTC' "$is" "$(version "$folder/repo")"
expect 'version: also in a second work tree' "$is" "$(version "$folder/worktree")"
expect 'version: also where git speaks of another one' "$is" "$(version "$folder/repo" GIT_DIR="$folder/plain")"
expect 'version: a debug build says so' "1.2.3 ($commit 2026-03-02, debug)" "$(version "$folder/repo" PROFILE=debug)"
expect 'version: a reproducible build names the day' "1.2.3 ($commit 2000-02-29)" \
    "$(version "$folder/repo" SOURCE_DATE_EPOCH=951782400)"
expect 'version: below a work tree it is not its commit' 1.2.3 "$(version "$folder/repo/sub")"
expect 'version: a package of cargo names its commit' '1.2.3 (012345678)' "$(version "$folder/package")"
expect 'version: without git it is the number' 1.2.3 "$(version "$folder/plain")"
expect 'version: and without the program git, too' 1.2.3 "$(version "$folder/repo" PATH="$folder/bin")"
expect 'version: a day is enough' '1.2.3 (2100-03-01)' "$(version "$folder/plain" SOURCE_DATE_EPOCH=4107542400)"

# --- packages ----------------------------------------------------------------------

ours=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

# field FILE FILTER
field() { jq -r "$2" "$1"; }

for file in hooks/pi/package.json hooks/claude-code/.claude-plugin/plugin.json; do
    expect "$file: version, licence, author, private" "$ours MIT tmux-task null" \
        "$(field "$file" '"\(.version) \(.license) \(.author | tostring | match("tmux-task").string) \(.private)"')"
    expect "$file: description and keywords" true "$(field "$file" '(.description | length > 20) and (.keywords | length > 2)')"
done
expect 'hooks/qwen/qwen-extension.json: version' "$ours" "$(field hooks/qwen/qwen-extension.json .version)"
for of in hooks/pi hooks/claude-code; do
    succeeds "$of: the licence is the project's" cmp LICENSE "$of/LICENSE"
done
packed=$(cd hooks/pi && npm_config_cache="$folder/npm" npm pack --dry-run --json --offline | jq -r '.[0].files | map(.path) | sort | join(" ")')
expect "hooks/pi: what npm would publish" 'LICENSE README.md index.ts package.json' "$packed"
plugin=hooks/claude-code/.claude-plugin
expect "$plugin: the marketplace offers the plugin" "$(field $plugin/plugin.json .name)" \
    "$(field $plugin/marketplace.json '.plugins[] | select(.source == "./").name')"
if command -v claude >/dev/null 2>&1; then
    for manifest in plugin marketplace; do
        succeeds "$plugin/$manifest.json: claude plugin validate --strict" \
            env HOME="$folder/plain" claude plugin validate --strict "$plugin/$manifest.json"
    done
else
    echo "not checked, for claude is missing: $plugin"
fi

# --- rules -------------------------------------------------------------------------

if cargo deny --version >/dev/null 2>&1; then
    # The database of `advisories` is from the network; the workflow `advisories` has it.
    succeeds 'rules: cargo deny check licenses bans sources' \
        cargo deny --config tests/deny.toml check licenses bans sources
else
    echo 'not checked, for cargo-deny is missing: tests/deny.toml'
fi

# --- workflows ---------------------------------------------------------------------

if command -v actionlint >/dev/null 2>&1; then
    succeeds 'workflows: actionlint' actionlint .github/workflows/*.yml
else
    echo 'not checked, for actionlint is missing: .github/workflows'
fi

if [ "$n_failed" -ne 0 ]; then exit 1; fi
