//! A window as the look before left it.

use std::sync::Arc;
use std::time::Instant;

use super::evidence::Evidence;
use crate::model::{Millis, Task};
use crate::protocol::rows::{Death, WindowRow};

/// A window at the look before.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// As it was told then.
    pub(super) task: Arc<Task>,
    /// What it was judged by; `None` where no look of ours has seen it.
    pub(super) row: Option<Arc<WindowRow>>,
    pub(super) run: u32,
    /// Whether the end of its run stood in the record of deaths.
    pub(super) is_recorded: bool,
    /// The terminal of its pane; `None` where no look of ours has seen it.
    pub(super) terminal: Option<String>,
    /// `@tmux_task_started` as it stood then: an equal one speaks of an earlier run.
    pub(super) started_option: Option<Millis>,
    /// Since when the process has ended without tmux saying how, or at all.
    pub(super) unsettled_since: Option<Instant>,
}

impl Known {
    pub(super) fn was_alive(&self) -> bool {
        self.task.is_alive()
    }

    /// Whether nothing has been told of it since: then it is as it was.
    pub(super) fn stands(
        &self,
        row: &Arc<WindowRow>,
        record: &[Death],
        evidence: &Evidence,
    ) -> bool {
        let is_touched = |pid| evidence.ended.contains(&pid) || evidence.exits.contains_key(&pid);
        self.row
            .as_ref()
            .is_some_and(|before| Arc::ptr_eq(before, row))
            && self.unsettled_since.is_none()
            && record.iter().all(|death| death.window != row.window)
            && !self.task.pid.is_some_and(is_touched)
    }
}
