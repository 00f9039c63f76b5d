//! Why a run ended or a task is gone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a task is no longer in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Reason", try_from = "Reason")]
pub enum GoneReason {
    /// A user ended it with our commands.
    UserKilled,
    /// The agent that owns it ended it with our tools, or any agent if nobody owns it.
    AgentKilled,
    /// Another agent than its owner ended it with our tools.
    OtherAgentKilled,
    /// Its run lasted longer than its launch allowed.
    TimedOut,
    /// Its window was moved to another session.
    Moved,
}

impl GoneReason {
    /// The reasons of ends that we have caused, with their words.
    const ENDED: [(&str, Self); 4] = [
        ("userKilled", Self::UserKilled),
        ("agentKilled", Self::AgentKilled),
        ("otherAgentKilled", Self::OtherAgentKilled),
        ("timedOut", Self::TimedOut),
    ];

    /// Returns the word for a reason why a run is ended; `None` for one that ends nothing.
    pub fn word(self) -> Option<&'static str> {
        let mut ended = Self::ENDED.iter();
        ended.find_map(|(word, reason)| (*reason == self).then_some(*word))
    }

    /// Returns the word for it in what users read, where an agent is one of them.
    pub fn shown_word(self) -> Option<&'static str> {
        match self {
            Self::OtherAgentKilled => Self::AgentKilled.word(),
            Self::UserKilled | Self::AgentKilled | Self::TimedOut | Self::Moved => self.word(),
        }
    }

    /// Returns the reason with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut ended = Self::ENDED.iter();
        ended.find_map(|(other, reason)| (*other == word).then_some(*reason))
    }

    /// Whether our commands have ended the run, and not something else.
    pub fn is_end(self) -> bool {
        self.word().is_some()
    }
}

/// Why a run ended or a task is no longer in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// A later run replaced it.
    Replaced,
    /// A user ended it with our commands.
    UserKilled,
    /// The agent ended it with our tools.
    AgentKilled,
    /// It lasted longer than its launch allowed.
    TimedOut,
    /// Its window was moved to another session.
    Moved,
}

impl From<GoneReason> for Reason {
    fn from(reason: GoneReason) -> Self {
        match reason {
            GoneReason::UserKilled => Self::UserKilled,
            GoneReason::AgentKilled | GoneReason::OtherAgentKilled => Self::AgentKilled,
            GoneReason::TimedOut => Self::TimedOut,
            GoneReason::Moved => Self::Moved,
        }
    }
}

impl Reason {
    /// Returns why a task is gone; `None` for the reason of an exit.
    pub(super) fn gone(self, ended_by: Option<EndedByName>) -> Option<GoneReason> {
        match (self, ended_by) {
            (Self::UserKilled, _) => Some(GoneReason::UserKilled),
            (Self::AgentKilled, None) => Some(GoneReason::AgentKilled),
            (Self::AgentKilled, Some(EndedByName::OtherAgent)) => {
                Some(GoneReason::OtherAgentKilled)
            }
            (Self::TimedOut, _) => Some(GoneReason::TimedOut),
            (Self::Moved, _) => Some(GoneReason::Moved),
            (Self::Replaced, _) => None,
        }
    }
}

impl TryFrom<Reason> for GoneReason {
    type Error = &'static str;

    fn try_from(reason: Reason) -> Result<Self, Self::Error> {
        reason
            .gone(None)
            .ok_or("a run that was replaced is not gone")
    }
}

/// Who ended the task of an agent, other than that agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum EndedByName {
    /// Another agent.
    OtherAgent,
}
