//! The fleet's program, `tmux-task-fleet`, which is installed by itself.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Stdio;

use tokio::process::{ChildStdin, Command};

use super::LineProcess;
use crate::model::Error;

const FLEET_PROGRAM: &str = "tmux-task-fleet";

/// Returns a command of the fleet's program: the one beside this program, else that of PATH.
pub(crate) fn fleet_program() -> Command {
    Command::new(fleet_program_path())
}

/// Returns where it is: beside this program, else on PATH.
pub(crate) fn fleet_program_path() -> OsString {
    let beside = std::env::current_exe().map(|program| program.with_file_name(FLEET_PROGRAM));
    let beside = beside.ok().filter(|program| program.exists());
    beside.map_or_else(|| FLEET_PROGRAM.into(), Into::into)
}

/// A process of the fleet's program, which prints lines. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FleetProcess(LineProcess);

impl FleetProcess {
    /// Starts it, and returns also what it reads.
    pub(crate) fn start(
        args: impl IntoIterator<Item: AsRef<OsStr>>,
    ) -> Result<(ChildStdin, Self), Error> {
        let mut command = fleet_program().into_std();
        command.args(args);
        let process = LineProcess::spawn(command, Stdio::piped());
        let mut process = process.map_err(|error| fleet_not_started(&error))?;
        let stdin = process.take_stdin().expect("stdin is piped");
        Ok((stdin, Self(process)))
    }

    /// Returns the next line; the error is what the ended process has said. It is cancel safe.
    pub(crate) async fn line(&mut self) -> Result<Vec<u8>, Error> {
        if let Some(line) = self.0.line().await {
            return Ok(line);
        }
        self.0.end().await;
        // A hint follows.
        let why = self.0.said.lines().into_iter().next();
        let why = why.unwrap_or_else(|| format!("{FLEET_PROGRAM} has ended"));
        Err(Error::failed(why))
    }
}

pub(crate) fn fleet_not_started(error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return Error::io(format_args!("could not start {FLEET_PROGRAM}"), error);
    }
    let hint =
        "`cargo install --path . --locked --features fleet` in the source installs both programs";
    Error::failed(format!("{FLEET_PROGRAM} is not installed")).with_hint(hint)
}
