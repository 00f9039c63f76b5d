//! The consumers of a session's feed: list them, forget them.

use std::collections::{BTreeMap, BTreeSet};

use super::session::TaskSession;
use super::stored_feed::StoredRecords;
use crate::client::unexpected;
use crate::model::{Body, Error, Kind, Seq};
use crate::wire::{
    After, ConsumerList, Filter, ReaderStart, Request, Response, StoredUse, check_consumer_name,
};

/// Returns the consumers of the session's feed.
pub(crate) async fn list_consumers(session: &TaskSession) -> Result<ConsumerList, Error> {
    let Response::Consumers(list) = session.ask(&Request::Consumers).await? else {
        return Err(unexpected());
    };
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

/// Returns the owners among `cursors` (owner to the last record that its consumer has acknowledged)
/// for which the feed has a later follow-up. Follow-ups for everybody do not count.
pub(crate) async fn owners_with_pending_follow_ups(
    session: &TaskSession,
    cursors: &BTreeMap<String, Seq>,
) -> Result<BTreeSet<String>, Error> {
    let mut owners = BTreeSet::new();
    let Some(first) = cursors.values().min() else {
        return Ok(owners);
    };
    let start = ReaderStart::After(After {
        epoch: None,
        seq: *first,
    });
    let filter = Filter::new(vec![Kind::FollowUp], Vec::new(), Vec::new());
    let Some(mut stored) = StoredRecords::open(session, start, filter, StoredUse::Examine).await?
    else {
        return Ok(owners);
    };
    while let Some(record) = stored.next_record().await? {
        if let Body::FollowUp {
            owner: Some(owner), ..
        } = record.body
            && cursors
                .get(&owner)
                .is_some_and(|cursor| record.seq > *cursor)
        {
            owners.insert(owner);
        }
    }
    Ok(owners)
}
