//! Why a run ended or a task is gone, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::GoneReason;

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

/// Who ended the task of an agent, other than that agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndedByName {
    /// Another agent.
    OtherAgent,
}
