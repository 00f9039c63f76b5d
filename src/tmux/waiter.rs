//! A control client that sleeps in `wait-for`, so that hooks inside the server can wake us.
//!
//! `wait-for -S` on a channel that nobody waits on is remembered once and forgotten the second
//! time. So there is never a moment in which nobody waits: the next `wait-for` is queued behind the
//! present one, and the server goes from one to the other by itself.

use super::control_client::ControlClient;
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
/// Dropping it detaches it, as with [`super::Client`].
#[derive(Debug)]
pub struct Waiter {
    control: ControlClient,
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
        let control = self.attach_control(session)?;
        let wait = Command::new("wait-for").arg(channel(&session.to_string()));
        let mark = Command::new("display-message").args(["-p", "woken"]);
        let round = format!(
            "{}\n{}\n",
            control_line(&[wait]),
            control_line(std::slice::from_ref(&mark))
        );
        let mut waiter = Waiter {
            control,
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
            waiter.control.write(&begin).await?;
            waiter.mark().await
        };
        tokio::time::timeout(TIME_LIMIT, begun)
            .await
            .map_err(|_| TmuxError::TimedOut)??;
        Ok(waiter)
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
        self.control.write(&round).await?;
        self.is_called = false;
        Ok(())
    }

    async fn mark(&mut self) -> Result<(), TmuxError> {
        loop {
            match self.control.next().await? {
                Some(Item::Frame(frame)) if frame.body.first().is_some_and(|l| l == WOKEN) => {
                    return Ok(());
                }
                Some(Item::Frame(_) | Item::Notice(_)) => {}
                None => return Err(TmuxError::Closed),
            }
        }
    }

    /// Returns the client's process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.control.pid()
    }

    /// Detaches and waits until the client has gone.
    pub async fn close(self) {
        self.control.close().await;
    }
}
