//! One daemon per task session: a lock that the kernel releases however the process ends.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::DaemonError;
use crate::model::{Error, ErrorKind};
use crate::paths::Paths;
use crate::{files, process};

/// How long a daemon may take to leave: less than a command may take in all.
const STOPPED_WITHIN: Duration = Duration::from_secs(9);

/// How often its lock is tried meanwhile. The kernel does not report that a lock is free without
/// giving it to the one who waits.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// The lock, held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Whether this is the file at `path`: it may have been deleted and created again.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.file.metadata().is_ok_and(|ours| is_file(&ours, path))
    }
}

/// Whether the file at `path`, which may be a link, is the identified one.
pub(super) fn is_file(found: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (found.dev(), found.ino()))
}

/// Takes the lock and writes our pid into it.
pub(super) fn take(path: &Path) -> Result<Lock, DaemonError> {
    let failed = |error| unusable(path, &error);
    let mut file = files::open_to_write(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut written = Vec::new();
            file.read_to_end(&mut written).map_err(failed)?;
            return Err(DaemonError::Running {
                pid: pid_in(&written).unwrap_or(0),
                folder: None,
            });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(Lock { file })
}

/// Takes the lock in the state folder, and writes our runtime folder behind our pid.
pub(super) fn take_state(paths: &Paths) -> Result<Lock, DaemonError> {
    let path = paths.state_lock();
    let mut lock = take(&path)?;
    let written = writeln!(lock.file, "{}", paths.runtime.display());
    written.map_err(|error| unusable(&path, &error))?;
    Ok(lock)
}

fn unusable(path: &Path, error: &io::Error) -> DaemonError {
    let failed = Error::io(
        format_args!("could not use the lock {}", path.display()),
        error,
    );
    let kind = match files::is_refusal(error) {
        true => ErrorKind::NotOurs,
        false => ErrorKind::Failed,
    };
    Error { kind, ..failed }.into()
}

fn pid_in(written: &[u8]) -> Option<u32> {
    String::from_utf8_lossy(written)
        .lines()
        .next()?
        .parse()
        .ok()
}

/// Whether the daemon with this pid holds the lock at `path`. The lock itself is tried last: for
/// that moment it looks taken to a daemon that starts.
pub(super) fn is_held_by(path: &Path, pid: u32) -> bool {
    process::exists(pid) && written_pid(path) == Some(pid) && is_held(path)
}

/// Returns the pid of the daemon that holds the lock at `path`, or held it last.
pub(crate) fn written_pid(path: &Path) -> Option<u32> {
    pid_in(&files::read(path).ok()?)
}

/// Returns the pid of the daemon that has these files, but another folder for its socket: no command
/// with these paths finds it.
pub(crate) fn held_elsewhere(paths: &Paths) -> Option<u32> {
    let path = paths.state_lock();
    let written = files::read(&path).ok()?;
    let written = String::from_utf8_lossy(&written);
    let (pid, runtime) = written.trim_end_matches('\n').split_once('\n')?;
    let pid = pid.parse().ok()?;
    let is_other = runtime != paths.runtime.to_string_lossy();
    (is_other && is_held_by(&path, pid)).then_some(pid)
}

/// Whether a daemon holds the lock at `path`.
pub(crate) fn is_held(path: &Path) -> bool {
    files::open(path).is_ok_and(|file| file.try_lock_shared().is_err())
}

/// Waits until the daemon with this pid, which was asked to stop, has left: it holds the lock at `path`
/// until then. A command may have started the next one by then, which takes the lock over. Returns
/// whether it has left in time.
pub(crate) async fn has_left(path: &Path, asked: Option<u32>) -> bool {
    let deadline = Instant::now() + STOPPED_WITHIN;
    while written_pid(path) == asked && is_held(path) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOCK_POLL).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_daemon_has_left_when_another_one_has_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "7\n").unwrap();
        let lock = File::open(&path).unwrap();
        lock.lock().unwrap();
        assert!(!has_left(&path, Some(7)).await);
        assert!(has_left(&path, Some(6)).await);
        lock.unlock().unwrap();
        assert!(has_left(&path, Some(7)).await);
    }
}
