//! Starts a daemon that outlives the command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::time::{Instant, sleep};

use super::DaemonClient;
use crate::model::environment::reaches_daemon;
use crate::model::{Error, ErrorKind};

/// How long a daemon that was just started by another command may take until it listens.
const LISTENING_WITHIN: Duration = Duration::from_secs(10);

/// How long a daemon that leaves may hold its locks. If none listens after that, one is started again.
const LEAVING_TAKES: Duration = Duration::from_millis(500);

/// How to start a daemon: our own program with the arguments that select the task session.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it will listen.
    pub socket: PathBuf,
}

/// Returns why no daemon could be started.
fn not_started(why: impl Into<String>) -> Error {
    Error::failed(why)
        .with_hint("`tmux-task daemon` in the foreground shows what keeps it from starting")
}

/// Connects to the daemon and starts it first if none runs. The baseline has been taken when this
/// returns.
///
/// # Errors
///
/// When it does not start or does not listen.
pub(crate) async fn connect_or_start(how: &Start) -> Result<DaemonClient, Error> {
    match DaemonClient::connect(&how.socket).await {
        Err(error) if error.kind == ErrorKind::NoDaemon => {}
        other => return other.map_err(|error| not_started(error.message)),
    }
    start(how).await?;
    // If two commands start it at once, one waits here for the other's daemon to listen.
    let deadline = Instant::now() + LISTENING_WITHIN;
    let mut start_again = Instant::now() + LEAVING_TAKES;
    loop {
        match DaemonClient::connect(&how.socket).await {
            Err(error) if error.kind == ErrorKind::NoDaemon && Instant::now() < deadline => {
                if Instant::now() >= start_again {
                    // The one that was there may have been leaving.
                    start(how).await?;
                    start_again = Instant::now() + LEAVING_TAKES;
                }
                sleep(Duration::from_millis(5)).await;
            }
            other => return other.map_err(|error| not_started(error.message)),
        }
    }
}

/// Starts a daemon and waits until it is ready. Of our environment it gets what it needs. Returns what it
/// printed, if anything.
///
/// # Errors
///
/// When it gives up; the error contains its reason.
pub(crate) async fn start(how: &Start) -> Result<String, Error> {
    let spawned = tokio::process::Command::new(&how.program)
        .args(&how.args)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(reaches_daemon)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let failed = |error| {
        let what = format!("could not start the daemon `{}`", how.program.display());
        not_started(Error::io(what, &error).message)
    };
    let mut child = spawned.map_err(failed)?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut stderr = child.stderr.take().expect("stderr is piped");
    // The daemon closes both when it is ready or has given up.
    let mut ready = String::new();
    let mut reason = String::new();
    let mut stdout = BufReader::new(stdout);
    let (read_ready, read_said) = tokio::join!(
        stdout.read_line(&mut ready),
        stderr.read_to_string(&mut reason)
    );
    read_ready.map_err(failed)?;
    read_said.map_err(failed)?;
    let reason = reason.trim().to_owned();
    if ready.trim() == READY {
        return Ok(reason);
    }
    let reason = ["tmux-task: ", "daemon: "]
        .into_iter()
        .fold(reason.as_str(), |rest, frame| {
            rest.strip_prefix(frame).unwrap_or(rest)
        });
    let reason = reason.lines().next().unwrap_or("it said nothing");
    Err(not_started(format!("the daemon did not start: {reason}")))
}

/// The text a detached daemon prints once it listens and has its baseline.
pub(crate) const READY: &str = "ready";
