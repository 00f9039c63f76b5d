//! Displays notices outside the feed: on the desktop and on tmux's status line, if enabled.

use tokio::task::JoinHandle;

use super::feed_publisher::NoticeToShow;
use crate::config::{Config, NoticeSink};
#[cfg(feature = "notice")]
use crate::model::Level;
use crate::model::SessionId;
use crate::notice::LogOnce;
use crate::tmux::{self, Connection, TmuxError};

/// How many notices may be queued for a slow desktop. Further ones are only in the feed: a desktop
/// that hangs must not delay anything.
#[cfg(feature = "notice")]
const DESKTOP_QUEUE: usize = 16;

/// The user option with the counts, for `status-right` and the like.
const STATUS_OPTION: &str = "@tmux_task_status";

/// The desktop, if enabled.
#[derive(Debug)]
pub(super) struct DesktopNotices {
    desktop: Option<Desktop>,
}

/// tmux's status line, if enabled.
#[derive(Debug)]
pub(super) struct TmuxNotices {
    is_wanted: bool,
    complaints: LogOnce<TmuxError>,
}

/// The desktop, which may be slow, has its own task.
#[derive(Debug)]
struct Desktop {
    #[cfg(feature = "notice")]
    queue: tokio::sync::mpsc::Sender<(Level, String, String)>,
    task: JoinHandle<()>,
}

impl DesktopNotices {
    pub(super) fn new(config: &Config) -> Self {
        let is_wanted = config.notices.contains(&NoticeSink::Desktop);
        Self {
            desktop: is_wanted.then(Desktop::start).flatten(),
        }
    }

    /// Shows a notice, if that is enabled and possible.
    pub(super) fn show(&self, session_name: &str, notice: &NoticeToShow) {
        if let Some(desktop) = &self.desktop {
            desktop.show(session_name, notice);
        }
    }

    /// Lets the desktop finish its queue.
    pub(super) async fn close(&mut self) {
        if let Some(desktop) = self.desktop.take() {
            desktop.close().await;
        }
    }
}

impl TmuxNotices {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            is_wanted: config.notices.contains(&NoticeSink::Tmux),
            complaints: LogOnce::default(),
        }
    }

    /// Shows a notice to the clients of the session.
    pub(super) async fn show(
        &mut self,
        connection: &mut Connection<'_>,
        session: SessionId,
        text: &str,
    ) {
        if self.is_wanted {
            // A status line is one line.
            let text = text.lines().next().unwrap_or_default();
            let shown = tmux::show_notice(connection, session, text).await;
            self.settle(shown);
        }
    }

    /// Stores the counts for tmux's status line: `#{@tmux_task_status}`.
    pub(super) async fn status(
        &mut self,
        connection: &mut Connection<'_>,
        session: SessionId,
        line: Option<&str>,
    ) {
        if self.is_wanted {
            let set = tmux::set_session_option(connection, session, STATUS_OPTION, line).await;
            self.settle(set);
        }
    }

    fn settle(&mut self, outcome: Result<(), TmuxError>) {
        match outcome {
            Ok(()) => {
                self.complaints.settle();
            }
            // The session was closed meanwhile.
            Err(error) if error.is_missing() => {}
            Err(error) => {
                if self.complaints.admit(&error) {
                    tracing::warn!(%error, "could not show a notice in tmux");
                }
            }
        }
    }

    /// Removes the counts and the last notice from tmux, because they are no longer updated.
    pub(super) async fn clear(&mut self, connection: &mut Connection<'_>, session: SessionId) {
        if self.is_wanted {
            for option in [STATUS_OPTION, tmux::NOTICE_OPTION] {
                let cleared = tmux::set_session_option(connection, session, option, None).await;
                self.settle(cleared);
            }
        }
    }
}

#[cfg(feature = "notice")]
impl Desktop {
    fn start() -> Option<Self> {
        let (queue, mut notices) =
            tokio::sync::mpsc::channel::<(Level, String, String)>(DESKTOP_QUEUE);
        let task = tokio::spawn(async move {
            let mut desktop = crate::notice::Desktop::new();
            while let Some((level, title, body)) = notices.recv().await {
                // It logs its failures itself, each kind once.
                drop(desktop.show(level, &title, &body).await);
            }
        });
        Some(Self { queue, task })
    }

    fn show(&self, session_name: &str, notice: &NoticeToShow) {
        let title = format!("tmux-task: {session_name}");
        if self
            .queue
            .try_send((notice.level, title, notice.text.clone()))
            .is_err()
        {
            tracing::debug!("the desktop is slow: a notice stays in the feed");
        }
    }

    async fn close(self) {
        drop(self.queue);
        // Each notice has its own time limit; a queue full of hung ones is not waited for.
        let limit = std::time::Duration::from_secs(2);
        let aborter = self.task.abort_handle();
        if tokio::time::timeout(limit, self.task).await.is_err() {
            aborter.abort();
        }
    }
}

#[cfg(not(feature = "notice"))]
impl Desktop {
    fn start() -> Option<Self> {
        tracing::info!("this program was built without desktop notices");
        None
    }

    fn show(&self, _session_name: &str, _notice: &NoticeToShow) {}

    async fn close(self) {
        self.task.abort();
    }
}
