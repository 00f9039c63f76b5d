//! Types into a task.

use super::error::OpsError;
use super::explain::explain_directly;
use super::session::Session;
use crate::client::ClientError;
use crate::daemon::type_into_task;
use crate::wire::{Request, Response, SendRequest};

/// Types into a task.
pub(crate) async fn send(session: &Session, request: SendRequest) -> Result<(), OpsError> {
    // An answer can be typed without a daemon that hangs, but only a daemon knows the prompt.
    if session.is_daemon_silent && request.if_prompt.is_none() {
        return send_directly(session, request).await;
    }
    let Some(mut daemon) = session.daemon().await? else {
        return send_directly(session, request).await;
    };
    // Sent once only: input that may have been typed must not be typed again.
    match daemon.ask(&Request::Send(request)).await {
        Ok(Response::Done) => Ok(()),
        Ok(_) => Err(ClientError::Unexpected.into()),
        Err(error) => Err(error.into()),
    }
}

/// Types without a daemon.
async fn send_directly(session: &Session, request: SendRequest) -> Result<(), OpsError> {
    let task = session.task(&request.task).await?;
    let explanation = match &request.if_prompt {
        Some(_) => Some(explain_directly(session, &task).await?),
        None => None,
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
