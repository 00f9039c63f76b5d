//! The daemon itself: its status, and stopping it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::OpsError;
use super::session::Session;
use crate::client::ClientError;
use crate::daemon::is_held;
use crate::tmux::{self, Unless};
use crate::wire::{DaemonStatus, Request, Response};

/// How long a daemon may take to leave: less than a command may take in all.
const STOPPED_WITHIN: Duration = Duration::from_secs(9);

/// How often its lock is tried meanwhile. The kernel does not report that a lock is free without
/// giving it to the one who waits.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// Returns the daemon's status. It has the session's present name, so the name is resolved by a
/// request of its own only if that is another one.
pub(crate) async fn daemon_status(session: &mut Session) -> Result<DaemonStatus, OpsError> {
    if let Ok(status) = ask_for_status(session).await
        && status.exists
        && session.is_named(&status.session_name)
    {
        return Ok(status);
    }
    session.disconnect();
    session.settle().await?;
    ask_for_status(session).await
}

async fn ask_for_status(session: &Session) -> Result<DaemonStatus, OpsError> {
    match session.ask(&Request::Status).await? {
        Some(Response::Status(status)) => Ok(*status),
        Some(_) => Err(ClientError::Unexpected.into()),
        None => Err(session.no_daemon()),
    }
}

/// Stops the daemon, and waits until it has left. With `cleanup` the session is ended too when no task
/// in it is active, even if no daemon runs.
pub(crate) async fn stop_daemon(session: &Session, cleanup: bool) -> Result<(), OpsError> {
    if let Some(mut daemon) = session.daemon().await? {
        daemon.ask(&Request::Stop { cleanup }).await?;
        return until_left(session).await;
    }
    let look = session.look().await?;
    let Some(life) = look.life.filter(|_| look.exists) else {
        return Ok(());
    };
    if !cleanup {
        return Err(session.no_daemon());
    }
    let _lock = session.lock_server().await?;
    tmux::end_idle_session(&mut session.connection(), &life, Unless::Active).await?;
    Ok(())
}

/// Waits until a daemon that was asked to stop has left: it holds its lock until then.
async fn until_left(session: &Session) -> Result<(), OpsError> {
    let deadline = Instant::now() + STOPPED_WITHIN;
    while is_held(&session.paths.lock()) {
        if Instant::now() >= deadline {
            return Err(OpsError::StillStopping(session.paths.log()));
        }
        sleep(LOCK_POLL).await;
    }
    Ok(())
}
