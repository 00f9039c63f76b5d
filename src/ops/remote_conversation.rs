//! Conversations of other machines that have tasks here.
//!
//! A launch for such a conversation makes it a consumer of the session's feed before the task starts: what
//! happens to the task is kept until the conversation's machine has acknowledged it.

use super::lookup;
use super::session::TaskSession;
use crate::client::DaemonClient;
use crate::config::paths::hex;
use crate::model::{Error, machine_of_environment};
use crate::rules::wire::{
    ConsumeRequest, ConsumerList, ConsumerStatus, Filter, Request, check_consumer_name, client_of,
};

/// How many characters of a machine's name a consumer's name has.
const MACHINE_CHARS: usize = 40;

/// How many characters of an id that cannot be in a consumer's name stay readable.
const READABLE_CHARS: usize = 40;

/// Notes that the caller launches tasks for this owner, if it is a conversation of another machine with an
/// adapter: makes it a consumer of the feed from here on. Returns whether it is such a conversation.
pub(super) async fn note_launch(
    session: &mut TaskSession,
    owner: Option<&str>,
) -> Result<bool, Error> {
    let owner = owner.filter(|owner| client_of(owner).is_some());
    let (Some(owner), Some(machine)) = (owner, machine_of_environment(&lookup)) else {
        return Ok(false);
    };
    session.resolve_name().await?;
    let mut daemon = session.daemon_for_launch().await?;
    let name = consumer_of(&machine, owner);
    if find_consumer(&mut daemon, &name).await?.is_some() {
        return Ok(true);
    }
    let mut reader = DaemonClient::connect(&session.paths.socket()).await?;
    let request = ConsumeRequest {
        name: name.clone(),
        from_now: true,
        take_over: false,
        filter: Filter::own_follow_ups(owner),
    };
    match reader.stream(&Request::Consume(request)).await {
        // Unless another process was quicker, and reads.
        Err(error) if find_consumer(&mut daemon, &name).await?.is_none() => Err(error),
        Ok(_) | Err(_) => Ok(true),
    }
}

/// Returns the name of a conversation's consumer on another machine, `MACHINE.CLIENT:ID`.
pub(super) fn consumer_of(machine: &str, owner: &str) -> String {
    let machine: String = machine.chars().take(MACHINE_CHARS).collect();
    consumer_name(&format!("{machine}."), owner)
}

/// Returns the owner behind the prefix, with a hash where its id cannot be in a consumer's name.
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

pub(crate) async fn find_consumer(
    daemon: &mut DaemonClient,
    name: &str,
) -> Result<Option<ConsumerStatus>, Error> {
    let list: ConsumerList = daemon.ask(&Request::Consumers).await?;
    Ok(list.consumers.into_iter().find(|one| one.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conversation_of_each_machine_is_a_consumer_of_its_own() {
        assert_eq!(consumer_of("laptop.lan", "pi:019a"), "laptop.lan.pi:019a");
        for machine in ["a", "laptop.lan", &"x".repeat(300)] {
            for id in ["1", "../../etc", "a b", "ä", "", &"x".repeat(190)] {
                let name = consumer_of(machine, &format!("opencode:{id}"));
                assert_eq!(check_consumer_name(&name), Ok(()), "{name}");
            }
        }
        assert_ne!(consumer_of("m", "pi:a/b"), consumer_of("m", "pi:a b"));
        assert_ne!(consumer_of("m", "pi:1"), consumer_of("n", "pi:1"));
    }
}
