//! The process and the pipes of a control client; how several connect, and attach when all of them have
//! connected.
//!
//! A control client must be read to its end. tmux writes to the client's stdout itself. A client
//! that is not read any more while output is pending stays in the server for ever (3.3a), and keeps
//! the server from ending.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::runtime::Handle;

use super::client_processes::{ATTACHED, CONNECTED, line_words};
use super::error::TmuxError;
use super::one_shot::{TIME_LIMIT, TerminateOnDrop};
use super::server::Server;
use crate::model::SessionId;
use crate::rules::protocol::{Command, ControlItem, Notification, Parser};

/// How many bytes tmux has sent to the control clients of this process.
static BYTES_RECEIVED: AtomicU64 = AtomicU64::new(0);

/// How long they have awaited answers, in microseconds.
static MICROS_AWAITED: AtomicU64 = AtomicU64::new(0);

/// Returns how many bytes tmux has sent, and how long answers were awaited.
pub(crate) fn traffic() -> (u64, Duration) {
    let awaited = MICROS_AWAITED.load(Ordering::Relaxed);
    let bytes = BYTES_RECEIVED.load(Ordering::Relaxed);
    (bytes, Duration::from_micros(awaited))
}

/// Counts the time in which an answer was awaited.
pub(super) fn note_awaited(time: Duration) {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    MICROS_AWAITED.fetch_add(micros, Ordering::Relaxed);
}

/// A control client's process. Dropping it closes its stdin and reads on in the background until it
/// has ended. It is never killed, which can crash the server.
#[derive(Debug)]
pub(crate) struct ControlClient {
    /// `None` once it is leaving.
    running: Option<ClientProcess>,
}

#[derive(Debug)]
struct ClientProcess {
    /// Terminated on drop, for when there is no time to read it to its end, as when the daemon
    /// leaves a server that hangs. A client that stayed would keep its server from ending.
    child: TerminateOnDrop,
    stdin: ChildStdin,
    stdout: ChildStdout,
    parser: Parser,
    /// What was queued and is not written yet.
    unsent: Vec<u8>,
}

impl ControlClient {
    /// Returns the pid; `None` when the process is gone.
    pub(super) fn pid(&self) -> Option<u32> {
        self.running.as_ref()?.child.0.id()
    }

    /// Returns the next item of tmux's output; `None` at its end. Writes meanwhile what is queued: tmux may
    /// have to write before it can read all of a long line. Safe to drop: all bytes read are in the parser
    /// before anything else is awaited, and what was written is not queued any more.
    pub(super) async fn next(&mut self) -> Result<Option<ControlItem>, TmuxError> {
        let Some(ClientProcess {
            stdin,
            stdout,
            parser,
            unsent,
            ..
        }) = &mut self.running
        else {
            return Ok(None);
        };
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(item) = parser.next() {
                return Ok(Some(item));
            }
            tokio::select! {
                read = stdout.read(&mut buffer) => match read {
                    Ok(0) => return Ok(None),
                    Ok(n) => {
                        BYTES_RECEIVED.fetch_add(n as u64, Ordering::Relaxed);
                        parser.push(&buffer[..n]);
                    }
                    Err(error) => return Err(TmuxError::Io(error)),
                },
                written = stdin.write(unsent), if !unsent.is_empty() => {
                    let n = written.map_err(|_| TmuxError::Closed)?;
                    unsent.drain(..n);
                }
            }
        }
    }

    /// Queues lines, which [`ControlClient::next`] writes.
    pub(super) fn queue(&mut self, lines: &str) {
        if let Some(running) = &mut self.running {
            running.unsent.extend(lines.as_bytes());
        }
    }

    /// Detaches and waits until the client has ended.
    pub(super) async fn close(mut self) {
        if let Some(running) = self.running.take() {
            running.leave().await;
        }
    }
}

impl ClientProcess {
    async fn leave(self) {
        let Self {
            mut child,
            stdin,
            mut stdout,
            ..
        } = self;
        drop(stdin);
        let gone = async {
            let mut rest = [0; 16 * 1024];
            while stdout.read(&mut rest).await.is_ok_and(|n| n > 0) {}
            child.0.wait().await
        };
        if tokio::time::timeout(TIME_LIMIT, gone).await.is_err() {
            tracing::warn!("a tmux control client does not exit when asked");
        }
    }
}

impl Drop for ControlClient {
    fn drop(&mut self) {
        // However a client is dropped, it is read to its end.
        if let (Some(running), Ok(runtime)) = (self.running.take(), Handle::try_current()) {
            runtime.spawn(running.leave());
        }
    }
}

// While a control client connects, tmux up to 3.5a knows that it is one but has no state for it
// yet, and crashes if there is something to report to it. Attaching runs the user's hooks on
// `client-attached`, and what a shell of such a hook prints is shown in a pane, which tmux reports
// to all control clients. So each client connects first and waits inside tmux. No client of ours
// connects while another one attaches.

/// The hooks that attaching runs.
const ATTACH_HOOKS: [&str; 2] = ["client-attached", "client-session-changed"];

impl Server {
    /// Connects a control client that waits on this channel. When that is signalled, all its clients attach
    /// to the session, with these flags.
    ///
    /// To be used rarely: tmux up to 3.5a crashes when a session is created or ended, the current
    /// window changes or a client detaches, at the moment in which a control client connects.
    pub(crate) async fn connect(
        &self,
        channel: &str,
        session: SessionId,
        flags: &str,
    ) -> Result<ControlClient, TmuxError> {
        let mut process = self.client_process();
        process
            .args(line_words(channel, flags, &session.to_string()))
            .stdin(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = TerminateOnDrop(self.spawn(&mut process)?);
        let mut client = ControlClient {
            running: Some(ClientProcess {
                stdin: child.0.stdin.take().expect("stdin is piped"),
                stdout: child.0.stdout.take().expect("stdout is piped"),
                child,
                parser: Parser::default(),
                unsent: Vec::new(),
            }),
        };
        self.answer(client.read_until(CONNECTED, self)).await??;
        Ok(client)
    }

    /// Whether a hook of the user's runs when a client attaches to the session.
    pub(crate) async fn has_attach_hooks(&self, session: SessionId) -> Result<bool, TmuxError> {
        let target = format!("{session}:");
        let show = |hook: &str| {
            let global = Command::new("show-hooks").args(["-g", hook]);
            let own = Command::new("show-hooks").args(["-t", target.as_str(), hook]);
            [global, own]
        };
        let shown = self.one_shot(&ATTACH_HOOKS.map(show).concat()).await?;
        // `client-attached[0] run-shell ...`; of one that is not set, the name at most.
        Ok(shown.iter().any(|frame| frame.text().contains('[')))
    }
}

impl ControlClient {
    /// Waits until a client that has connected is attached, and returns what tmux reported to it meanwhile.
    /// To be called when its channel has been signalled.
    pub(super) async fn attached(
        &mut self,
        server: &Server,
    ) -> Result<Vec<Notification>, TmuxError> {
        server.answer(self.read_until(ATTACHED, server)).await?
    }

    /// Reads until tmux has printed this line, and returns what it reported before that.
    async fn read_until(
        &mut self,
        line: &str,
        server: &Server,
    ) -> Result<Vec<Notification>, TmuxError> {
        let mut notifications = Vec::new();
        // Not returned at once: a hook of the user's may have failed. If it was our command, the client
        // exits.
        let mut refusal = None;
        loop {
            match self.next().await? {
                Some(ControlItem::Frame(frame)) if frame.body == [line.as_bytes()] => {
                    return Ok(notifications);
                }
                Some(ControlItem::Frame(frame)) if frame.ok => {}
                Some(ControlItem::Frame(frame)) => {
                    refusal = Some(TmuxError::from_reply("attach-session", &frame.text()));
                }
                Some(ControlItem::Notification(notification)) => notifications.push(notification),
                None => match refusal {
                    Some(refusal) => return Err(refusal),
                    None => return Err(server.after_loss().await),
                },
            }
        }
    }
}
