//! Sets the options of windows in tmux, for launches and after looks.

use std::collections::BTreeSet;

use super::SessionLink;
use super::window_options::OptionLine;
use crate::model::{PaneId, WindowId};
use crate::tmux;

impl SessionLink {
    /// Records a window that a launch has created or used again: its options are set, and its pane is
    /// not what it was.
    pub(in crate::daemon) fn note_launched(&mut self, window: WindowId, pane: Option<PaneId>) {
        self.options.note_launched(window);
        self.memory.expect(pane, &BTreeSet::new(), [window]);
    }

    /// Whether options have to be set.
    pub(in crate::daemon) fn has_options_to_set(&self) -> bool {
        self.options.is_any_left()
    }

    /// Sets some options of new windows, or writes some run numbers.
    pub(in crate::daemon) async fn set_some_options(&mut self) {
        let line = self.options.take_line(self.is_connected());
        self.set(line).await;
    }

    /// Writes the run numbers of the windows with this name, from which tmux counts the next run.
    pub(in crate::daemon) async fn write_runs_named(&mut self, name: &str) {
        let windows = self.memory.windows_named(name);
        self.write_runs_of(&windows).await;
    }

    /// Writes the run numbers of these windows, if tmux has wrong ones, and others where they are few.
    pub(in crate::daemon) async fn write_runs_of(&mut self, windows: &[WindowId]) {
        let runs = self.options.take_runs(windows);
        if !runs.is_empty() {
            self.set(OptionLine::Runs(runs)).await;
        }
    }

    async fn set(&mut self, line: OptionLine) {
        let mut connection = self.connection();
        let set = match &line {
            OptionLine::Prepare(windows) => tmux::prepare_windows(&mut connection, windows).await,
            OptionLine::Runs(runs) => tmux::write_runs(&mut connection, runs).await,
        };
        match (set, line) {
            (Ok(()), OptionLine::Prepare(windows)) => self.options.note_prepared(windows),
            // A look that does not read these windows again finds the numbers in the memory.
            (Ok(()), OptionLine::Runs(runs)) => self.memory.note_runs(&runs),
            // The next look tries again.
            (Err(error), _) => tracing::warn!(%error, "could not set the options of windows"),
        }
    }
}
