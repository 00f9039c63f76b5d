//! What is remembered of the windows of the last look.

use std::collections::BTreeMap;

use crate::model::{Millis, Ordered as _, Snapshot, WindowId};

/// Returns the windows whose departure has to be explained, with the pids of their runs: those of tasks
/// that are alive, or that may be restarted.
pub(super) fn watched_windows(look: &Snapshot) -> Vec<(WindowId, Option<u32>)> {
    look.tasks
        .values()
        .filter(|task| task.is_alive() || task.restarts.is_some())
        .map(|task| (task.window, task.pid.filter(|_| task.is_alive())))
        .collect()
}

/// Returns when the runs that have a slot began.
pub(super) fn begun(look: &Snapshot) -> BTreeMap<WindowId, (Option<u32>, Option<Millis>)> {
    let tasks = look.tasks.values();
    tasks
        .filter(|task| task.slot.is_some() && !task.queued)
        .map(|task| (task.window, (task.run, task.started_at)))
        .into_map()
}
