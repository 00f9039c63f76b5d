//! What is remembered of the last look: its windows, and the process of its server.

use std::collections::BTreeMap;

use crate::model::{Millis, Ordered as _, SessionLife, Snapshot, WindowId};
use crate::process::{self, Process};

/// Returns the windows whose departure has to be explained, with the pids of their runs: those of tasks
/// that are alive, or that may be restarted.
pub(super) fn watched_windows(look: &Snapshot) -> Vec<(WindowId, Option<u32>)> {
    look.tasks
        .values()
        .filter(|task| task.is_alive() || task.settings.restarts.is_some())
        .map(|task| (task.window, task.pid.filter(|_| task.is_alive())))
        .collect()
}

/// Returns when the runs that have a slot began.
pub(super) fn begun(look: &Snapshot) -> BTreeMap<WindowId, (Option<u32>, Option<Millis>)> {
    let tasks = look.tasks.values();
    tasks
        .filter(|task| task.settings.slot.is_some() && !task.queued)
        .map(|task| (task.window, (task.run, task.started_at)))
        .into_map()
}

/// The maximum difference between the kernel's and tmux's own start time of a server: tmux reads
/// its clock after the process has begun, and the clock may have been set since.
const START_TOLERANCE_SECS: i64 = 2;

/// Returns the process of a saved look's server, if it still runs.
pub(super) fn server_of(life: &SessionLife) -> Option<Process> {
    let process = Process::open(life.server_pid)?;
    // Another process may have its pid by now.
    let started = process::started_at(life.server_pid)? / 1000;
    let is_same = (started - life.server_started).abs() <= START_TOLERANCE_SECS;
    is_same.then_some(process)
}
