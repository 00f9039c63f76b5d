//! The consumers of a session's feed: list them, forget them.

use super::messages::messages;
use super::session::TaskSession;
use crate::client::unexpected;
use crate::clock;
use crate::model::Error;
use crate::wire::{ConsumerList, Request, Response, check_consumer_name};

/// Returns the consumers of the session's feed, with whether their messages were delivered.
pub(crate) async fn list_consumers(session: &TaskSession) -> Result<ConsumerList, Error> {
    let Response::Consumers(mut list) = session.ask(&Request::Consumers).await? else {
        return Err(unexpected());
    };
    let messages = messages(session).await?;
    let now = clock::now().wall;
    for consumer in &mut list.consumers {
        consumer.delivery = messages.of_consumer(consumer, now);
    }
    Ok(list)
}

pub(crate) async fn remove_consumer(session: &TaskSession, name: &str) -> Result<(), Error> {
    check_consumer_name(name).map_err(Error::usage)?;
    let request = Request::RemoveConsumer {
        name: name.to_owned(),
    };
    let Response::Done = session.ask(&request).await? else {
        return Err(unexpected());
    };
    Ok(())
}
