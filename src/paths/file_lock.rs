//! One at a time, among all that we run for this user.
//!
//! The lock of a tmux server keeps attaching apart from making and ending sessions: tmux 3.3a, and
//! perhaps others, crashes with all its sessions when a session is made or ended in the very moment
//! in which a control client connects. The lock of a task session keeps launches apart, so that
//! each run has been seen before the next one takes its place.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Paths;
use crate::files;

/// Who waits longer goes on without: better a small risk than a tool that hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the lock is tried.
const TRY_EVERY: Duration = Duration::from_millis(2);

/// A lock that is held until this is dropped, or the process ends.
#[derive(Debug)]
pub struct FileLock {
    /// `None` when it could not be had.
    _file: Option<File>,
}

impl Paths {
    /// Waits for the lock of the tmux server, for a few seconds at most.
    pub async fn lock_server(&self) -> FileLock {
        FileLock::hold(
            &self
                .runtime
                .join(format!("server-{}.lock", self.server_key)),
        )
        .await
    }

    /// Waits for the lock under which tasks of this session are launched, for a few seconds at
    /// most.
    pub async fn lock_launches(&self) -> FileLock {
        FileLock::hold(&self.runtime.join(format!("{}.launch", self.key))).await
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
        while file.try_lock().is_err() {
            if Instant::now() >= deadline {
                tracing::warn!(path = %path.display(), "somebody keeps a lock");
                return Self { _file: None };
            }
            sleep(TRY_EVERY).await;
        }
        Self { _file: Some(file) }
    }
}
