//! What is known of the messages of a session, and of their readers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::lookup;
use super::session::TaskSession;
use crate::client::{DaemonClient, unexpected};
use crate::model::{Body, Error, Seq};
use crate::paths::adapter_file;
use crate::store::feed::{FeedLine, WholeLines, has_files};
use crate::wire::{ADAPTER_CLIENTS, Messages, Request, Response};

/// Returns what is known of the session's messages.
pub(crate) async fn messages(session: &TaskSession) -> Result<Messages, Error> {
    let Response::Messages(messages) = session.ask(&Request::Messages).await? else {
        return Err(unexpected());
    };
    Ok(with_adapters(*messages))
}

/// The same, from this daemon of the session with these files.
pub(super) async fn messages_of_daemon(daemon: &mut DaemonClient) -> Option<Messages> {
    match daemon.ask(&Request::Messages).await {
        Ok(Response::Messages(messages)) => Some(with_adapters(*messages)),
        Ok(_) | Err(_) => None,
    }
}

/// Adds what only the user's files have, with and without a daemon.
pub(super) fn with_adapters(messages: Messages) -> Messages {
    Messages {
        adapters: installed_adapters(),
        ..messages
    }
}

/// Returns the clients whose adapters are installed for this user.
fn installed_adapters() -> Vec<String> {
    let is_installed = |client: &&str| {
        let file = adapter_file(client, &lookup);
        file.as_deref().is_some_and(Path::exists)
    };
    let clients = ADAPTER_CLIENTS.into_iter().filter(is_installed);
    clients.map(ToOwned::to_owned).collect()
}

/// Returns the owners among `cursors` (owner to the last record that its consumer has acknowledged)
/// for which the feed has a later follow-up. Follow-ups for everybody do not count.
pub(crate) fn owners_with_pending_follow_ups(
    session: &TaskSession,
    cursors: &BTreeMap<String, Seq>,
) -> Result<BTreeSet<String>, Error> {
    let mut owners = BTreeSet::new();
    let path = session.paths.feed();
    let Some(first) = cursors.values().min().filter(|_| has_files(&path)) else {
        return Ok(owners);
    };
    let mut lines = WholeLines::after(&path, *first)?;
    while let Some(line) = lines.next_line()? {
        if let FeedLine::Record(record) = line
            && let Body::FollowUp {
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
