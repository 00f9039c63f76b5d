//! A conversation of a client, as an owner of tasks and as a consumer of the feed.

use crate::model::text;
use crate::paths::hex;
use crate::wire::check_consumer_name;

/// The maximum length of an id, in characters. Ids are UUIDs and the like.
const ID_CHARS: usize = 160;

/// How many characters of an id that cannot be a file name stay readable.
const READABLE_CHARS: usize = 40;

/// The clients that have an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentClient {
    Pi,
    Claude,
    Codex,
    Opencode,
}

impl AgentClient {
    pub(crate) const ALL: [Self; 4] = [Self::Pi, Self::Claude, Self::Codex, Self::Opencode];

    /// Returns the client's name, as in owners.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
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

    /// Returns the client's own id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the owner of the tasks that the conversation's shell starts.
    pub(crate) fn owner(&self) -> String {
        format!("{}:{}", self.client.name(), self.id)
    }

    /// Returns the name of the conversation's consumer: the owner, unless a file cannot have that
    /// name.
    pub(crate) fn consumer(&self) -> String {
        let owner = self.owner();
        if check_consumer_name(&owner).is_ok() {
            return owner;
        }
        let readable: String = self
            .id
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(READABLE_CHARS)
            .collect();
        let hash = hex(owner.as_bytes(), 12);
        format!("{}:{readable}-{hash}", self.client.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
