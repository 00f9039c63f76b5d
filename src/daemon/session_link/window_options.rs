//! Options of windows that are set after a look.

use super::SessionLink;
use crate::model::{Snapshot, WindowId};
use crate::tmux;

/// What to set in tmux after a look.
#[derive(Debug)]
pub(in crate::daemon) struct OptionUpdates {
    /// New windows.
    fresh: Vec<WindowId>,
    /// Windows whose run number in tmux is wrong.
    runs: Vec<(WindowId, u32)>,
}

impl SessionLink {
    /// Records a window that a launch has created or used again: its options are set.
    pub(in crate::daemon) fn note_launched(&mut self, window: WindowId) {
        self.prepared.insert(window);
    }

    pub(super) fn option_updates(
        &mut self,
        snapshot: &Snapshot,
        mut runs: Vec<(WindowId, u32)>,
    ) -> OptionUpdates {
        // The options of a shell belong to its user.
        let is_ours =
            |window: &WindowId| snapshot.tasks.get(window).is_some_and(|task| !task.shell);
        runs.retain(|(window, _)| is_ours(window));
        let ours = snapshot.tasks.keys().filter(|window| is_ours(window));
        if ours.clone().eq(&self.prepared) {
            return OptionUpdates {
                fresh: Vec::new(),
                runs,
            };
        }
        self.prepared.retain(is_ours);
        let fresh = ours
            .filter(|window| !self.prepared.contains(window))
            .copied()
            .collect();
        OptionUpdates { fresh, runs }
    }

    /// Sets the options of new windows and writes our run numbers.
    pub(in crate::daemon) async fn update_options(&mut self, option_updates: &OptionUpdates) {
        let OptionUpdates { fresh, runs } = option_updates;
        if fresh.is_empty() && runs.is_empty() {
            return;
        }
        let mut connection = self.connection();
        let tidied = async {
            tmux::prepare_windows(&mut connection, fresh).await?;
            tmux::write_runs(&mut connection, runs).await
        };
        match tidied.await {
            Ok(()) => self.prepared.extend(fresh),
            Err(error) => tracing::warn!(%error, "could not set the options of windows"),
        }
    }
}
