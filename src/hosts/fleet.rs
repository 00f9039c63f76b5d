//! The machines of a fleet, which meet at a broker: a program of its own, `tmux-task-fleet`, reaches them.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines, Take};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::far_call::FarCall;
use super::far_process::FarProcess;
use super::host::{FLEET_PROGRAM, Host, Way, fleet_not_started};
use super::ssh::Questions;
use crate::model::{Error, ErrorKind, text};
use crate::paths::Env;

/// How much of what the program says is kept, in bytes, and shown, in characters.
const MOST_SAID: u64 = 16 << 10;
const SAID_CHARS: usize = 400;

/// How long what it says may take to arrive after its end.
const SAID_WITHIN: Duration = Duration::from_secs(1);

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
pub(crate) struct FleetProcess {
    lines: Lines<BufReader<ChildStdout>>,
    stderr: Take<ChildStderr>,
    said: Vec<u8>,
    _child: Child,
}

impl FleetProcess {
    /// Starts it, and returns also what it reads.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn start(
        args: impl IntoIterator<Item: AsRef<OsStr>>,
    ) -> Result<(ChildStdin, Self), Error> {
        let mut command = fleet_program();
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| fleet_not_started(&error))?;
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let process = Self {
            lines: BufReader::new(stdout).lines(),
            stderr: stderr.take(MOST_SAID),
            said: Vec::new(),
            _child: child,
        };
        Ok((stdin, process))
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
    pub(crate) async fn line(&mut self) -> Result<String, Error> {
        let line = tokio::select! {
            line = self.lines.next_line() => line,
            // What is said does not keep it from printing.
            _ = self.stderr.read_to_end(&mut self.said) => self.lines.next_line().await,
        };
        if let Some(line) = line.map_err(Error::of)? {
            return Ok(line);
        }
        drop(timeout(SAID_WITHIN, self.stderr.read_to_end(&mut self.said)).await);
        let lines = self.said.split(|byte| *byte == b'\n');
        // A hint follows.
        let mut lines = lines.map(|line| text::one_line(line, SAID_CHARS));
        let why = lines.find(|line| !line.is_empty());
        Err(Error::failed(
            why.unwrap_or_else(|| format!("{FLEET_PROGRAM} has ended")),
        ))
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
    let words = [program(), "at".into(), OsString::from(&host.name)];
    let of_fleet = Host {
        way: Way::Command(words.to_vec()),
        may_be_of_fleet: false,
        ..host.clone()
    };
    match FarProcess::start(&of_fleet, env, Questions::Never, call).await {
        Err(error) if error.kind == ErrorKind::NoHost => Ok(None),
        started => started.map(Some),
    }
}
