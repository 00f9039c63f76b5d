//! Shell completion: the script for a shell, and its questions.
//!
//! The script asks the program itself at each completion, so that it knows the tasks.

use std::ffi::OsString;

use clap::CommandFactory;
use clap_complete::env::{CompleteEnv, Shells};

use super::args::{Cli, Completions};
use super::output;
use crate::model::Error;

/// The variable by which the script says that it wants candidates.
const VARIABLE: &str = "TMUX_TASK_COMPLETE";

pub(super) fn run(args: Completions) -> Result<(), Error> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let name = "tmux-task";
    let written = match shells.completer(args.shell.name()) {
        Some(shell) => shell.write_registration(VARIABLE, name, name, name, &mut script),
        None => {
            return Err(Error::failed("no such script"));
        }
    };
    written.map_err(Error::of)?;
    output::text(&String::from_utf8_lossy(&script))
}

/// Prints the candidates if a shell asks for them. Returns whether it did.
pub(super) fn answer(args: &[OsString]) -> Result<bool, clap::Error> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .try_complete(args.iter().cloned(), folder.as_deref())
}
