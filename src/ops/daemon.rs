//! The daemon itself: its status, and stopping it.

use super::session::TaskSession;
use crate::client::unexpected;
use crate::daemon::{has_left, written_pid};
use crate::model::Error;
use crate::wire::{DaemonStatus, Request, Response};

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
