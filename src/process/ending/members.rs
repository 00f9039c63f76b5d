//! Which processes belong to a run, and how each is asked to end: pure.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;

/// A process in the system's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct ProcessRow {
    pub(in crate::process) pid: u32,
    pub(in crate::process) parent: u32,
    /// The terminal session that it is in: the pid of its first process.
    pub(in crate::process) session: u32,
    /// When it started, in ticks since boot; 0 where that is not known.
    pub(in crate::process) started: u64,
    pub(in crate::process) is_stopped: bool,
    pub(in crate::process) name: String,
}

/// What a process does with signals, as masks: bit N-1 is signal N.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SignalMasks {
    pub(super) ignored: u64,
    pub(super) caught: u64,
}

/// The signal at which our launcher's shell waits until everything else has ended. Elsewhere no shell is
/// known to wait, so this is not sent.
#[cfg(linux)]
pub(super) const HOLD: Signal = Signal::POWER;
#[cfg(not(linux))]
pub(super) const HOLD: Signal = Signal::CONT;

const STKFLT: u8 = 16;
const TSTP: u8 = 20;
const URG: u8 = 23;
const PWR: u8 = 30;

impl SignalMasks {
    /// What our launcher's shell catches while it waits.
    #[cfg(any(test, not(linux)))]
    pub(super) const OF_LAUNCHER: u64 = 1 << (PWR - 1) | 1 << (STKFLT - 1) | 1 << (URG - 1);

    pub(super) fn has(mask: u64, signal: u8) -> bool {
        signal
            .checked_sub(1)
            .is_some_and(|bit| mask >> bit & 1 == 1)
    }

    /// Whether a shell with job control ignores the signal, as interactive shells ignore `SIGTERM`. A
    /// program that only ignores the signal has no job control, and is not meant. It cannot have
    /// inherited an ignored `SIGTSTP`: tmux resets that, but not `SIGTTIN` and `SIGTTOU`.
    pub(super) fn is_deaf_shell(&self, signal: u8) -> bool {
        Self::has(self.ignored, signal) && Self::has(self.ignored, TSTP)
    }

    /// Whether it is our launcher's shell, which waits at `SIGPWR` until everything else has ended.
    pub(super) fn is_launcher(&self, name: &str) -> bool {
        name == "bash" && Self::has(self.caught, PWR)
    }

    /// Whether our launcher's shell runs no command of the line any more, but a trap, or waits.
    pub(super) fn is_ending(&self) -> bool {
        Self::has(self.caught, URG)
    }

    /// Whether our launcher's shell waits for the hangup that ends it.
    pub(super) fn is_held(&self) -> bool {
        Self::has(self.caught, STKFLT)
    }

    /// Whether this signal would end it at once.
    pub(super) fn dies_of(&self, signal: u8) -> bool {
        !Self::has(self.ignored, signal) && !Self::has(self.caught, signal)
    }
}

/// The processes of a run that are known so far.
#[derive(Debug, Default)]
pub(in crate::process) struct Known {
    /// Sessions that belong to the run: the pane's, and those that its processes have begun.
    pub(in crate::process) sessions: BTreeSet<u32>,
    /// By pid, when they started: a pid can be given to another process.
    pub(super) started: BTreeMap<u32, u64>,
}

impl Known {
    /// Returns the processes of the table that belong to the run, and remembers them. `us` is never one
    /// of them.
    pub(in crate::process) fn find<'a>(
        &mut self,
        table: &'a [ProcessRow],
        us: u32,
    ) -> Vec<&'a ProcessRow> {
        let mut found: BTreeMap<u32, &ProcessRow> = BTreeMap::new();
        loop {
            let n_found = found.len();
            for row in table {
                if row.pid == us || row.pid <= 1 || found.contains_key(&row.pid) {
                    continue;
                }
                let is_known = self.started.get(&row.pid) == Some(&row.started);
                let is_member = is_known
                    || self.sessions.contains(&row.session)
                    || found.contains_key(&row.parent);
                if is_member {
                    found.insert(row.pid, row);
                    // A descendant is in the pane's session or in one that a descendant has begun.
                    if row.session > 1 {
                        self.sessions.insert(row.session);
                    }
                }
            }
            if found.len() == n_found {
                break;
            }
        }
        self.started
            .extend(found.values().map(|row| (row.pid, row.started)));
        found.into_values().collect()
    }

    /// Whether the process of the table does not belong to the run, and never will: it has not been in its
    /// sessions nor below its processes.
    pub(super) fn is_stranger(&self, row: &ProcessRow) -> bool {
        !self.started.contains_key(&row.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `PID PARENT SESSION`s.
    fn table(rows: &str) -> Vec<ProcessRow> {
        let row = |row: &str| {
            let numbers: Vec<u32> = row.split_whitespace().map(|n| n.parse().unwrap()).collect();
            ProcessRow {
                pid: numbers[0],
                parent: numbers[1],
                session: numbers[2],
                started: u64::from(numbers[0]) * 10,
                is_stopped: false,
                name: "sleep".to_owned(),
            }
        };
        rows.split(';').map(row).collect()
    }

    fn known(leader: u32) -> Known {
        Known {
            sessions: BTreeSet::from([leader]),
            ..Known::default()
        }
    }

    #[track_caller]
    fn check(known: &mut Known, rows: &str, expected: &[u32]) {
        let table = table(rows);
        let pids: Vec<u32> = known.find(&table, 99).iter().map(|row| row.pid).collect();
        assert_eq!(pids, expected, "{rows}");
    }

    #[test]
    fn a_run_is_its_session_and_all_descendants() {
        // 12 is in a session of its own with a child; 14, in the pane's session, was left by its parent.
        let rows = "5 1 5; 10 5 10; 11 10 10; 12 11 12; 13 12 12; 14 1 10; 20 5 20";
        check(&mut known(10), rows, &[10, 11, 12, 13, 14]);
        // Nobody ends himself or the first process.
        check(&mut known(10), "1 0 10; 10 5 10; 99 10 10", &[10]);
        // Kernel threads are in no session.
        let rows = "2 0 0; 10 5 10; 11 10 0; 12 2 0";
        check(&mut known(10), rows, &[10, 11]);
    }

    #[test]
    fn what_was_a_descendant_belongs_to_the_run_when_its_parents_have_ended() {
        let mut known = known(10);
        check(&mut known, "10 5 10; 12 10 12", &[10, 12]);
        // Its session stays known, with what was started in it since.
        check(&mut known, "12 1 12; 15 1 12; 16 15 16", &[12, 15, 16]);
    }

    #[test]
    fn a_pid_of_another_process_is_not_known() {
        let mut known = known(10);
        check(&mut known, "10 5 10; 12 10 12", &[10, 12]);
        known.sessions.clear();
        let mut later = table("12 1 40");
        later[0].started = 7;
        assert!(known.find(&later, 99).is_empty());
    }

    #[test]
    fn shells_are_told_by_what_they_do_with_signals() {
        let mask = |signals: &[u8]| signals.iter().fold(0, |mask, n| mask | 1 << (n - 1));
        let masks = |ignored, caught| SignalMasks { ignored, caught };
        assert!(masks(0x38_4004, 0).is_deaf_shell(15));
        let only_ignores = masks(mask(&[15, 1, 21, 22]), 0);
        assert!(!only_ignores.is_deaf_shell(15));
        assert!(!only_ignores.dies_of(1));
        let launcher = masks(0, mask(&[30, 17]));
        assert!(launcher.is_launcher("bash") && !launcher.is_launcher("nginx"));
        assert!(launcher.dies_of(15) && !launcher.dies_of(17));
        assert!(!launcher.is_held());
        assert!(masks(0, mask(&[30, 16])).is_held());
    }
}
