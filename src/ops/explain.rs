//! Why a task is or is not judged to wait for input.

use super::error::OpsError;
use super::session::Session;
use crate::client::ClientError;
use crate::wire::{Explanation, Request, Response};

/// Returns the daemon's explanation; without a daemon, that of a single look.
pub(crate) async fn explain(session: &mut Session, name: &str) -> Result<Explanation, OpsError> {
    let request = Request::Explain {
        task: name.to_owned(),
    };
    let Response::Explained(explanation) = session.ask_by_name(&request).await? else {
        return Err(ClientError::Unexpected.into());
    };
    Ok(*explanation)
}
