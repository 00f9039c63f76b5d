//! One at a time on a tmux server.
//!
//! tmux 3.3a, and perhaps others, crashes with all its sessions when a session is made or ended in
//! the very moment in which a control client connects. We connect seldom; this keeps what we do
//! ourselves apart: attaching, and making and ending sessions.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::time::{Instant, sleep};

use super::Place;

/// Who waits longer goes on without: better a small risk than a tool that hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the lock is tried.
const TRY_EVERY: Duration = Duration::from_millis(2);

/// The lock of a tmux server, among all that we run for this user; let go when dropped.
#[derive(Debug)]
pub struct ServerLock {
    /// `None` when it could not be had.
    _file: Option<File>,
}

impl ServerLock {
    /// Waits for the lock, for a few seconds at most.
    pub async fn hold(place: &Place) -> Self {
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(place.server_lock());
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                tracing::debug!(%error, "no lock on the tmux server");
                return Self { _file: None };
            }
        };
        let deadline = Instant::now() + PATIENCE;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= deadline {
                tracing::warn!("somebody keeps the lock on the tmux server");
                return Self { _file: None };
            }
            sleep(TRY_EVERY).await;
        }
        Self { _file: Some(file) }
    }
}
