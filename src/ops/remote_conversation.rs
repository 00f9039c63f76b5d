//! Conversations of other machines that have tasks here.
//!
//! A launch for such a conversation notes its session, and makes the conversation a consumer of the
//! session's feed, before the task starts: what happens to the task is kept until the conversation's
//! machine has acknowledged it ([`super::follow_server`]).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::consumer_follower::find_consumer;
use super::lookup;
use super::notes::{HeldNote, Notes};
use super::session::TaskSession;
use crate::client::DaemonClient;
use crate::clock;
use crate::model::{Error, Millis, machine_of_environment, owner_of_environment};
use crate::paths::hex;
use crate::wire::{ConsumeRequest, Filter, check_consumer_name, client_of};

/// How many characters of a machine's name a consumer's name has.
const MACHINE_CHARS: usize = 40;

/// How many characters of an id that cannot be in a consumer's name stay readable.
const READABLE_CHARS: usize = 40;

/// A conversation of another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conversation {
    /// `CLIENT:ID`.
    pub(super) owner: String,
    /// What its machine is called.
    pub(super) machine: String,
}

/// A session in which a conversation of another machine has launched tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionNote {
    /// The conversation.
    #[serde(flatten)]
    pub(super) by: Conversation,
    /// The socket of the session's tmux server.
    pub(super) server: PathBuf,
    /// The session's name, as it was called then.
    pub(super) session: String,
    /// Identifies its files.
    pub(super) key: String,
    /// When the note was made.
    pub(super) since: Millis,
}

/// Returns the conversation of another machine that calls, if it is one, and its client has an adapter.
pub(super) fn calling_conversation() -> Option<Conversation> {
    let owner = owner_of_environment(&lookup).filter(|owner| client_of(owner).is_some())?;
    let machine = machine_of_environment(&lookup)?;
    Some(Conversation { owner, machine })
}

/// Notes that the caller launches tasks in this session, if it is a conversation of another machine
/// whose client has an adapter. The note is to be held until the task runs.
pub(super) async fn note_launch(
    session: &mut TaskSession,
    owner: Option<&str>,
) -> Result<Option<HeldNote>, Error> {
    let Some(by) = calling_conversation().filter(|by| Some(&*by.owner) == owner) else {
        return Ok(None);
    };
    session.resolve_name().await?;
    let note = SessionNote {
        server: session.server.socket().to_owned(),
        session: session.name.clone(),
        key: session.paths.key.clone(),
        since: clock::now().wall,
        by: by.clone(),
    };
    let notes = Notes::of_sessions(&lookup)?;
    let held = notes.hold(&consumer_of(&by), &note.key, &note).await;
    let held = held.map_err(|source| Error::folder(&session.paths.state, &source))?;
    if let Some(mut daemon) = session.daemon_for_launch().await? {
        create_consumer(session, &mut daemon, &by).await?;
    }
    Ok(Some(held))
}

/// Makes the conversation a consumer of the feed from here on, unless it is one.
async fn create_consumer(
    session: &TaskSession,
    daemon: &mut DaemonClient,
    by: &Conversation,
) -> Result<(), Error> {
    if find_consumer(daemon, &consumer_of(by)).await?.is_some() {
        return Ok(());
    }
    let mut reader = DaemonClient::connect(&session.paths.socket()).await?;
    match reader.consume(consume_request(by, true)).await {
        // Unless another process was quicker, and reads.
        Err(error) if find_consumer(daemon, &consumer_of(by)).await?.is_none() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the request to read the conversation's follow-ups. A consumer that is created starts at the
/// feed's end if `from_now` is set, and takes no place of another reader; otherwise at its beginning.
pub(super) fn consume_request(by: &Conversation, from_now: bool) -> ConsumeRequest {
    ConsumeRequest {
        name: consumer_of(by),
        from_now,
        take_over: !from_now,
        filter: Filter::own_follow_ups(&by.owner),
    }
}

/// Returns the name of a conversation's consumer on another machine, `MACHINE.CLIENT:ID`.
pub(super) fn consumer_of(by: &Conversation) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = by.machine.chars().filter(|c| is_plain(*c));
    let machine: String = plain.take(MACHINE_CHARS).collect();
    let machine = machine.trim_start_matches(['.', '_', '-']);
    let machine = if machine.is_empty() { "host" } else { machine };
    consumer_name(&format!("{machine}."), &by.owner)
}

/// Returns the name of the consumer of this owner: the owner behind the prefix, with a hash where its
/// id cannot be in a name.
pub(crate) fn consumer_name(prefix: &str, owner: &str) -> String {
    let name = format!("{prefix}{owner}");
    if check_consumer_name(&name).is_ok() {
        return name;
    }
    let (client, id) = owner.split_once(':').unwrap_or_default();
    let readable = id.chars().filter(char::is_ascii_alphanumeric);
    let readable: String = readable.take(READABLE_CHARS).collect();
    let hash = hex(owner.as_bytes(), 12);
    format!("{prefix}{client}:{readable}-{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(machine: &str, owner: &str) -> String {
        consumer_of(&Conversation {
            machine: machine.to_owned(),
            owner: owner.to_owned(),
        })
    }

    #[test]
    fn each_conversation_of_each_machine_is_a_consumer_of_its_own() {
        assert_eq!(consumer("laptop.lan", "pi:019a"), "laptop.lan.pi:019a");
        assert_eq!(consumer("", "pi:1"), "host.pi:1");
        for machine in ["../../etc", "a b", "ä", "-", &"x".repeat(300)] {
            for id in ["1", "../../etc", "a b", "ä", "", &"x".repeat(190)] {
                let name = consumer(machine, &format!("opencode:{id}"));
                assert_eq!(check_consumer_name(&name), Ok(()), "{name}");
            }
        }
        assert_ne!(consumer("m", "pi:a/b"), consumer("m", "pi:a b"));
        assert_ne!(consumer("m", "pi:1"), consumer("n", "pi:1"));
    }
}
