//! Locks among all processes of this program that one user runs.
//!
//! The lock of a tmux server separates attaching from creating and ending sessions and from
//! detaching: tmux up to 3.5a crashes with all its sessions when a session is created or ended, or a
//! client detaches, at the moment in which a control client connects. Of a task session there are two
//! locks. One separates launches without a daemon, so that each run has been observed before the next
//! one replaces it. Under the other one the session's daemon is started: commands that lost a daemon
//! at the same time would start one each.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Paths;
use crate::files;
use crate::model::Backoff;

/// A process that waits longer continues without the lock: a small risk is better than a tool that
/// hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before the lock is tried again: longer and longer, since many processes may wait.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(16));

/// A lock that is held until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct FileLock {
    /// `None` when the lock was not available.
    _file: Option<File>,
}

impl Paths {
    /// Waits for the lock of the tmux server, at most for a few seconds.
    pub(crate) async fn lock_server(&self) -> FileLock {
        FileLock::hold(
            &self
                .runtime
                .join(format!("server-{}.lock", self.server_key)),
        )
        .await
    }

    /// Waits for the lock under which the daemon of this session is started, at most for a few
    /// seconds.
    pub(crate) async fn lock_start(&self) -> FileLock {
        FileLock::hold(&self.runtime.join(format!("{}.start", self.key))).await
    }
}

impl FileLock {
    async fn hold(path: &Path) -> Self {
        let file = match files::open_to_write(path) {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "no lock");
                return Self { _file: None };
            }
        };
        let deadline = Instant::now() + PATIENCE;
        let mut pause = PAUSE;
        while file.try_lock().is_err() {
            if Instant::now() >= deadline {
                tracing::warn!(path = %path.display(), "continues without a lock that another process holds");
                return Self { _file: None };
            }
            sleep(pause.next_pause()).await;
        }
        Self { _file: Some(file) }
    }
}
