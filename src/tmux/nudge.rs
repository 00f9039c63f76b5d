//! Signals that make a tmux server look after its children.

use rustix::process::{Pid, Signal, kill_process};

/// Makes a tmux server collect children that ended: it can lose the signal that reports them.
pub(crate) fn nudge(server_pid: u32) {
    if let Some(pid) = process(server_pid)
        && let Err(error) = kill_process(pid, Signal::CHILD)
    {
        tracing::debug!(server_pid, %error, "could not nudge the tmux server");
    }
}

/// Returns the process with this number; `None` for a number that none can have.
pub(super) fn process(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}
