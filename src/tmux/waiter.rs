//! A second control client that sleeps in `wait-for`, so that hooks inside the server can wake us.
//!
//! `wait-for -S` on a channel that nobody waits on is remembered once and forgotten the second
//! time. So there is never a moment in which nobody waits: the next `wait-for` is queued behind the
//! present one, and the server goes from one to the other by itself.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};

use super::client::Reader;
use super::error::TmuxError;
use super::one_shot::TIME_LIMIT;
use super::server::Server;
use crate::model::SessionId;
use crate::protocol::{Command, Item, control_line};

/// What the server prints between two waits.
const WOKEN: &[u8] = b"woken";

/// The channel on which the hooks of a session call.
pub(super) fn channel(session: &str) -> String {
    format!("tmux-task-{session}")
}

/// A client that waits for the hooks of one session.
///
/// Dropping it closes its stdin, as with [`super::Client`].
#[derive(Debug)]
pub struct Waiter {
    child: Child,
    stdin: ChildStdin,
    reader: Reader,
    /// One wait and the mark behind it.
    round: String,
    /// Whether a call came for which no further wait is queued yet.
    is_called: bool,
}

impl Server {
    /// Attaches a client that waits for the hooks of the session. It waits when this returns.
    ///
    /// # Errors
    ///
    /// When the program, the server or the session is missing, or there is no answer in time.
    pub async fn wait_on(&self, session: SessionId) -> Result<Waiter, TmuxError> {
        let (mut child, reader) = self.attach_control(session)?;
        let stdin = child.stdin.take().expect("stdin is piped");
        let wait = Command::new("wait-for").arg(channel(&session.to_string()));
        let mark = Command::new("display-message").args(["-p", "woken"]);
        let round = format!(
            "{}\n{}\n",
            control_line(&[wait]),
            control_line(std::slice::from_ref(&mark))
        );
        let mut waiter = Waiter {
            child,
            stdin,
            reader,
            round,
            is_called: false,
        };
        // The first mark comes at once and proves that the first wait has begun behind it.
        let begin = format!(
            "{}\n{}{}",
            control_line(&[mark]),
            waiter.round,
            waiter.round
        );
        let begun = async {
            waiter.write(&begin).await?;
            waiter.mark().await
        };
        tokio::time::timeout(TIME_LIMIT, begun)
            .await
            .map_err(|_| TmuxError::TimedOut)??;
        Ok(waiter)
    }

    /// Starts a control client that is attached to the session, wants no output and does not count
    /// for the size of windows.
    pub(super) fn attach_control(&self, session: SessionId) -> Result<(Child, Reader), TmuxError> {
        let mut child = self
            .client_process()
            .args(["-C", "attach-session", "-f", "no-output,ignore-size", "-t"])
            .arg(session.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| self.not_started(source))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        Ok((child, Reader::new(stdout)))
    }
}

impl Waiter {
    /// Resolves when a hook has called. Calls in quick succession may be one.
    ///
    /// # Errors
    ///
    /// [`TmuxError::Closed`] when there will be no more.
    ///
    /// # Cancel safety
    ///
    /// A call is not lost when the future is dropped: it is told by the next one.
    pub async fn woken(&mut self) -> Result<(), TmuxError> {
        if !self.is_called {
            self.mark().await?;
            self.is_called = true;
        }
        let round = self.round.clone();
        self.write(&round).await?;
        self.is_called = false;
        Ok(())
    }

    async fn mark(&mut self) -> Result<(), TmuxError> {
        loop {
            match self.reader.next().await? {
                Some(Item::Frame(frame)) if frame.body.first().is_some_and(|l| l == WOKEN) => {
                    return Ok(());
                }
                Some(Item::Frame(_) | Item::Notice(_)) => {}
                None => return Err(TmuxError::Closed),
            }
        }
    }

    async fn write(&mut self, line: &str) -> Result<(), TmuxError> {
        self.stdin
            .write_all(line.as_bytes())
            .await
            .map_err(|_| TmuxError::Closed)
    }

    /// Detaches and waits until the client has gone.
    pub async fn close(self) {
        let Self {
            mut child,
            stdin,
            mut reader,
            ..
        } = self;
        drop(stdin);
        let gone = async {
            while let Ok(Some(_)) = reader.next().await {}
            child.wait().await
        };
        if tokio::time::timeout(TIME_LIMIT, gone).await.is_err() {
            tracing::warn!("a waiting tmux client does not go; it is left behind");
        }
    }
}
