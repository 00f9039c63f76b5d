//! What a wait is for, and how it ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::shown_by_wire_name;
use super::{Exit, GoneReason, PortHolder, PromptKind, millis};

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

/// The result of a wait. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// How it ended.
    pub outcome: WaitOutcome,
    /// The condition that held: `exit`, `text`, `change`, `bell`, `input`, `idle`, `listen`, `channel`,
    /// or `stop`.
    pub condition: Option<String>,
    /// The line that matched, or the prompt.
    pub line: Option<String>,
    /// The index of the text, or of the stop text, that matched, from 0.
    pub matched_index: Option<usize>,
    /// `listening`: the ports that the task listens on, without those that another process shares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Who has the port that was waited for, where it is not the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port_holders: Vec<PortHolder>,
    /// The first process of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_pid: Option<u32>,
    /// Whether one of the texts was on the screen already when the wait began.
    pub matched_at_entry: bool,
    /// Whether anything was written since the wait began.
    pub saw_new_output: bool,
    /// The last lines with text.
    pub tail: Vec<String>,
    /// How long the wait took, in milliseconds.
    pub elapsed_ms: u64,
    /// The end of the output when the wait ended, for `--since`.
    pub cursor: Option<String>,
    /// `disappeared`: why, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<GoneReason>,
    /// The exit code, if no signal ended the run.
    pub exit_code: Option<i32>,
    /// The signal that ended the run.
    pub exit_signal: Option<String>,
    /// What may have killed the run, for a user. Absent: it was not killed, or by tmux-task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_hint: Option<String>,
    /// In how many milliseconds the run that has ended is restarted. Absent: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts_in_ms: Option<u64>,
    /// `respawned`: the pid of the run that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_pid: Option<u32>,
    /// `respawned`: the pid of the run that replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_pid: Option<u32>,
    /// Whether a full-screen program uses the alternate screen.
    pub alternate_on: Option<bool>,
    /// `input`: what kind of answer is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_kind: Option<PromptKind>,
    /// `input`: whether typed text is not echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
    /// `input`: whether the program is stopped because it wants the terminal from the background. It
    /// cannot be answered there. Absent: it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "bool")]
    pub stopped: bool,
}

impl WaitResult {
    /// The name of a wait on a channel, as a condition.
    pub(crate) const CHANNEL: &'static str = "channel";

    /// Returns the result of a wait with this outcome and no further values.
    pub fn new(outcome: WaitOutcome) -> Self {
        Self {
            outcome,
            ..Self::default()
        }
    }

    /// Adds how the run has ended, if that is known.
    #[must_use]
    pub(crate) fn with_exit(self, exit: Option<&Exit>) -> Self {
        let Some(exit) = exit else {
            return self;
        };
        Self {
            exit_code: exit.code,
            exit_hint: exit.hint().map(str::to_owned),
            exit_signal: exit.signal.as_ref().map(ToString::to_string),
            ..self
        }
    }
}
