//! The daemon itself: its status, and stopping it.

use super::error::OpsError;
use super::session::Session;
use crate::client::ClientError;
use crate::tmux::{self, Unless};
use crate::wire::{DaemonStatus, Request, Response};

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

/// Stops the daemon. Returns whether one was running. With `cleanup` the session is ended too when
/// no task in it is active, even if no daemon runs.
pub(crate) async fn stop_daemon(session: &Session, cleanup: bool) -> Result<bool, OpsError> {
    if let Some(mut daemon) = session.daemon().await? {
        daemon.ask(&Request::Stop { cleanup }).await?;
        return Ok(true);
    }
    let look = session.look().await?;
    let Some(life) = look.life.filter(|_| look.exists) else {
        return Ok(false);
    };
    if !cleanup {
        return Err(session.no_daemon());
    }
    let _lock = session.lock_server().await?;
    tmux::end_idle_session(&mut session.connection(), &life, Unless::Active).await?;
    Ok(false)
}
