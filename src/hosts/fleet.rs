//! The machines of a fleet, which meet at a broker: a program of its own, `tmux-task-fleet`, reaches them.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;

use tokio::process::{ChildStdin, Command};

use super::far_process::FarProcess;
use super::host::{FLEET_PROGRAM, Host};
use super::ssh::Questions;
use crate::config::HostConfig;
use crate::model::{Error, ErrorKind, FarCall};
use crate::paths::Env;

/// Returns a command of the fleet's program: the one beside this program, else that of PATH.
pub(crate) fn fleet_program() -> Command {
    Command::new(program())
}

fn program() -> OsString {
    let beside = std::env::current_exe().map(|program| program.with_file_name(FLEET_PROGRAM));
    let beside = beside.ok().filter(|program| program.exists());
    beside.map_or_else(|| FLEET_PROGRAM.into(), Into::into)
}

/// A process of the fleet's program, which prints lines. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FleetProcess(FarProcess);

impl FleetProcess {
    /// Starts it, and returns also what it reads.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn start(
        args: impl IntoIterator<Item: AsRef<OsStr>>,
    ) -> Result<(ChildStdin, Self), Error> {
        let mut command = fleet_program().into_std();
        command.args(args);
        let mut process = FarProcess::spawn(FLEET_PROGRAM, command, Stdio::piped())?;
        let stdin = process.take_stdin().expect("stdin is piped");
        Ok((stdin, Self(process)))
    }

    /// Returns the next line.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// What the process has said, when it has ended.
    pub(crate) async fn line(&mut self) -> Result<Vec<u8>, Error> {
        if let Some(line) = self.0.line_of_way().await {
            return Ok(line);
        }
        self.0.end().await;
        // A hint follows.
        let why = self.0.said.lines().into_iter().next();
        let why = why.unwrap_or_else(|| format!("{FLEET_PROGRAM} has ended"));
        Err(Error::failed(why))
    }
}

/// Executes a call on a machine of the fleet; `None` if the host is none.
///
/// # Errors
///
/// As [`FarProcess::start`].
pub(crate) async fn start_in_fleet(
    host: &Host,
    env: Env<'_>,
    call: &FarCall,
) -> Result<Option<FarProcess>, Error> {
    if !host.may_be_of_fleet {
        return Ok(None);
    }
    let program = program().to_string_lossy().into_owned();
    let of_fleet = Host {
        config: HostConfig {
            command: Some(vec![program, "at".to_owned(), host.name.clone()]),
            ..HostConfig::default()
        },
        may_be_of_fleet: false,
        ..host.clone()
    };
    match FarProcess::start(&of_fleet, env, Questions::Never, call).await {
        Err(error) if error.kind == ErrorKind::NoHost => Ok(None),
        started => started.map(Some),
    }
}
