//! The daemon itself: its status, and stopping it.

use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::list::look;
use super::session::{ANSWERS_WITHIN, TaskSession};
use crate::daemon::{has_left, written_pid};
use crate::model::Error;
use crate::tmux::{self, Unless};
use crate::wire::{DaemonStatus, Request};

/// Returns the status of the daemon of the session that has this name now. If tmux does not answer, it is that of
/// the daemon that was found by the name.
pub(crate) async fn daemon_status(session: &mut TaskSession) -> Result<DaemonStatus, Error> {
    let asked = timeout(ANSWERS_WITHIN, session.ask_running(&Request::Status)).await;
    let answer = match asked {
        Ok(answer) => answer?,
        Err(_) => {
            session.is_name_resolved = true;
            session.ask_running(&Request::Status).await?
        }
    };
    answer.ok_or_else(|| session.no_daemon())
}

/// Stops the daemon, and waits until it has left. With `cleanup` the session is ended too when no task
/// in it is active, even if no daemon runs. Where the session is missing as well, there is nothing to do.
pub(crate) async fn stop_daemon(session: &mut TaskSession, cleanup: bool) -> Result<(), Error> {
    let asked = written_pid(&session.paths.lock());
    if session
        .ask_running::<IgnoredAny>(&Request::Stop { cleanup })
        .await?
        .is_none()
    {
        return match look(session).await?.life {
            None => Ok(()),
            Some(_) if !cleanup => Err(session.no_daemon()),
            Some(life) => {
                session.paths.create_runtime()?;
                let _lock = session.paths.lock_server().await;
                let mut connection = session.connection();
                tmux::end_idle_session(&mut connection, &life, Unless::Active).await?;
                Ok(())
            }
        };
    }
    if has_left(&session.paths.lock(), asked).await {
        return Ok(());
    }
    let log = session.paths.log();
    Err(Error::failed("the daemon is still stopping")
        .with_hint(format!("its log is {}", log.display())))
}
