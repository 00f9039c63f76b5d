//! Options of windows that are set after a look, in short lines between other jobs.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Ordered as _, Snapshot, WindowId};
use crate::tmux::WindowSetting;

/// How many windows one line is about: tmux needs up to a millisecond for it with 300 windows.
const AT_ONCE: usize = 2;

/// Which options of windows are set, and which are not yet.
#[derive(Debug, Default)]
pub(in crate::daemon) struct WindowOptions {
    /// Windows that were prepared: once, because their user may change that.
    prepared: BTreeSet<WindowId>,
    left: BTreeMap<WindowId, WindowSetting>,
}

impl WindowOptions {
    /// Notes a look, and the run numbers that are wrong in tmux.
    pub(super) fn note_look(&mut self, snapshot: &Snapshot, runs: Vec<(WindowId, u32)>) {
        let runs: BTreeMap<WindowId, u32> = runs.into_iter().collect();
        // The options of a shell belong to its user.
        let ours = snapshot.tasks.iter().filter(|(_, task)| !task.shell);
        let settings = ours.map(|(window, _)| WindowSetting {
            window: *window,
            prepares: !self.prepared.contains(window),
            run: runs.get(window).copied(),
        });
        let left = settings.filter(|set| set.prepares || set.run.is_some());
        self.left = left.map(|set| (set.window, set)).into_map();
        let tasks = &snapshot.tasks;
        let is_ours = |window: &WindowId| tasks.get(window).is_some_and(|task| !task.shell);
        self.prepared.retain(is_ours);
    }

    /// Notes that a launch has set all options of this window.
    pub(super) fn note_launched(&mut self, window: WindowId) {
        self.prepared.insert(window);
        self.left.remove(&window);
    }

    pub(super) fn note_set(&mut self, settings: &[WindowSetting]) {
        self.prepared.extend(settings.iter().map(|set| set.window));
    }

    pub(in crate::daemon) fn is_any_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Takes what the next line sets; everything without a limit.
    pub(super) fn take_line(&mut self, has_limit: bool) -> Vec<WindowSetting> {
        let n_windows = if has_limit { AT_ONCE } else { usize::MAX };
        let left = std::iter::from_fn(|| self.left.pop_first());
        left.take(n_windows).map(|(_, set)| set).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::snapshot;

    #[test]
    fn options_are_set_in_short_lines_and_once() {
        let mut options = WindowOptions::default();
        let look = snapshot("life 1; @1#1 a running; @2#1 a running; @3#1 a running");
        options.note_look(&look, vec![(WindowId(2), 1)]);
        let set = |window, prepares, run| WindowSetting {
            window: WindowId(window),
            prepares,
            run,
        };
        let mut lines = Vec::new();
        while options.is_any_left() {
            let line = options.take_line(true);
            options.note_set(&line);
            lines.push(line);
        }
        let first = vec![set(1, true, None), set(2, true, Some(1))];
        assert_eq!(lines, [first, vec![set(3, true, None)]]);
        options.note_look(&look, Vec::new());
        assert!(!options.is_any_left());
        options.note_look(&look, vec![(WindowId(3), 4)]);
        assert_eq!(options.take_line(true), [set(3, false, Some(4))]);
    }
}
