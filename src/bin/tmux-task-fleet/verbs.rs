//! What others may have executed here, and what they ask for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What may be done on a machine through the broker, by the name of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    Ls,
    Logs,
    Wait,
    Run,
    Send,
    Kill,
}

impl Verb {
    /// Whether executing it twice is something else than once.
    pub(crate) fn changes(self) -> bool {
        matches!(self, Self::Run | Self::Send | Self::Kill)
    }
}

/// What is asked of a machine, as tmux-task passes it on and executes it. What is not named here is passed on
/// as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FarCall {
    /// The arguments of tmux-task.
    pub(crate) args: Vec<String>,
    /// The command that they are, as the subject of a request names it.
    #[serde(default)]
    pub(crate) verb: String,
    /// The session.
    #[serde(default)]
    pub(crate) session: String,
    /// The conversation that asks.
    #[serde(default)]
    pub(crate) owner: Option<String>,
    /// Who asks.
    #[serde(default)]
    pub(crate) caller: Map<String, Value>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}
