//! Waits, as they are asked for and told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PromptKindName;

/// A wait, as it is asked of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a wish of its own, as it is on the command line"
)]
pub struct WaitRequest {
    /// The task's window.
    pub window: String,
    /// Only while this is its run; without it, whichever is its present one.
    pub run: Option<u32>,
    /// What ends the wait well; the first that holds. Empty: the end of the run.
    pub conditions: Vec<ConditionFields>,
    /// Texts that end the wait badly.
    pub stops: Vec<String>,
    /// Whether texts and stops are regular expressions.
    pub regex: bool,
    /// Whether texts and stops match in any case.
    pub ignore_case: bool,
    /// The longest time to wait, milliseconds.
    pub timeout_ms: Option<u64>,
    /// Where to begin in the run's output; without it, now.
    pub since: Option<String>,
    /// Whose command asks for it; `None` for a person at a terminal.
    pub owner: Option<String>,
    /// Whether a wait for the end of the run goes on while the task asks for input.
    pub through_prompts: bool,
    /// How many of the last lines the result shows; without it, ten.
    pub tail: Option<usize>,
    /// Whether it is answered `waiting` as well, once everything that the task prints is seen.
    pub says_when_it_begins: bool,
}

/// What ends a wait well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConditionFields {
    /// The run ends.
    Exit,
    /// This text is written.
    Text(String),
    /// Anything is written.
    Change,
    /// The bell rings.
    Bell,
    /// The task waits for a person.
    Input,
    /// Nothing is written for so long.
    Idle {
        /// Milliseconds.
        ms: u64,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeName {
    /// A text was written.
    Matched,
    /// The run ended, as was waited for.
    Exited,
    /// Something was written.
    Changed,
    /// The bell rang.
    Bell,
    /// The task waits for a person.
    Input,
    /// Nothing was written for the time asked for.
    Idle,
    /// The channel was signalled.
    Signalled,
    /// The time is over.
    Timeout,
    /// The run ended, and something else was waited for.
    Died,
    /// Another run took the place of this one.
    Respawned,
    /// The window, its session or its server has gone.
    Disappeared,
    /// A text was written that ends the wait.
    Stopped,
    /// Some of the output is missing.
    AnchorLost,
}

/// The result of a wait. Unknown values are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitResult {
    /// How it ended.
    pub outcome: OutcomeName,
    /// The condition that held: `exit`, `text`, `change`, `bell`, `input`, `idle`, `channel`, or
    /// `stop`.
    pub condition: Option<String>,
    /// The line that matched, or the prompt.
    pub line: Option<String>,
    /// Which of the texts, or of the stops, matched, from 0.
    pub matched_index: Option<usize>,
    /// Whether one of the texts stood there already when the wait began.
    pub matched_at_entry: bool,
    /// Whether anything was written since.
    pub saw_new_output: bool,
    /// The last lines with text.
    pub tail: Vec<String>,
    /// How long the wait took, milliseconds.
    pub elapsed_ms: u64,
    /// Where the output ended then: for `--since`.
    pub cursor: Option<String>,
    /// The exit code, where the run ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the run.
    pub exit_signal: Option<String>,
    /// `respawned`: the process of the run that was waited on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_pid: Option<u32>,
    /// `respawned`: the process that has its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_pid: Option<u32>,
    /// Whether a full-screen program has the alternate screen.
    pub alternate_on: Option<bool>,
    /// `input`: what sort of answer is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_kind: Option<PromptKindName>,
    /// `input`: whether what is typed is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

impl WaitResult {
    /// Returns the result of a wait that ended so, nothing else being known.
    #[must_use]
    pub fn new(outcome: OutcomeName) -> Self {
        Self {
            outcome,
            condition: None,
            line: None,
            matched_index: None,
            matched_at_entry: false,
            saw_new_output: false,
            tail: Vec::new(),
            elapsed_ms: 0,
            cursor: None,
            exit_code: None,
            exit_signal: None,
            old_pid: None,
            new_pid: None,
            alternate_on: None,
            prompt_kind: None,
            secret: None,
        }
    }
}
