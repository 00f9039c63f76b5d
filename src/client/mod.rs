//! Client of the daemon's socket: sends requests, subscribes, and starts a daemon that outlives the command.

mod fleet;
pub(crate) mod hosts;
mod line_process;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep};

use crate::env;
use crate::files;
use crate::model::environment::reaches_daemon;
use crate::model::{Error, ErrorKind, Seq, with_causes};
use crate::rules::wire::{Acknowledgement, Answer, AnswerHead, Request, request_line};

pub(crate) use fleet::{FleetProcess, fleet_not_started, fleet_program, fleet_program_path};
pub(crate) use line_process::{LONGEST_LINE, LineProcess};

pub(crate) const STOP_OLDER_DAEMON: &str = "`tmux-task daemon stop` stops it, and the tasks go on; \
                                            the next command starts one of this version";

/// Returns the error for an answer that cannot be parsed: it comes from a daemon of another version.
pub(crate) fn unreadable(error: serde_json::Error) -> Error {
    let why = with_causes(&error);
    let message = format!("could not read the daemon's answer: {why}");
    Error::new(ErrorKind::Version, message).with_hint(STOP_OLDER_DAEMON)
}

/// Returns the daemon's refusal of a request, if this line is one.
pub(crate) fn refusal_in(line: &str) -> Option<Error> {
    // Within a text of a record, these quotes would be escaped.
    let is_refusal = line.contains(r#""answer":"refused""#);
    let refusal = is_refusal.then(|| serde_json::from_str(line).unwrap_or_else(unreadable))?;
    if refusal.kind == ErrorKind::Version {
        return Some(refusal.with_hint_if_none(|| STOP_OLDER_DAEMON.to_owned()));
    }
    Some(refusal)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hello {
    pub(crate) epoch: String,
    /// The sequence number of its last record.
    pub(crate) last_seq: Seq,
    pub(crate) session_name: String,
}

impl Hello {
    pub(crate) fn parse(line: &str) -> Result<Self, Error> {
        serde_json::from_str(line).map_err(unreadable)
    }
}

#[derive(Debug)]
pub(crate) struct DaemonClient {
    path: PathBuf,
    /// The daemon's pid, where the kernel reports it.
    pid: Option<u32>,
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

/// How long to wait before connecting again to a daemon whose queue is full.
const TRY_AGAIN: Duration = Duration::from_millis(20);

impl DaemonClient {
    /// Connects to the daemon that listens at `path`. The error is [`ErrorKind::NoDaemon`] when nothing
    /// listens, and [`ErrorKind::NotOurs`] when another user may listen there; nothing is sent then.
    pub(crate) async fn connect(path: &Path) -> Result<Self, Error> {
        check_folder(path)?;
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, WouldBlock};
        let stream = loop {
            let error = match UnixStream::connect(path).await {
                Ok(stream) => break stream,
                Err(error) => error,
            };
            // With a reset, it ended before it accepted.
            if [NotFound, ConnectionRefused, ConnectionReset].contains(&error.kind()) {
                return Err(no_daemon());
            } else if error.kind() != WouldBlock {
                return Err(io_error(path, &error));
            }
            // More clients are connecting than it has accepted.
            sleep(TRY_AGAIN).await;
        };
        check_peer(path, &stream)?;
        Ok(Self::over(stream, path))
    }

    /// Returns a client of what is at the other end of this connection, of which errors name `path`.
    pub(crate) fn over(stream: UnixStream, path: &Path) -> Self {
        let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let (reader, writer) = stream.into_split();
        Self {
            path: path.to_owned(),
            pid: peer.and_then(|pid| u32::try_from(pid).ok()),
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Sends a request and returns the answer. Another one can follow.
    pub(crate) async fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        Ok(self.ask_to_the_end(None, request).await?.response)
    }

    /// The same, for the session of this name or for the daemon's; where the daemon says that a wait has
    /// begun, until that has ended. The error is [`ErrorKind::OtherSession`] when the daemon's session has
    /// another name, and [`ErrorKind::DaemonEndedInWait`] when the daemon ends after a wait has begun.
    pub(crate) async fn ask_to_the_end<T: DeserializeOwned>(
        &mut self,
        to: Option<&str>,
        request: &Request,
    ) -> Result<Answer<T>, Error> {
        self.send(to, request).await?;
        let head_of = |line: &str| serde_json::from_str::<AnswerHead>(line).map_err(unreadable);
        let mut line = self.hello().await?;
        let mut head = head_of(&line)?;
        if head.answer == "waiting" {
            line = self.hello().await.map_err(|error| {
                if error.kind == ErrorKind::DaemonEnded {
                    let kind = ErrorKind::DaemonEndedInWait;
                    return Error::new(kind, "the daemon ended during the wait");
                }
                error
            })?;
            head = head_of(&line)?;
        }
        Ok(Answer {
            from: head.from,
            response: serde_json::from_str(&line).map_err(unreadable)?,
        })
    }

    /// Acknowledges the record `seq` and all before it. The confirmation is a line of the stream.
    pub(crate) async fn acknowledge(&mut self, seq: Seq) -> Result<(), Error> {
        let line = files::json_line(&Acknowledgement { ack: seq });
        self.write(&line.expect("a number is plain data")).await
    }

    /// Begins a stream, and returns its first line. [`DaemonClient::line`] returns the others.
    pub(crate) async fn stream(&mut self, request: &Request) -> Result<String, Error> {
        self.send(None, request).await?;
        self.hello().await
    }

    /// Returns the first line of a stream, or an answer.
    pub(crate) async fn hello(&mut self) -> Result<String, Error> {
        let line = self.next_line().await?;
        refusal_in(&line).map_or(Ok(line), Err)
    }

    /// Returns the next line; `None` when the daemon has ended. No line is lost when the future is dropped.
    pub(crate) async fn line(&mut self) -> Result<Option<String>, Error> {
        match self.lines.next_line().await {
            Ok(line) => Ok(line),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(source) => Err(io_error(&self.path, &source)),
        }
    }

    /// The same where the stream must go on.
    pub(crate) async fn next_line(&mut self) -> Result<String, Error> {
        let why = "the daemon ended before it answered";
        let ended = || Error::new(ErrorKind::DaemonEnded, why);
        self.line().await?.ok_or_else(ended)
    }

    async fn send(&mut self, to: Option<&str>, request: &Request) -> Result<(), Error> {
        self.write(&request_line(to, request)).await
    }

    async fn write(&mut self, line: &[u8]) -> Result<(), Error> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self.writer.write_all(line).await {
            // A daemon that leaves, or refuses connections, says so before it reads the request. The
            // next line is what it said, or that it has ended.
            Err(error) if ![BrokenPipe, ConnectionReset].contains(&error.kind()) => {
                Err(io_error(&self.path, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn no_daemon() -> Error {
    Error::new(ErrorKind::NoDaemon, "no daemon runs")
}

fn not_ours(socket: &Path, why: &str) -> Error {
    let socket = socket.display();
    let why = format!("refused to talk to what listens at {socket}: {why}");
    Error::new(ErrorKind::NotOurs, why)
}

fn io_error(socket: &Path, error: &io::Error) -> Error {
    let what = format!("could not talk to the daemon at {}", socket.display());
    Error::io(what, error)
}

/// Checks that no other user can have put the socket there.
fn check_folder(socket: &Path) -> Result<(), Error> {
    let checked = files::check_folder(socket.parent().unwrap_or(socket));
    checked.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return no_daemon();
        } else if !files::is_refusal(&error) {
            return io_error(socket, &error);
        }
        let why = format!("{error}; set TMUX_TASK_RUNTIME_DIR to a folder of yours");
        not_ours(socket, &why)
    })
}

/// Checks that the process on the other side is this user's, whatever the folder says.
fn check_peer(socket: &Path, stream: &UnixStream) -> Result<(), Error> {
    let peer = stream.peer_cred();
    match peer.map_err(|error| io_error(socket, &error))?.uid() {
        uid if uid == files::our_uid() => Ok(()),
        uid => Err(not_ours(
            socket,
            &format!("its process belongs to uid {uid}"),
        )),
    }
}

/// How long a daemon that was just started by another command may take until it listens.
const LISTENING_WITHIN: Duration = Duration::from_secs(10);

/// How long a daemon that leaves may hold its locks. If none listens after that, one is started again.
const LEAVING_TAKES: Duration = Duration::from_millis(500);

/// How to start a daemon: our own program with the arguments that select the task session.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub socket: PathBuf,
}

fn not_started(why: impl Into<String>) -> Error {
    Error::failed(why)
        .with_hint("`tmux-task daemon` in the foreground shows what keeps it from starting")
}

/// Connects to the daemon, and starts it first if none runs. It has its baseline then.
pub(crate) async fn connect_or_start(how: &Start) -> Result<DaemonClient, Error> {
    let (mut deadline, mut start_at) = (None, Instant::now());
    loop {
        match DaemonClient::connect(&how.socket).await {
            Err(error)
                if error.kind == ErrorKind::NoDaemon
                    && deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            other => return other.map_err(|error| not_started(error.message)),
        }
        if start_at <= Instant::now() {
            // The one that was there may have been leaving.
            start(how).await?;
            deadline.get_or_insert_with(|| Instant::now() + LISTENING_WITHIN);
            start_at = Instant::now() + LEAVING_TAKES;
        } else {
            // If two commands start it at once, one waits here for the other's daemon to listen.
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Starts a daemon, with what it needs of our environment. Returns what it has printed until it is ready.
pub(crate) async fn start(how: &Start) -> Result<String, Error> {
    let spawned = tokio::process::Command::new(&how.program)
        .args(&how.args)
        .env_clear()
        .envs(env::vars().filter(|(name, _)| name.to_str().is_some_and(reaches_daemon)))
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
    let reason = reason.trim();
    if ready.trim() == READY {
        return Ok(reason.to_owned());
    }
    let reason = reason.strip_prefix("tmux-task: ").unwrap_or(reason);
    let reason = reason.strip_prefix("daemon: ").unwrap_or(reason);
    let reason = reason.lines().next().unwrap_or("it said nothing");
    Err(not_started(format!("the daemon did not start: {reason}")))
}

/// The text a detached daemon prints once it listens and has its baseline.
pub(crate) const READY: &str = "ready";
