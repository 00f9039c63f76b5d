//! Whether anything delivers messages to the conversation that has started a task.

use std::io;

use super::lookup;
use super::run::StartedRun;
use crate::clock;
use crate::files;
use crate::model::Millis;
use crate::paths::adapter_file;
use crate::wire::{DaemonStatus, Request, Response, SINK_PREFIX, check_consumer_name, is_owner_of};

/// The clients that have an adapter. Their owners and consumers are named `CLIENT:ID`.
const CLIENTS: [&str; 4] = ["claude", "codex", "opencode", "pi"];

/// A consumer that was not used for so long delivers nothing, in milliseconds.
const USED_WITHIN: Millis = 24 * 60 * 60 * 1000;

/// A conversation that gets no messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    pub(crate) owner: String,
    /// Its client, if that has an adapter which `init` installs.
    pub(crate) client: Option<&'static str>,
}

/// Returns the owner of a run that was started, if nothing delivers messages to it and this was not
/// returned for this owner before. What cannot be found out counts as a delivery.
pub(crate) async fn undelivered(started: &mut StartedRun) -> Option<Undelivered> {
    let owner = started.owner.clone()?;
    let client = client_of(&owner);
    // An adapter need not read all the time: one of Claude Code reads when a turn ends.
    let file = client.and_then(|client| adapter_file(client, &lookup));
    let told = started.paths.told_undelivered(&owner);
    if file.is_some_and(|file| file.exists()) || told.symlink_metadata().is_ok() {
        return None;
    }
    let status = match started.daemon.as_mut()?.ask(&Request::Status).await {
        Ok(Response::Status(status)) => status,
        Ok(_) | Err(_) => return None,
    };
    let is_known = status.version == env!("CARGO_PKG_VERSION");
    if !is_known || is_delivered(&owner, &status, clock::now().wall) {
        return None;
    }
    match files::create_new(&told) {
        // Another command was quicker.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
        Ok(_) | Err(_) => Some(Undelivered { owner, client }),
    }
}

fn client_of(owner: &str) -> Option<&'static str> {
    let (client, _) = owner.split_once(':')?;
    CLIENTS.into_iter().find(|known| *known == client)
}

/// Whether something passes on the messages for this owner.
fn is_delivered(owner: &str, status: &DaemonStatus, now: Millis) -> bool {
    let has_reader = status
        .reader_owners
        .iter()
        .any(|reads| reads.as_ref().is_none_or(|of| of == owner));
    // A consumer of a harness may be between two connections. Whose messages it read is not known,
    // except if it is named like a conversation.
    let has_consumer = status.consumers.iter().any(|one| {
        let is_theirs = client_of(&one.name).is_none() || one.name == owner;
        let is_recent = now.saturating_sub(one.used_at) < USED_WITHIN;
        is_theirs && is_recent && one.reader.is_none() && !one.name.starts_with(SINK_PREFIX)
    });
    // A sink without owners is a log or tells the user, where the client has an adapter.
    let has_sink = status
        .sinks
        .iter()
        .any(|sink| match sink.owners.as_slice() {
            [] => client_of(owner).is_none(),
            owners => owners.iter().any(|pattern| is_owner_of(pattern, owner)),
        });
    // The consumer of such a conversation has another name.
    let is_unknown = check_consumer_name(owner).is_err();
    has_reader || has_consumer || has_sink || is_unknown
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Millis = 10 * USED_WITHIN;

    #[track_caller]
    fn check(owner: &str, more: Value, expected: bool) {
        let mut status = json!({
            "pid": 1, "version": "0", "sessionName": "a", "server": "s", "exists": true,
            "startedAt": 1, "epoch": "e", "lastSeq": 0, "feed": "f", "log": "l", "readers": 0,
            "looks": 3, "foundLate": 0, "running": 0, "waiting": 0, "dead": 0,
        });
        let fields = status.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let status: DaemonStatus = serde_json::from_value(status).unwrap();
        assert_eq!(is_delivered(owner, &status, NOW), expected, "{more}");
    }

    fn consumer(name: &str, age: Millis, reader: Option<u32>) -> Value {
        json!({"consumers": [{
            "name": name, "cursor": 0, "lag": 0, "reader": reader, "createdAt": 0,
            "usedAt": NOW - age,
        }]})
    }

    fn sink(owners: &[&str]) -> Value {
        json!({"sinks": [{
            "name": "s", "kind": "exec", "cursor": 0, "lag": 0, "delivered": 0, "failed": 0,
            "error": null, "errorAt": null, "owners": owners,
        }]})
    }

    #[test]
    fn what_reads_the_messages_of_the_owner_delivers_them() {
        let claude = "claude:abc";
        check(claude, json!({}), false);
        check(claude, json!({"readerOwners": [null]}), true);
        check(claude, json!({"readerOwners": ["pi:1", claude]}), true);
        check(claude, json!({"readerOwners": ["pi:1"]}), false);
        // A panel.
        check(claude, json!({"readers": 1}), false);
    }

    #[test]
    fn a_consumer_that_was_used_lately_will_deliver_them() {
        let claude = "claude:abc";
        check(claude, consumer(claude, 60_000, None), true);
        check(claude, consumer(claude, USED_WITHIN, None), false);
        check(claude, consumer("claude:other", 0, None), false);
        check(claude, consumer("harness", 0, None), true);
        // What it reads now, the readers show.
        check(claude, consumer("harness", 0, Some(7)), false);
        check(claude, consumer("sink:log", 0, None), false);
    }

    #[test]
    fn a_sink_delivers_to_the_owners_that_it_names() {
        check("claude:abc", sink(&[]), false);
        check("claude:abc", sink(&["gemini:*"]), false);
        check("claude:abc", sink(&["gemini:*", "claude:*"]), true);
        check("gemini:api", sink(&["gemini:*"]), true);
        check("gemini:api", sink(&[]), true);
        check("gemini:api", json!({}), false);
    }

    #[test]
    fn an_owner_whose_consumer_has_another_name_is_left_alone() {
        check("claude:a b", json!({}), true);
    }
}
