//! The tasks of a session as the daemon pushes them.

use super::error::OpsError;
use super::session::Session;
use crate::client::{Client, ClientError};
use crate::wire::{Filter, Kind, LiveRecord, ReaderStart, Request};

/// Subscribes to the session's tasks. Starts a daemon if none runs. Returns the stream, whose lines
/// [`Client::line`] returns, and the session's present name.
pub(crate) async fn task_stream(session: &Session) -> Result<(Client, String), OpsError> {
    loop {
        let daemon = session.daemon_or_start().await?;
        let mut daemon = daemon.ok_or_else(|| session.no_daemon())?;
        // No record of the feed is wanted, and a reader cannot say so: these are the fewest.
        let filter = Filter::new(vec![Kind::Notice], Vec::new(), Vec::new());
        let request = Request::Subscribe {
            start: ReaderStart::Now,
            filter,
            tasks: true,
        };
        let hello = match daemon.stream(&request).await {
            // It was stopping when it was found.
            Err(ClientError::Left) => continue,
            hello => hello?,
        };
        return match serde_json::from_str(&hello) {
            Ok(LiveRecord::Hello { session_name, .. }) => Ok((daemon, session_name)),
            Ok(_) => Err(ClientError::Unexpected.into()),
            Err(source) => Err(ClientError::Answer { source }.into()),
        };
    }
}
