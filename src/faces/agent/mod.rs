//! Adapters for agents: delivers each follow-up to the conversation that started the task.
//!
//! A [`Follower`](follower::Follower) reads the feed as the conversation's consumer, across restarts of
//! the daemon. [`PendingFollowUps`](outbox::PendingFollowUps) merges what is pending into one message and
//! limits messages per minute. How a message is handed over, and what counts as its receipt, differs by
//! client: [`serve`] is for adapters that run inside the client, [`claude`] for Claude Code's hooks,
//! [`codex`] for the app-server of Codex.

pub(crate) mod claude;
pub(crate) mod codex;
mod codex_thread;
mod follower;
mod hand_over;
mod ledger;
mod outbox;
pub(crate) mod qwen;
mod setup;
mod stdio;
mod transcript;

pub(crate) use hand_over::Ended;
pub(crate) use setup::{Done, Setup};
pub(crate) use stdio::{read_lines, serve};

use crate::model::{Kind, text};
use crate::ops::consumer_name;
use crate::rules::wire::{ConsumeRequest, Filter};

/// The maximum length of an id, in characters. Ids are UUIDs and the like.
const ID_CHARS: usize = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentClient {
    Pi,
    Claude,
    Codex,
    Opencode,
    Copilot,
    Qwen,
}

impl AgentClient {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Copilot => "copilot",
            Self::Qwen => "qwen",
        }
    }
}

/// A conversation: `CLIENT:ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    client: AgentClient,
    id: String,
}

impl Conversation {
    /// Returns the conversation of this client with this id; `None` when the id is empty. Untrusted
    /// text becomes one bounded line, as in an owner.
    pub(crate) fn new(client: AgentClient, id: &str) -> Option<Self> {
        let id = text::one_line(id.as_bytes(), ID_CHARS);
        (!id.is_empty()).then_some(Self { client, id })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the owner of the tasks that the conversation's shell starts.
    pub(crate) fn owner(&self) -> String {
        format!("{}:{}", self.client.name(), self.id)
    }

    /// Returns the name of its consumer: the owner, unless a file cannot have that name.
    pub(crate) fn consumer(&self) -> String {
        consumer_name("", &self.owner())
    }

    /// Returns the request to read these kinds of its records in place of another process: the one that
    /// was started last is the one that the client talks to.
    fn consume_request(&self, kinds: Vec<Kind>) -> ConsumeRequest {
        ConsumeRequest {
            name: self.consumer(),
            from_now: false,
            take_over: true,
            filter: Filter::new(kinds, Vec::new(), Vec::new()).for_owner(Some(self.owner())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::wire::check_consumer_name;

    fn consumer(id: &str) -> String {
        Conversation::new(AgentClient::Pi, id).unwrap().consumer()
    }

    #[test]
    fn each_conversation_has_a_consumer_of_its_own() {
        assert_eq!(consumer("019ac-7"), "pi:019ac-7");
        for id in ["../../etc", "a b", "ä", &"x".repeat(150)] {
            let name = consumer(id);
            assert_eq!(check_consumer_name(&name), Ok(()), "{name}");
        }
        assert_ne!(consumer("a/b"), consumer("a b"));
        assert_ne!(consumer(&"x".repeat(150)), consumer(&"x".repeat(151)));
        assert_eq!(Conversation::new(AgentClient::Pi, " \n"), None);
    }
}
