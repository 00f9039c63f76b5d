//! What is remembered of the windows of the last look.

use std::collections::BTreeMap;

use crate::model::{Ordered as _, PaneId, Snapshot, WindowId};

/// Returns the windows whose tasks are alive, with their pids.
pub(super) fn alive(look: &Snapshot) -> Vec<(WindowId, Option<u32>)> {
    look.tasks
        .values()
        .filter(|task| task.is_alive())
        .map(|task| (task.window, task.pid))
        .collect()
}

/// Returns the primary panes of the windows.
pub(super) fn primary(look: &Snapshot) -> BTreeMap<WindowId, PaneId> {
    let panes = look.tasks.values();
    panes
        .filter_map(|task| Some((task.window, task.pane?)))
        .into_map()
}
