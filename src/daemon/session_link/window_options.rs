//! Options of windows that are set after a look, in short lines between other jobs.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Ordered as _, Snapshot, WindowId};

/// How many windows one line prepares, and how many run numbers one line writes: tmux needs up to a
/// millisecond for either with 300 windows.
const PREPARED_AT_ONCE: usize = 3;
const RUNS_AT_ONCE: usize = 6;

/// Which options of windows are set, and which are not yet.
#[derive(Debug, Default)]
pub(in crate::daemon) struct WindowOptions {
    /// Windows whose options are set.
    prepared: BTreeSet<WindowId>,
    /// Windows whose options have to be set.
    unprepared: BTreeSet<WindowId>,
    /// Windows whose run number in tmux is wrong, with ours.
    runs: BTreeMap<WindowId, u32>,
}

/// What one line sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OptionLine {
    /// Windows whose options it sets.
    pub(super) prepared: Vec<WindowId>,
    /// Run numbers.
    pub(super) runs: Vec<(WindowId, u32)>,
}

impl WindowOptions {
    /// Notes a look, and the run numbers that are wrong in tmux.
    pub(super) fn note_look(&mut self, snapshot: &Snapshot, runs: Vec<(WindowId, u32)>) {
        // The options of a shell belong to its user.
        let is_ours =
            |window: &WindowId| snapshot.tasks.get(window).is_some_and(|task| !task.shell);
        self.runs = runs
            .into_iter()
            .filter(|(window, _)| is_ours(window))
            .into_map();
        let ours = snapshot.tasks.keys().filter(|window| is_ours(window));
        if ours.clone().eq(&self.prepared) {
            self.unprepared.clear();
            return;
        }
        self.prepared.retain(is_ours);
        let unprepared = ours.filter(|window| !self.prepared.contains(window));
        self.unprepared = unprepared.copied().collect();
    }

    /// Notes that a launch has set all options of this window.
    pub(super) fn note_launched(&mut self, window: WindowId) {
        self.prepared.insert(window);
        self.unprepared.remove(&window);
        self.runs.remove(&window);
    }

    /// Notes that the options of these windows are set.
    pub(super) fn note_prepared(&mut self, windows: &[WindowId]) {
        self.prepared.extend(windows);
    }

    /// Forgets everything, because the session is gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether anything has to be set.
    pub(in crate::daemon) fn is_any_left(&self) -> bool {
        !self.unprepared.is_empty() || !self.runs.is_empty()
    }

    /// Takes the run numbers that are to be written: all if they fit into a line, otherwise those of
    /// these windows.
    pub(super) fn take_runs(&mut self, windows: &[WindowId]) -> Vec<(WindowId, u32)> {
        if self.runs.len() <= RUNS_AT_ONCE {
            return std::mem::take(&mut self.runs).into_iter().collect();
        }
        let runs = windows.iter();
        runs.filter_map(|window| self.runs.remove_entry(window))
            .collect()
    }

    /// Takes what the next line sets; everything without a limit.
    pub(super) fn take_line(&mut self, has_limit: bool) -> OptionLine {
        let (n_prepared, n_runs) = match (has_limit, self.unprepared.is_empty()) {
            (false, _) => (usize::MAX, usize::MAX),
            (true, true) => (0, RUNS_AT_ONCE),
            (true, false) => (PREPARED_AT_ONCE, 0),
        };
        let prepared = std::iter::from_fn(|| self.unprepared.pop_first());
        let runs = std::iter::from_fn(|| self.runs.pop_first());
        OptionLine {
            prepared: prepared.take(n_prepared).collect(),
            runs: runs.take(n_runs).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::snapshot;

    fn look_at(n_windows: u32) -> Snapshot {
        let windows = (1..=n_windows).map(|n| format!("@{n}#1 a running"));
        let windows: Vec<String> = windows.collect();
        snapshot(&format!("life 1; {}", windows.join("; ")))
    }

    #[test]
    fn options_are_set_in_short_lines_and_once() {
        let mut options = WindowOptions::default();
        let look = look_at(4);
        let ids: Vec<WindowId> = look.tasks.keys().copied().collect();
        let runs: Vec<(WindowId, u32)> = ids.iter().map(|window| (*window, 1)).collect();
        options.note_look(&look, runs.clone());
        let prepared = |windows: &[WindowId]| OptionLine {
            prepared: windows.to_vec(),
            ..OptionLine::default()
        };
        let mut lines = Vec::new();
        while options.is_any_left() {
            let line = options.take_line(true);
            options.note_prepared(&line.prepared);
            lines.push(line);
        }
        assert_eq!(
            lines,
            [
                prepared(&ids[..3]),
                prepared(&ids[3..]),
                OptionLine {
                    runs,
                    ..OptionLine::default()
                },
            ]
        );
        options.note_look(&look, Vec::new());
        assert!(!options.is_any_left());
    }

    #[test]
    fn the_run_numbers_of_some_windows_can_be_written_first() {
        let mut options = WindowOptions::default();
        let look = look_at(9);
        let runs: Vec<(WindowId, u32)> = look.tasks.keys().map(|window| (*window, 4)).collect();
        options.note_look(&look, runs.clone());
        let some = [WindowId(2), WindowId(99)];
        assert_eq!(options.take_runs(&some), [(WindowId(2), 4)]);
        assert_eq!(options.take_runs(&some), []);
        // A window may have got the name since the look.
        options.note_look(&look, runs[..3].to_vec());
        assert_eq!(options.take_runs(&some), runs[..3]);
    }
}
