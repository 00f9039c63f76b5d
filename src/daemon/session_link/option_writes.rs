//! Sets the options of windows in tmux.

use super::SessionLink;
use super::window_options::OptionLine;
use crate::model::WindowId;
use crate::tmux;

impl SessionLink {
    /// Records a window that a launch has created or used again: its options are set.
    pub(in crate::daemon) fn note_launched(&mut self, window: WindowId) {
        self.options.note_launched(window);
    }

    /// Whether options have to be set.
    pub(in crate::daemon) fn has_options_to_set(&self) -> bool {
        self.options.is_any_left()
    }

    /// Sets some options of new windows, or writes some run numbers.
    pub(in crate::daemon) async fn set_some_options(&mut self) {
        let line = self.options.take_line(self.is_connected());
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

    /// Sets all options that have to be set.
    pub(in crate::daemon) async fn set_options(&mut self) {
        while self.has_options_to_set() {
            self.set_some_options().await;
        }
    }
}
