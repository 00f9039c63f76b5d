//! The daemon's socket and its locks: how it is found, and what prevents a second one.
//!
//! They can disappear while it runs. systemd empties a runtime folder when the last login of its
//! user ends, while tmux and the daemon continue, and cleaners empty `/tmp`. So they are checked
//! from time to time and created again. Meanwhile a second lock, in the state folder, shows others
//! that the daemon runs.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::DaemonError;
use super::lock::{self, Lock, LockError};
use crate::files;
use crate::paths::Paths;

/// How often they are checked. A command that finds no socket and starts a daemon waits several
/// times as long for the one with the locks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The locks of a task session.
#[derive(Debug)]
pub(super) struct Locks {
    runtime: Lock,
    /// `None` where the state folder's file system has no locks.
    state: Option<Lock>,
}

impl Locks {
    /// Takes the locks, that of the state folder only if the folder exists.
    pub(super) fn take(paths: &Paths) -> Result<Self, LockError> {
        // First the permanent one: a process that does not get it must not hold the other.
        let state = if paths.state.is_dir() {
            take_state(paths)?
        } else {
            None
        };
        let runtime = lock::take(&paths.lock())?;
        Ok(Self { runtime, state })
    }

    /// Takes the lock in the state folder as well, now that it exists.
    pub(super) fn complete(&mut self, paths: &Paths) -> Result<(), LockError> {
        if self.state.is_none() {
            self.state = take_state(paths)?;
        }
        Ok(())
    }
}

fn take_state(paths: &Paths) -> Result<Option<Lock>, LockError> {
    match lock::take_state(paths) {
        Ok(lock) => Ok(Some(lock)),
        Err(held @ LockError::Held { .. }) => Err(held),
        Err(LockError::Io { path, source }) if files::is_refusal(&source) => {
            Err(LockError::Io { path, source })
        }
        Err(error) => {
            tracing::debug!(%error, "no lock in the state folder");
            Ok(None)
        }
    }
}

/// Whether a daemon continues after a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointOwner {
    /// It continues.
    Ours,
    /// Another daemon has taken its place.
    Theirs,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    paths: Paths,
    locks: Locks,
    /// The listener, and each that replaces it.
    listeners: watch::Sender<Arc<UnixListener>>,
    socket: Socket,
    looked_at: Instant,
    /// Whether it was logged that something cannot be created again.
    has_complained: bool,
}

impl Endpoint {
    /// Listens. We hold the lock, so an existing socket belongs to a dead daemon.
    pub(super) fn begin(paths: &Paths, locks: Locks) -> Result<Self, DaemonError> {
        let (listener, socket) = listen(&paths.socket())?;
        Ok(Self {
            paths: paths.clone(),
            locks,
            listeners: watch::Sender::new(Arc::new(listener)),
            socket,
            looked_at: Instant::now(),
            has_complained: false,
        })
    }

    /// Stops listening; keeps the locks.
    pub(super) fn leave(self) -> Locks {
        self.locks
    }

    /// Returns the listener, and later each that replaces it.
    pub(super) fn listeners(&self) -> watch::Receiver<Arc<UnixListener>> {
        self.listeners.subscribe()
    }

    /// Returns when the next check is due.
    pub(super) fn next_deadline(&self) -> Instant {
        self.looked_at + LOOK_EVERY
    }

    /// Checks whether everything is still there, if that is due, and creates again what is not.
    pub(super) fn check_and_recreate(&mut self) -> EndpointOwner {
        if self.next_deadline() > Instant::now() {
            return EndpointOwner::Ours;
        }
        self.looked_at = Instant::now();
        match self.make_again() {
            Ok(made) => {
                if made {
                    tracing::warn!("created the socket and the lock again: they had been deleted");
                }
                self.has_complained = false;
                EndpointOwner::Ours
            }
            Err(DaemonError::Lock(LockError::Held { pid }))
                if lock::is_held_by(&self.paths.lock(), pid) =>
            {
                tracing::error!(pid, "another daemon has taken over");
                EndpointOwner::Theirs
            }
            Err(error) => {
                if !self.has_complained {
                    tracing::warn!(%error, "commands cannot find this daemon: its socket or its lock was deleted");
                }
                self.has_complained = true;
                EndpointOwner::Ours
            }
        }
    }

    fn make_again(&mut self) -> Result<bool, DaemonError> {
        let path = self.paths.lock();
        let is_locked = self.locks.runtime.is_at(&path);
        if is_locked && self.socket.is_there() {
            return Ok(false);
        }
        self.paths.create_runtime()?;
        if !is_locked {
            self.locks.runtime = lock::take(&path)?;
        }
        if !self.socket.is_there() {
            let (listener, socket) = listen(&self.paths.socket())?;
            self.listeners.send_replace(Arc::new(listener));
            self.socket = socket;
        }
        Ok(true)
    }
}

/// The socket's file. It is removed when the daemon ends, in any way.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    found: Metadata,
}

impl Socket {
    /// Whether the file still exists and was not replaced.
    fn is_there(&self) -> bool {
        lock::is_file(&self.found, &self.path)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::debug!(%error, "could not remove the socket");
        }
    }
}

fn listen(path: &Path) -> Result<(UnixListener, Socket), DaemonError> {
    let failed = |source| DaemonError::Io {
        path: path.to_owned(),
        source,
    };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    let socket = Socket {
        path: path.to_owned(),
        found: fs::symlink_metadata(path).map_err(failed)?,
    };
    Ok((listener, socket))
}
