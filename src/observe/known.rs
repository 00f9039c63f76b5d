//! A window as of the previous look.

use std::sync::Arc;
use std::time::Instant;

use super::evidence::Evidence;
use crate::model::{Millis, Task};
use crate::protocol::rows::{Death, WindowRow};

#[derive(Debug, Clone)]
pub(super) struct KnownWindow {
    /// The task as it was reported then.
    pub(super) task: Arc<Task>,
    /// The row that it was derived from; `None` when it was restored and not looked at yet.
    pub(super) row: Option<Arc<WindowRow>>,
    pub(super) run: u32,
    /// The name that this number belongs to: the window's, unless it was renamed to a name that has had a
    /// run of this number.
    pub(super) run_name: String,
    /// Whether the exit of its run was in the death record.
    pub(super) is_recorded: bool,
    /// The terminal of its pane; `None` when it was restored and not looked at yet.
    pub(super) terminal: Option<String>,
    /// `@tmux_task_started` at that time. If it has not changed, it belongs to an earlier run.
    pub(super) started_option: Option<Millis>,
    /// Since when the process has ended without tmux reporting how, or that it did.
    pub(super) unsettled_since: Option<Instant>,
}

impl KnownWindow {
    pub(super) fn was_alive(&self) -> bool {
        self.task.is_alive()
    }

    /// Whether nothing has been reported of it since, so that it is unchanged.
    pub(super) fn is_unchanged(
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
