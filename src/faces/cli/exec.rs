//! `exec`: what a task's pane starts.

use std::path::Path;
use std::process::ExitCode;

use super::failure::{Failure, Kind};
use super::output;
use crate::tmux::exec_task;

/// The exit code of a task that could not be started, as shells have it.
const NOT_EXECUTED: u8 = 126;

/// Replaces this process with the shell that runs the task of a file.
pub(super) fn run(file: &Path) -> ExitCode {
    let error = exec_task(file);
    output::complain(&Failure::of(Kind::Failed, "exec", &error));
    ExitCode::from(NOT_EXECUTED)
}
