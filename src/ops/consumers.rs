//! The consumers of a session's feed: list them, forget them.

use std::io;

use super::error::OpsError;
use super::feed_usage::{failed, list_files_of};
use super::given_up::forget_given_up;
use super::messages::messages;
use super::session::Session;
use crate::client::ClientError;
use crate::clock;
use crate::feed::{has_files, remove_consumer as remove_file, sync_consumers};
use crate::wire::{ConsumerList, Request, Response, check_consumer_name};

/// Returns the consumers of the session's feed, with whether their messages were delivered. Where no
/// daemon runs, their files tell.
pub(crate) async fn list_consumers(session: &Session) -> Result<ConsumerList, OpsError> {
    let mut list = match session.ask(&Request::Consumers).await? {
        Some(Response::Consumers(list)) => list,
        Some(_) => return Err(ClientError::Unexpected.into()),
        None => list_files(session)?,
    };
    if let Some(messages) = messages(session).await? {
        let now = clock::now().wall;
        for consumer in &mut list.consumers {
            consumer.delivery = messages.of_consumer(consumer, now);
        }
    }
    Ok(list)
}

/// Forgets a consumer of the session's feed.
pub(crate) async fn remove_consumer(session: &Session, name: &str) -> Result<(), OpsError> {
    check_consumer_name(name).map_err(OpsError::Usage)?;
    let request = Request::RemoveConsumer {
        name: name.to_owned(),
    };
    match session.ask(&request).await? {
        Some(Response::Done) => {
            forget_given_up(&session.paths, name);
            return Ok(());
        }
        Some(_) => return Err(ClientError::Unexpected.into()),
        None => {}
    }
    require_feed(session)?;
    let folder = session.paths.consumers();
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotFound {
            OpsError::NoConsumer(name.to_owned())
        } else {
            failed(&folder, source)
        }
    };
    folder.join(name).symlink_metadata().map_err(failed)?;
    remove_file(&folder, name).map_err(failed)?;
    forget_given_up(&session.paths, name);
    sync_consumers(&folder).map_err(failed)
}

fn list_files(session: &Session) -> Result<ConsumerList, OpsError> {
    require_feed(session)?;
    list_files_of(&session.paths)
}

fn require_feed(session: &Session) -> Result<(), OpsError> {
    if has_files(&session.paths.feed()) {
        return Ok(());
    }
    Err(OpsError::NoFeed(session.name.clone()))
}
