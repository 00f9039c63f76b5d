//! Finds a pattern in the output of tasks.

use super::error::OpsError;
use super::session::Session;
use crate::client::ClientError;
use crate::daemon::search_task;
use crate::terminal::Pattern;
use crate::wire::{Request, Response, SearchMatch, SearchRequest};

/// Returns the lines of tasks' output that match. `pattern` is that of the request.
pub(crate) async fn search(
    session: &mut Session,
    request: SearchRequest,
    pattern: &Pattern,
) -> Result<Vec<SearchMatch>, OpsError> {
    match session.ask_by_name(&Request::Search(request.clone())).await {
        Ok(Some(Response::Matches { matches })) => return Ok(matches),
        Ok(None) => {}
        Ok(Some(_)) => return Err(ClientError::Unexpected.into()),
        // tmux has the output as well.
        Err(error) if error.is_unknown_request() => {}
        Err(error) => return Err(error),
    }
    let look = session.look().await?;
    if !look.exists {
        return Err(session.missing());
    }
    let tasks = match &request.task {
        Some(name) => vec![look.find_task(name)?],
        None => look.tasks.values().collect(),
    };
    let mut matches = Vec::new();
    for task in tasks {
        matches.extend(search_task(&mut session.connection(), task, pattern).await?);
    }
    Ok(matches)
}
