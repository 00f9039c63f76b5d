//! A control client that sleeps in `wait-for`, so that hooks inside the server can wake us.
//!
//! `wait-for -S` on a channel that nobody waits on is remembered once and forgotten the second
//! time. So there is never a moment in which nobody waits: several waits are queued one behind the
//! other, and the server goes from one to the next by itself. More are queued before they are used
//! up, and not at each call, whose answer would then have to wait for another turn of the server's
//! loop.

use std::pin::pin;

use super::client::ready;
use super::control_client::{ControlClient, Output};
use super::error::TmuxError;
use super::one_shot::TIME_LIMIT;
use super::server::Server;
use crate::model::{SessionId, WindowId};
use crate::protocol::{Command, ControlItem, control_line};

/// What the server prints between two waits, and behind it the windows that called.
const WOKEN: &str = "woken";

/// The windows that have called, in the session's environment; between two calls it is not there.
/// It is hidden, so no task inherits it. To set an option makes tmux think about the sizes of all
/// windows, this does not.
pub(super) const CALLERS: &str = "TMUX_TASK_CALLERS";

/// More than this is not kept of it.
pub(super) const MOST_CALLERS: usize = 400;

/// How many waits are queued at most, and at least.
const ROUNDS: (usize, usize) = (16, 2);

/// The channel on which the hooks of a session call.
pub(super) fn channel(session: &str) -> String {
    format!("tmux-task-{session}")
}

/// Who has called since the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callers {
    /// These windows.
    Windows(Vec<WindowId>),
    /// Not all of them are known.
    Unknown,
}

impl Callers {
    /// Reads what stands behind the mark; `None` when this is another text.
    fn read(text: &str) -> Option<Self> {
        let callers = text.trim_end().strip_prefix(WOKEN)?.trim_start();
        if callers.len() >= MOST_CALLERS / 2 {
            return Some(Self::Unknown);
        }
        let mut windows = callers.split_terminator(';').map(str::parse);
        let windows: Option<Vec<WindowId>> = windows.by_ref().map(Result::ok).collect();
        let known = windows.filter(|windows| !windows.is_empty());
        Some(known.map_or(Self::Unknown, Self::Windows))
    }
}

/// Lets the session forget who has called.
pub(super) fn forget_callers(target: &str) -> Command {
    Command::new("set-environment").args(["-hu", "-t", target, CALLERS])
}

/// A client that waits for the hooks of one session.
///
/// Dropping it detaches it, as with [`super::Client`].
#[derive(Debug)]
pub struct HookWakeups {
    control: ControlClient,
    /// One wait and the mark behind it.
    round: String,
    /// How many of them are queued.
    queued: usize,
    /// Who has called, while more waits are being queued.
    called: Option<Callers>,
}

impl Server {
    /// Attaches a client that waits for the hooks of the session. It waits when this returns.
    ///
    /// # Errors
    ///
    /// When the program, the server or the session is missing, or there is no answer in time.
    pub async fn wait_on(&self, session: SessionId) -> Result<HookWakeups, TmuxError> {
        let control = self.attach_control(session, Output::None)?;
        let target = format!("{session}:");
        let wait = Command::new("wait-for").arg(channel(&session.to_string()));
        let mark = |text: &str| Command::new("display-message").args(["-p", "-t", &target, text]);
        let told = [
            mark(&format!("{WOKEN} #{{{CALLERS}}}")),
            forget_callers(&target),
        ];
        let round = format!("{}\n{}\n", control_line(&[wait]), control_line(&told));
        let (queued, _) = ROUNDS;
        // The first mark comes at once and proves that the first wait has begun behind it.
        let begin = control_line(&[mark(WOKEN)]) + "\n" + &round.repeat(queued);
        let mut waiter = HookWakeups {
            control,
            round,
            queued,
            called: None,
        };
        let begun = async {
            // tmux may read our lines before the client's own command: the client would wait first
            // and be attached after that.
            waiter.attached().await?;
            waiter.control.write(&begin).await?;
            waiter.mark().await
        };
        tokio::time::timeout(TIME_LIMIT, begun)
            .await
            .map_err(|_| TmuxError::TimedOut)??;
        Ok(waiter)
    }
}

impl HookWakeups {
    /// Resolves when a hook has called. Calls in quick succession may be one.
    ///
    /// # Errors
    ///
    /// [`TmuxError::Closed`] when there will be no more.
    ///
    /// # Cancel safety
    ///
    /// A call is not lost when the future is dropped: it is told by the next one. So many waits are
    /// less than what a pipe takes whole or not at all.
    pub async fn woken(&mut self) -> Result<Callers, TmuxError> {
        if self.called.is_none() {
            self.called = Some(self.mark().await?);
            self.queued -= 1;
        }
        let (most, least) = ROUNDS;
        if self.queued <= least {
            let more = most - self.queued;
            let rounds = self.round.repeat(more);
            self.control.write(&rounds).await?;
            self.queued += more;
        }
        Ok(self.called.take().unwrap_or(Callers::Unknown))
    }

    /// Returns who has called by now, without waiting.
    pub async fn called(&mut self) -> Option<Callers> {
        // That the connection has gone shows at the next call.
        ready(pin!(self.woken())).await?.ok()
    }

    /// Reads the answer to the attaching itself.
    async fn attached(&mut self) -> Result<(), TmuxError> {
        loop {
            match self.control.next().await? {
                Some(ControlItem::Frame(frame)) if frame.ok => return Ok(()),
                Some(ControlItem::Frame(frame)) => {
                    return Err(TmuxError::from_reply("attach-session", &frame.text()));
                }
                Some(ControlItem::Notice(_)) => {}
                None => return Err(TmuxError::Closed),
            }
        }
    }

    async fn mark(&mut self) -> Result<Callers, TmuxError> {
        loop {
            match self.control.next().await? {
                Some(ControlItem::Frame(frame)) => {
                    if let Some(callers) = Callers::read(&frame.text()) {
                        return Ok(callers);
                    }
                }
                Some(ControlItem::Notice(_)) => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_called_is_read_or_not_known() {
        let windows = |ids: &[u32]| Callers::Windows(ids.iter().copied().map(WindowId).collect());
        assert_eq!(Callers::read("woken @5;\n"), Some(windows(&[5])));
        assert_eq!(
            Callers::read("woken @5;@12;@5;\n"),
            Some(windows(&[5, 12, 5]))
        );
        for unknown in ["woken", "woken \n", "woken @5;x;\n", "woken 5;\n"] {
            assert_eq!(Callers::read(unknown), Some(Callers::Unknown), "{unknown}");
        }
        let many = format!("woken {}", "@100;".repeat(60));
        assert_eq!(
            Callers::read(&many),
            Some(Callers::Unknown),
            "the first may be missing"
        );
        assert_eq!(Callers::read(""), None);
    }
}
