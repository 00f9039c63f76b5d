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

    /// Returns what a process does with signals; nothing special where it is gone or that is not known.
    pub(in super::super) fn masks(pid: u32) -> SignalMasks {
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
    use super::{is_interactive, parse};

    /// What [`parse`] reads. The name is last: it may contain blanks.
    const COLUMNS: [&str; 5] = ["pid", "ppid", "tty", "stat", "ucomm"];

    pub(in crate::process) fn read() -> Vec<ProcessRow> {
        parse(&ps::ps(&["-A"], &COLUMNS))
    }

    pub(in super::super) fn now() -> Option<u64> {
        None
    }

    pub(in super::super) fn contains(pid: u32, _started: u64) -> bool {
        exists(pid)
    }

    /// What interactive shells do is known; `ps` does not show masks everywhere.
    pub(in super::super) fn masks(pid: u32) -> SignalMasks {
        let words = ps::column(pid, "args").unwrap_or_default();
        let ignored = if is_interactive(&words) { u64::MAX } else { 0 };
        SignalMasks { ignored, caught: 0 }
    }
}

/// Whether this is the command line of a shell that reads commands from its terminal.
#[cfg(any(test, not(linux)))]
fn is_interactive(line: &str) -> bool {
    use crate::model::programs::{CommandReader, command_reader};

    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default().trim_start_matches('-');
    let name = program.rsplit('/').next().unwrap_or_default();
    command_reader(name) == Some(CommandReader::Shell)
        && words.all(|word| word.starts_with('-') && (word.starts_with("--") || !word.contains('c')))
}

/// Reads what `ps` prints. It does not show sessions, but their terminals and leaders.
#[cfg(any(test, not(linux)))]
fn parse(printed: &str) -> Vec<super::members::ProcessRow> {
    use std::collections::BTreeMap;

    let row = |line: &str| {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.trim_start().split_once(' ')?;
            rest = after;
            Some(word.to_owned())
        };
        let (pid, parent) = (word()?.parse::<u32>().ok()?, word()?.parse::<u32>().ok()?);
        let (tty, state) = (word()?, word()?);
        // A process that has ended.
        let runs = !state.starts_with('Z');
        runs.then(|| (pid, parent, tty, state, rest.trim().to_owned()))
    };
    let rows: Vec<_> = printed.lines().filter_map(row).collect();
    let has_terminal = |tty: &str| !tty.starts_with(['?', '-']);
    let leads = |state: &str| state.contains('s');
    let leaders: BTreeMap<&str, u32> = rows
        .iter()
        .filter(|(_, _, tty, state, _)| has_terminal(tty) && leads(state))
        .map(|(pid, _, tty, ..)| (tty.as_str(), *pid))
        .collect();
    rows.iter()
        .map(|(pid, parent, tty, state, name)| super::members::ProcessRow {
            pid: *pid,
            parent: *parent,
            session: match leaders.get(tty.as_str()) {
                Some(leader) => *leader,
                None if leads(state) => *pid,
                None => 0,
            },
            started: 0,
            is_stopped: state.starts_with('T'),
            name: crate::model::text::one_line(name.as_bytes(), NAME_CHARS),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ps_shows_sessions_by_their_terminals_and_leaders() {
        let printed = "    1     0 ?        Ss   systemd
  200     1 pts/3    Ss   bash
  201   200 pts/3    T+   my program
  202   200 pts/3    Z    bash
 3001   201 ??       Ss   daemon
 3002  3001 -        I    worker
not a process
";
        let rows = parse(printed);
        let sessions: Vec<_> = rows
            .iter()
            .map(|row| (row.pid, row.parent, row.session, row.name.as_str()))
            .collect();
        let expected = [
            (1, 0, 1, "systemd"),
            (200, 1, 200, "bash"),
            (201, 200, 200, "my program"),
            (3001, 201, 3001, "daemon"),
            (3002, 3001, 0, "worker"),
        ];
        assert_eq!(sessions, expected);
        assert!(rows[2].is_stopped && !rows[1].is_stopped);
    }

    #[test]
    fn a_shell_without_a_command_or_script_is_interactive() {
        for line in ["-zsh\n", "/bin/bash --norc -i", "sh"] {
            assert!(is_interactive(line), "{line}");
        }
        for line in ["bash -lc make", "sh build.sh", "vim", "", "bash --norc -ec x"] {
            assert!(!is_interactive(line), "{line}");
        }
    }
}
