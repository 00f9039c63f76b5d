//! What is known of the messages of a session, and of their readers: from the daemon, or without one
//! from the state folder.

use std::path::Path;

use super::feed_usage::list_files_of;
use super::given_up::load_all_given_up;
use super::session::Session;
use super::{OpsError, lookup};
use crate::client::Client;
use crate::feed::{load_saved, recover};
use crate::paths::{Paths, adapter_file};
use crate::wire::{ADAPTER_CLIENTS, FollowUps, Messages, Request, Response};

/// The largest feed that is read as a whole, in bytes.
const READ_WHOLE: u64 = 8 << 20;

/// Returns what is known of the session's messages; `None` if its daemon is of a version that does
/// not know it.
pub(crate) async fn messages(session: &Session) -> Result<Option<Messages>, OpsError> {
    Ok(match session.ask(&Request::Messages).await? {
        Some(Response::Messages(messages)) => Some(with_files(*messages, &session.paths)),
        Some(_) => None,
        None => Some(of_files(&session.paths)?),
    })
}

/// The same, from this daemon of the session with these files.
pub(super) async fn messages_of_daemon(daemon: &mut Client, paths: &Paths) -> Option<Messages> {
    match daemon.ask(&Request::Messages).await {
        Ok(Response::Messages(messages)) => Some(with_files(*messages, paths)),
        Ok(_) | Err(_) => None,
    }
}

/// The same, where no daemon runs.
pub(super) fn of_files(paths: &Paths) -> Result<Messages, OpsError> {
    let list = list_files_of(paths)?;
    let messages = Messages {
        epoch: list.epoch,
        follow_ups: follow_ups(paths, list.feed_bytes)?,
        consumers: list.consumers,
        ..Messages::default()
    };
    Ok(with_files(messages, paths))
}

/// Returns the follow-ups as the last daemon has saved them, with those that it recorded later. A feed
/// of this size whose saved snapshot is lost is not read as a whole.
fn follow_ups(paths: &Paths, feed_bytes: u64) -> Result<FollowUps, OpsError> {
    let saved = load_saved(&paths.saved()).ok().flatten();
    if saved.is_none() && feed_bytes > READ_WHOLE {
        return Ok(FollowUps::default());
    }
    let state = recover(&paths.feed(), saved.as_ref(), |_| {})?;
    Ok(FollowUps::clone(state.pending.follow_ups()))
}

/// Adds what is in files, with and without a daemon.
fn with_files(messages: Messages, paths: &Paths) -> Messages {
    Messages {
        given_up: load_all_given_up(paths),
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
