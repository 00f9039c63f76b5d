//! The daemon itself: its status, and stopping it.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::session::TaskSession;
use crate::client::unexpected;
use crate::daemon::{is_held, written_pid};
use crate::model::Error;
use crate::wire::{DaemonStatus, Request, Response};

/// How long a daemon may take to leave: less than a command may take in all.
const STOPPED_WITHIN: Duration = Duration::from_secs(9);

/// How often its lock is tried meanwhile. The kernel does not report that a lock is free without
/// giving it to the one who waits.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// Returns the daemon's status. It has the session's present name, so the name is resolved by a
/// request of its own only if that is another one.
pub(crate) async fn daemon_status(session: &mut TaskSession) -> Result<DaemonStatus, Error> {
    if let Ok(status) = ask_for_status(session).await
        && status.exists
        && session.is_named(&status.session_name)
    {
        return Ok(status);
    }
    session.disconnect();
    session.resolve_name().await?;
    ask_for_status(session).await
}

async fn ask_for_status(session: &TaskSession) -> Result<DaemonStatus, Error> {
    let Response::Status(status) = session.ask(&Request::Status).await? else {
        return Err(unexpected());
    };
    Ok(*status)
}

/// Stops the daemon, and waits until it has left. With `cleanup` the session is ended too when no task
/// in it is active, even if no daemon runs.
pub(crate) async fn stop_daemon(session: &TaskSession, cleanup: bool) -> Result<(), Error> {
    let asked = written_pid(&session.paths.lock());
    session.ask(&Request::Stop { cleanup }).await?;
    if has_left(&session.paths.lock(), asked).await {
        return Ok(());
    }
    let log = session.paths.log();
    Err(Error::failed("the daemon is still stopping")
        .with_hint(format!("its log is {}", log.display())))
}

/// Waits until the daemon with this pid, which was asked to stop, has left: it holds the lock at `path`
/// until then. A command may have started the next one by then, which takes the lock over. Returns
/// whether it has left in time.
async fn has_left(path: &Path, asked: Option<u32>) -> bool {
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
    use std::fs::{self, File};

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
