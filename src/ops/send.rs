//! Types into a task.

use super::session::TaskSession;
use crate::client::unexpected;
use crate::model::Error;
use crate::wire::{Request, Response, SendRequest};

pub(crate) async fn send(session: &mut TaskSession, request: SendRequest) -> Result<(), Error> {
    let Response::Done = session.ask_by_name(&Request::Send(request)).await? else {
        return Err(unexpected());
    };
    Ok(())
}
