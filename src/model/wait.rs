//! What a wait is for, and how it ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::shown_by_wire_name;
use super::millis;

/// What a wait is for. A text is a pattern where it is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Condition<T = String> {
    /// The run ends.
    Exit,
    /// A line with this text is written.
    Text(T),
    /// Anything is written.
    Change,
    /// The bell rings.
    Bell,
    /// The task waits for a user's input.
    Input,
    /// Nothing is written for this long.
    Idle {
        /// How long.
        #[serde(rename = "ms", with = "millis")]
        limit: Duration,
    },
    /// The run's own processes listen on a TCP port.
    Listen {
        /// On this one; `None` for any.
        #[serde(default)]
        port: Option<u16>,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutcomeName")]
pub enum WaitOutcome {
    /// A text was written.
    Matched,
    /// The run ended, and that was the condition.
    Exited,
    /// Something was written.
    Changed,
    /// The bell rang.
    Bell,
    /// The task waits for a user's input: that was the condition, or the end of the run, which cannot
    /// come before it is answered.
    Input,
    /// Nothing was written for the requested time.
    Idle,
    /// The run's own processes listen on the port.
    Listening,
    /// The channel was signalled.
    Signalled,
    /// The time limit was reached.
    #[default]
    Timeout,
    /// The run ended, and the condition was another one.
    Died,
    /// Another run replaced this one: it was ended for that, or how it ended is not known.
    Respawned,
    /// The window, its session or its server is gone.
    Disappeared,
    /// A stop text was written.
    Stopped,
    /// Part of the output is missing, so that the text may have been missed.
    AnchorLost,
}

shown_by_wire_name!(WaitOutcome);

impl<T> Condition<T> {
    /// Returns the condition's name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Text(_) => "text",
            Self::Change => "change",
            Self::Bell => "bell",
            Self::Input => "input",
            Self::Idle { .. } => "idle",
            Self::Listen { .. } => "listen",
        }
    }

    /// Returns the port that is waited for, if it is a certain one.
    pub fn port(&self) -> Option<u16> {
        let Self::Listen { port } = self else {
            return None;
        };
        *port
    }

    /// Whether the task's output has to be followed.
    pub fn needs_output(&self) -> bool {
        match self {
            Self::Text(_) | Self::Change | Self::Idle { .. } => true,
            Self::Exit | Self::Bell | Self::Input | Self::Listen { .. } => false,
        }
    }
}
