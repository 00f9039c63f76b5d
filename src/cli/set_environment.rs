//! `set-environment`: used by the shells of a task.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::args::SetEnvironment;
use super::failure::{Failure, Kind};
use crate::tmux::take_beyond_shells;

/// Sets variables that no shell can name, then executes a program.
pub(super) fn run(args: SetEnvironment) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::of(Kind::Failed, "set-environment", error);
    let variables = take_beyond_shells(&args.file).map_err(|error| failed(&error))?;
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    let error = Command::new(program).args(words).envs(variables).exec();
    Err(failed(&error))
}
