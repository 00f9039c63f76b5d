//! One daemon per task session: a lock that the kernel lets go of whatever happens to us.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The lock, held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Why the lock is not ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error("already running (pid {pid})")]
    Held {
        /// Its process; 0 when it has not said yet.
        pid: u32,
    },
    /// The file cannot be used.
    #[error("could not use the lock {}", .path.display())]
    Io {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Takes the lock and writes our pid into it.
pub(super) fn take(path: &Path) -> Result<Lock, LockError> {
    let failed = |source| LockError::Io {
        path: path.to_owned(),
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(failed)?;
            return Err(LockError::Held {
                pid: pid.trim().parse().unwrap_or(0),
            });
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(Lock { _file: file })
}

/// Returns the process of the daemon that has the lock at `path`.
pub(super) fn holder(path: &Path) -> Option<u32> {
    let pid = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    is_held(path).then_some(pid)
}

/// Whether a daemon has the lock at `path`.
#[must_use]
pub fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}
