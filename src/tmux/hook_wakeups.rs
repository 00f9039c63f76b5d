//! A control client that sleeps in `wait-for`, so that hooks inside the server can wake the daemon.
//!
//! `wait-for -S` on a channel without a waiting client is remembered once and forgotten the second
//! time. So there must always be a waiting client: several waits are queued one behind the other,
//! and the server goes from one to the next by itself. More are queued before they are used up, but
//! not at each wake-up, because the answer would take another turn of the server's loop.

use super::control_client::ControlClient;
use super::error::TmuxError;
use super::server::Server;
use crate::model::{SessionId, WindowId};
use crate::rules::protocol::{Command, ControlItem, control_line};

/// The text the server prints between two waits, followed by the windows that hooks have reported.
const WOKEN: &str = "woken";

/// The windows that hooks have reported, stored in the session's environment; unset when there are no
/// new ones. It is hidden, so that no task inherits it. Setting an option makes tmux recalculate the
/// sizes of all windows, setting this does not.
pub(super) const REPORTED: &str = "TMUX_TASK_CALLERS";

/// The maximum length that is stored of it.
pub(super) const MOST_REPORTED: usize = 400;

/// The maximum and minimum number of queued waits.
const ROUNDS: (usize, usize) = (16, 2);

/// Returns the channel on which the hooks of a session wake its daemon.
pub(super) fn channel(session: &str) -> String {
    format!("tmux-task-{session}")
}

/// Between a window and the count of its bells.
pub(super) const OF_BELLS: char = '!';

/// A window that a hook has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReportedWindow {
    pub(crate) window: WindowId,
    /// How many bells were counted by then, if a bell is why it was reported.
    pub(crate) bells: Option<u64>,
}

/// The windows that hooks have reported since the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportedWindows {
    /// These; none if an earlier report included them.
    Windows(Vec<ReportedWindow>),
    /// Not all of them are known.
    Unknown,
}

impl ReportedWindows {
    /// Parses the text behind the mark; `None` when it is another text.
    fn read(text: &str) -> Option<Self> {
        let reported = text.trim_end().strip_prefix(WOKEN)?.trim_start();
        if reported.len() >= MOST_REPORTED / 2 {
            return Some(Self::Unknown);
        }
        let read = |text: &str| {
            let (window, bells) = match text.split_once(OF_BELLS) {
                Some((window, bells)) => (window, Some(bells.parse().ok()?)),
                None => (text, None),
            };
            let window = window.parse().ok()?;
            Some(ReportedWindow { window, bells })
        };
        let known: Option<Vec<ReportedWindow>> = reported.split_terminator(';').map(read).collect();
        Some(known.map_or(Self::Unknown, Self::Windows))
    }
}

/// Clears the session's list of reported.
pub(super) fn clear_reported(target: &str) -> Command {
    Command::new("set-environment").args(["-hu", "-t", target, REPORTED])
}

/// A client that waits for the hooks of one session.
///
/// Dropping it detaches it, as with [`super::Client`].
#[derive(Debug)]
pub(crate) struct HookWakeups {
    control: ControlClient,
    /// One wait and the mark behind it.
    round: String,
    /// How many rounds are queued.
    queued: usize,
}

impl ControlClient {
    /// Waits until the client is attached, and lets it wait for the hooks of the session. It is
    /// waiting when this returns. To be called when its channel has been signalled.
    pub(crate) async fn into_wakeups(
        mut self,
        server: &Server,
        session: SessionId,
    ) -> Result<HookWakeups, TmuxError> {
        let target = format!("{session}:");
        let wait = Command::new("wait-for").arg(channel(&session.to_string()));
        let mark = |text: &str| Command::new("display-message").args(["-p", "-t", &target, text]);
        let marks = [
            mark(&format!("{WOKEN} #{{{REPORTED}}}")),
            clear_reported(&target),
        ];
        let round = format!("{}\n{}\n", control_line(&[wait]), control_line(&marks));
        let (queued, _) = ROUNDS;
        // The first mark is printed at once, and shows that the first wait behind it has begun.
        let begin = control_line(&[mark(WOKEN)]) + "\n" + &round.repeat(queued);
        // Only now: tmux may read our lines before the client's own command, and the client would
        // wait for the hooks before it attaches.
        self.attached(server).await?;
        let mut waiter = HookWakeups {
            control: self,
            round,
            queued,
        };
        waiter.control.queue(&begin);
        server.answer(waiter.mark()).await??;
        Ok(waiter)
    }
}

impl HookWakeups {
    /// Resolves when a hook has reported a window. Several reports in quick succession may come as one.
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn woken(&mut self) -> Result<ReportedWindows, TmuxError> {
        let reported = self.mark().await?;
        self.queued -= 1;
        let (most, least) = ROUNDS;
        if self.queued <= least {
            self.control.queue(&self.round.repeat(most - self.queued));
            self.queued = most;
        }
        Ok(reported)
    }

    async fn mark(&mut self) -> Result<ReportedWindows, TmuxError> {
        loop {
            let item = self.control.next().await?.ok_or(TmuxError::Closed)?;
            if let ControlItem::Frame(frame) = item
                && let Some(reported) = ReportedWindows::read(&frame.text())
            {
                return Ok(reported);
            }
        }
    }

    /// Detaches and waits until the client has ended.
    pub(crate) async fn close(self) {
        self.control.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_windows_are_parsed_or_unknown() {
        let window = |(id, bells): &(u32, Option<u64>)| ReportedWindow {
            window: WindowId(*id),
            bells: *bells,
        };
        for (line, ids) in [
            ("woken @5;\n", &[(5, None)][..]),
            ("woken @5;@12;@5;\n", &[(5, None), (12, None), (5, None)]),
            ("woken @12;@5!3;\n", &[(12, None), (5, Some(3))]),
            ("woken", &[]),
            ("woken \n", &[]),
        ] {
            let windows = ReportedWindows::Windows(ids.iter().map(window).collect());
            assert_eq!(ReportedWindows::read(line), Some(windows), "{line}");
        }
        // Of many, the first may be missing.
        let many = format!("woken {}", "@100;".repeat(60));
        for line in ["woken @5;x;\n", "woken 5;\n", "woken @5!x;\n", &many] {
            let read = ReportedWindows::read(line);
            assert_eq!(read, Some(ReportedWindows::Unknown), "{line}");
        }
        assert_eq!(ReportedWindows::read(""), None);
    }
}
