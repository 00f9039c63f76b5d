//! The process of the tmux server that a saved look names.

use crate::model::SessionLife;
use crate::process::{self, Process};

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
