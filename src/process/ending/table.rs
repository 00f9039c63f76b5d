//! The system's table of processes: from `/proc`, and elsewhere from `ps`.

pub(in crate::process) use system::read;
pub(super) use system::{contains, masks, now};

/// The maximum length of a program's name, in characters.
const NAME_CHARS: usize = 64;

#[cfg(linux)]
mod system {
    use std::fs;

    use rustix::param::clock_ticks_per_second;
    use rustix::time::{ClockId, clock_gettime};

    use super::super::super::stat;
    use super::super::members::{ProcessRow, SignalMasks};
    use super::NAME_CHARS;

    /// Returns all processes.
    pub(in crate::process) fn read() -> Vec<ProcessRow> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(row).collect()
    }

    /// Returns the present time as in [`ProcessRow::started`], in whole ticks; `None` where that is not
    /// known.
    pub(in super::super) fn now() -> Option<u64> {
        let now = clock_gettime(ClockId::Boottime);
        let nanos =
            u64::try_from(now.tv_sec).ok()? * 1_000_000_000 + u64::try_from(now.tv_nsec).ok()?;
        let tick = 1_000_000_000_u64.checked_div(clock_ticks_per_second())?;
        nanos.checked_div(tick)
    }

    /// Whether the process that started then has this pid and runs.
    pub(in super::super) fn contains(pid: u32, started: u64) -> bool {
        row(pid).is_some_and(|row| row.started == started)
    }

    /// Returns a process; `None` when it is gone or only waits for its parent to notice that.
    fn row(pid: u32) -> Option<ProcessRow> {
        let stat = stat(pid)?;
        let number = |field| stat.field(field)?.parse().ok();
        // Its first thread can have ended before the others.
        if stat.field(3) == Some("Z") && number(20).is_none_or(|threads: u32| threads <= 1) {
            return None;
        }
        Some(ProcessRow {
            pid,
            parent: number(4)?,
            session: number(6)?,
            started: stat.field(22)?.parse().ok()?,
            is_stopped: matches!(stat.field(3), Some("T" | "t")),
            name: crate::model::text::one_line(stat.name().as_bytes(), NAME_CHARS),
        })
    }

    /// Returns what a process of this name does with signals; nothing special where it is gone.
    pub(in super::super) fn masks(pid: u32, _name: &str) -> SignalMasks {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
                .unwrap_or_default()
        };
        SignalMasks {
            ignored: mask("SigIgn:"),
            caught: mask("SigCgt:"),
        }
    }
}

#[cfg(not(linux))]
mod system {
    use super::super::super::{exists, ps};
    use super::super::members::{ProcessRow, SignalMasks};
    use super::parse;

    pub(in crate::process) fn read() -> Vec<ProcessRow> {
        parse(&ps::ps(&["-A"], &super::COLUMNS))
    }

    pub(in super::super) fn now() -> Option<u64> {
        None
    }

    pub(in super::super) fn contains(pid: u32, _started: u64) -> bool {
        exists(pid)
    }

    /// Masks are not shown everywhere, but an interactive shell ignores what asks it to end.
    pub(in super::super) fn masks(_pid: u32, name: &str) -> SignalMasks {
        let ignored = if name.starts_with('-') { u64::MAX } else { 0 };
        SignalMasks { ignored, caught: 0 }
    }
}

/// What [`parse`] reads of `ps`. The words of the command are last: they contain blanks.
#[cfg(not(linux))]
const COLUMNS: [&str; 6] = ["pid", "ppid", "pgid", "tty", "stat", "args"];

/// Reads what `ps` prints. It does not show sessions, but their terminals and leaders; a process that has
/// lost its terminal is still in its group. The name of an interactive shell begins with `-`.
#[cfg(any(test, not(linux)))]
fn parse(printed: &str) -> Vec<super::members::ProcessRow> {
    use std::collections::BTreeMap;

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
            super::members::ProcessRow {
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
#[cfg(any(test, not(linux)))]
fn name(words: &[&str]) -> String {
    use crate::model::programs::{CommandReader, command_reader};

    let [program, options @ ..] = words else {
        return String::new();
    };
    let file = program.rsplit('/').next().unwrap_or_default();
    let file = crate::model::text::one_line(file.trim_start_matches('-').as_bytes(), NAME_CHARS);
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
        let sessions: Vec<_> = rows
            .iter()
            .map(|row| (row.pid, row.parent, row.session, row.name.as_str()))
            .collect();
        let expected = [
            (1, 0, 1, "init"),
            (200, 1, 200, "bash"),
            (201, 200, 200, "my"),
            (3001, 201, 3001, "daemon"),
            (3002, 3001, 3001, "worker"),
        ];
        assert_eq!(sessions, expected);
        assert!(rows[2].is_stopped && !rows[1].is_stopped);
    }

    #[test]
    fn a_shell_without_a_command_or_script_is_interactive() {
        let check = |line: &str, expected| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(name(&words), expected, "{line}");
        };
        for line in ["-zsh", "/bin/zsh --no-rcs -i", "zsh"] {
            check(line, "-zsh");
        }
        for line in ["bash -lc make", "bash build.sh", "/bin/bash --norc -ec x"] {
            check(line, "bash");
        }
        check("vim", "vim");
        check("", "");
    }
}
