# shellcheck shell=sh disable=SC2154,SC2086
# `tmux-task init host` runs this on the other machine, by its login shell and without its line ends: so it has
# no single quotes, backslashes and exclamation marks, and each line is a command. The program comes on standard
# input. Set before are $p, the program that is found there or its path, $target, where it is put, $ours, its version, and
# $here, the system that it is for. The last line that begins with `tmux-task: ` is the answer.
say() { echo "tmux-task: $*"; exit 0; }
p=$(command -v "$p")
found=$(test -x "$p" && "$p" -V </dev/null)
if test "$found" = "$ours"; then say has "$p"; fi
if test -x "$p"; then test "$p" = "$target" || say other "${found:-something else} at $p"; fi
test "$(uname -sm)" = "$here" || say system "$(uname -sm)"
# It takes its place when it is whole and runs; one that runs goes on.
new="$target.$$"
mkdir -p "$(dirname "$target")" && cat >"$new" && chmod 755 "$new" && why=$("$new" -V 2>&1 </dev/null)
case "$why" in *"$ours") mv "$new" "$target" && say copied "$target"; rm -f "$new"; exit 1 ;; esac
rm -f "$new"
# The libraries there may be older, of which the loader says several lines.
if test -n "$why"; then set -f; say stopped $why; fi
exit 1
