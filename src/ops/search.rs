//! Finds a pattern in the output of tasks.

use super::error::OpsError;
use super::session::Session;
use crate::client::ClientError;
use crate::terminal::Pattern;
use crate::wire::{Request, Response, SearchMatch, SearchRequest};

/// Returns the lines of tasks' output that match.
pub(crate) async fn search(
    session: &mut Session,
    request: SearchRequest,
) -> Result<Vec<SearchMatch>, OpsError> {
    pattern_of(&request)?;
    let Response::Matches { matches } = session.ask_by_name(&Request::Search(request)).await?
    else {
        return Err(ClientError::Unexpected.into());
    };
    Ok(matches)
}

pub(super) fn pattern_of(request: &SearchRequest) -> Result<Pattern, OpsError> {
    Pattern::parse(&request.pattern, request.regex, request.ignore_case)
        .map_err(|error| OpsError::Usage(error.to_string()))
}
