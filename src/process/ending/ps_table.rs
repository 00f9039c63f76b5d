//! The system's table of processes where there is no `/proc`: from `ps`.

use std::collections::BTreeMap;

use super::super::stat::NAME_CHARS;
use super::super::{Process, ps};
use super::members::{ProcessRow, SignalMasks};
use crate::model::programs::{CommandReader, command_reader};
use crate::model::text;

/// What [`parse`] reads. The words of the command are last: they contain blanks.
const COLUMNS: [&str; 6] = ["pid", "ppid", "pgid", "tty", "stat", "args"];

/// Returns all processes: `ps` prints them at once.
pub(in crate::process) fn read(_strangers: &mut Vec<u32>) -> Vec<ProcessRow> {
    parse(&ps::ps(&["-A"], &COLUMNS))
}

/// The present time as in [`ProcessRow::started`] is not known.
pub(super) fn now() -> Option<u64> {
    None
}

/// No shell waits.
pub(super) fn note_stop_signal(_pid: u32, _signal: u8) {}

/// Whether a process with this pid runs: not one that only waits for its parent to notice its end.
pub(super) fn contains(pid: u32, _started: u64) -> bool {
    Process::open(pid).is_some()
}

/// Returns what a process of this name does with signals. Masks are not shown everywhere, but an
/// interactive shell ignores what asks it to end, and a line of shell shows its traps.
pub(super) fn masks(pid: u32, name: &str) -> SignalMasks {
    let all = |does| if does { u64::MAX } else { 0 };
    let is_interactive = name.starts_with('-');
    let is_shell = command_reader(name) == Some(CommandReader::Shell);
    let has_trap = is_shell && !is_interactive && {
        let line = ps::column(pid, "args").unwrap_or_default();
        sets_trap(&line)
    };
    SignalMasks {
        ignored: all(is_interactive),
        // Not the signal at which our launcher's shell waits: that it does is not shown.
        caught: all(has_trap) & !SignalMasks::OF_LAUNCHER,
    }
}

/// Whether a shell with these words sets a trap. Those of our launcher are called by `builtin`.
fn sets_trap(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut pairs = words.windows(2);
    pairs.any(|pair| {
        pair[1].trim_start_matches(|c| "({;".contains(c)) == "trap" && !pair[0].ends_with("builtin")
    })
}

/// Reads what `ps` prints. It does not show sessions, but their terminals and leaders; a process that has
/// lost its terminal is still in its group. The name of an interactive shell begins with `-`.
fn parse(printed: &str) -> Vec<ProcessRow> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let mut number = || words.next()?.parse::<u32>().ok();
        let ids = (number()?, number()?, number()?);
        let (tty, state) = (words.next()?, words.next()?);
        let words: Vec<&str> = words.collect();
        // Not a process that has ended.
        (!state.starts_with('Z')).then(|| (ids, tty.to_owned(), state.to_owned(), name(&words)))
    };
    let rows: Vec<_> = printed.lines().filter_map(row).collect();
    let leaders: BTreeMap<&str, u32> = rows
        .iter()
        .filter(|(_, tty, state, _)| !tty.starts_with(['?', '-']) && state.contains('s'))
        .map(|((pid, ..), tty, ..)| (tty.as_str(), *pid))
        .collect();
    let row =
        |((pid, parent, group), tty, state, name): &((u32, u32, u32), String, String, String)| {
            ProcessRow {
                pid: *pid,
                parent: *parent,
                session: *leaders.get(tty.as_str()).unwrap_or(group),
                started: 0,
                is_stopped: state.starts_with('T'),
                name: name.clone(),
            }
        };
    rows.iter().map(row).collect()
}

/// Returns a program's name, by the words that it was started with.
fn name(words: &[&str]) -> String {
    let [program, options @ ..] = words else {
        return String::new();
    };
    let file = program.rsplit('/').next().unwrap_or_default();
    let file = text::one_line(file.trim_start_matches('-').as_bytes(), NAME_CHARS);
    let has_no_command =
        |word: &&str| word.starts_with("--") || (word.starts_with('-') && !word.contains('c'));
    let is_shell = command_reader(&file) == Some(CommandReader::Shell);
    let dash = if is_shell && options.iter().all(has_no_command) {
        "-"
    } else {
        ""
    };
    format!("{dash}{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ps_shows_sessions_by_their_terminals_and_leaders_or_groups() {
        let printed = "    1     0     1 ?        Ss   /sbin/init
  200     1   200 pts/3    Ss   bash --noprofile -lc x
  201   200   200 pts/3    T+   ./my program
  202   200   200 pts/3    Z    [bash]
 3001   201  3001 ??       Ss   /usr/sbin/daemon -d
 3002  3001  3001 -        I    worker
not a process
";
        let rows = parse(printed);
        let shown = rows.iter().map(|row| {
            let ProcessRow {
                pid,
                parent,
                session,
                name,
                ..
            } = row;
            format!("{pid} {parent} {session} {name}")
        });
        let expected = [
            "1 0 1 init",
            "200 1 200 bash",
            "201 200 200 my",
            "3001 201 3001 daemon",
            "3002 3001 3001 worker",
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert!(rows[2].is_stopped && !rows[1].is_stopped);
    }

    #[test]
    fn traps_of_a_line_of_shell_are_seen_and_ours_are_not() {
        let ours = "bash -lc builtin trap 'x' EXIT; [ -n \"$(builtin trap -p TERM)\" ]";
        assert!(!sets_trap(ours));
        for line in ["trap 'echo bye' TERM; sleep 9", "(trap : TERM; sleep 9)"] {
            assert!(sets_trap(&format!("{ours}; {line}")), "{line}");
        }
        assert!(!sets_trap("bash mousetrap.sh"));
    }

    #[test]
    fn a_shell_without_a_command_or_script_is_interactive() {
        for (line, expected) in [
            ("-zsh", "-zsh"),
            ("/bin/zsh --no-rcs -i", "-zsh"),
            ("zsh", "-zsh"),
            ("bash -lc make", "bash"),
            ("bash build.sh", "bash"),
            ("/bin/bash --norc -ec x", "bash"),
            ("vim", "vim"),
            ("", ""),
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(name(&words), expected, "{line}");
        }
    }
}
