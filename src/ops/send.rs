//! Types into a task.

use super::error::OpsError;
use super::explain::explain_directly;
use super::session::Session;
use crate::client::ClientError;
use crate::daemon::type_into_task;
use crate::wire::{Request, Response, SendRequest};

/// Types into a task.
pub(crate) async fn send(session: &mut Session, request: SendRequest) -> Result<(), OpsError> {
    // Sent once only: input that may have been typed must not be typed again.
    let sent = session.ask_by_name_once(&to_daemon(&request)).await?;
    match sent {
        Some(Response::Done) => Ok(()),
        Some(_) => Err(ClientError::Unexpected.into()),
        // Text can be typed without a daemon that hangs, but only a daemon knows the prompt.
        None if session.is_daemon_silent && request.needs_prompt() => {
            match session.ask_by_name(&to_daemon(&request)).await? {
                Some(Response::Done) => Ok(()),
                Some(_) => Err(ClientError::Unexpected.into()),
                None => Err(session.no_daemon()),
            }
        }
        None => send_directly(session, request).await,
    }
}

fn to_daemon(request: &SendRequest) -> Request {
    if request.is_guarded {
        Request::SendGuarded(request.clone())
    } else {
        Request::Send(request.clone())
    }
}

/// Types without a daemon.
async fn send_directly(session: &Session, request: SendRequest) -> Result<(), OpsError> {
    let task = session.task(&request.task).await?;
    let explanation = if request.needs_prompt() {
        Some(explain_directly(session, &task).await?)
    } else {
        None
    };
    let mut connection = session.connection();
    let server = &session.server;
    type_into_task(
        &mut connection,
        server,
        &task,
        explanation.as_ref(),
        request,
    )
    .await?;
    Ok(())
}
