//! The data of `explain`: why a task is or is not judged to wait for input.

use serde::{Deserialize, Serialize};

use crate::model::{Millis, NextRestart, Prompt, PromptKind, ReadCall, Task, TtyEvidence};
use crate::prompt::Judgement;

/// Everything that the judgement is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The window's id.
    pub window_id: String,
    /// Its name.
    pub window_name: String,
    /// The task's state.
    pub state: ExplainedState,
    /// Since when it has been reported as waiting, in milliseconds since 1970; null where it is
    /// not, or where that was before a restart.
    pub waiting_since: Option<Millis>,
    /// Whether the present screen asks for input.
    pub asks: bool,
    /// The line that asks.
    pub prompt: Option<String>,
    /// What kind of answer it expects.
    pub prompt_kind: Option<PromptKind>,
    /// Whether the answer must not be shown.
    pub secret: Option<bool>,
    /// The rule that decided.
    pub rule: String,
    /// The line that was examined.
    pub line: Option<String>,
    /// The row of that line within the capture.
    #[serde(default)]
    pub line_y: Option<u32>,
    /// How long the screen has been unchanged, in milliseconds; null without a daemon.
    pub quiet_ms: Option<u64>,
    /// The cursor's column.
    pub cursor_x: Option<u32>,
    /// The cursor's row within the capture.
    pub cursor_y: Option<u32>,
    /// Whether a full-screen program uses the alternate screen.
    pub alternate_on: Option<bool>,
    /// The kernel's evidence on the terminal; null where there is none, or where it was not read
    /// because output is moving.
    pub terminal: Option<TtyEvidence>,
    /// The `read` call in which a program is blocked. Not serialised: it is of use only where it can
    /// be compared with the present one.
    #[serde(skip)]
    pub read: Option<ReadCall>,
    /// The restart that it waits for. Absent: it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_restart: Option<NextRestart>,
    /// Why it is not run again, although it has failed and `--restart` was given. Absent: there is no
    /// such reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_restart: Option<String>,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExplainedState {
    /// The run has ended.
    Ended,
    /// It does not wait for input.
    Working,
    /// It asks for input and is not reported yet, because its screen has not been unchanged long
    /// enough or because no daemon runs.
    Asking,
    /// It asks for input, and the configuration mutes it.
    Muted,
    /// It is reported as waiting.
    Waiting,
}

impl Explanation {
    /// Returns the explanation of how a task's screen was judged. It is not marked as reported yet.
    pub fn new(task: &Task, judgement: Option<&Judgement>, terminal: Option<&TtyEvidence>) -> Self {
        let prompt: Option<&Prompt> = judgement
            .and_then(|judgement| judgement.found.as_ref())
            .map(|found| &found.prompt);
        let row = judgement.and_then(|judgement| judgement.row);
        Self {
            window_id: task.window.to_string(),
            window_name: task.name.clone(),
            state: if !task.is_alive() {
                ExplainedState::Ended
            } else if prompt.is_some() {
                ExplainedState::Asking
            } else {
                ExplainedState::Working
            },
            waiting_since: None,
            asks: prompt.is_some(),
            prompt: prompt.map(|prompt| prompt.text.clone()),
            prompt_kind: prompt.map(|prompt| prompt.kind),
            secret: prompt.map(|prompt| prompt.secret),
            rule: judgement
                .map_or("the run has ended", |judgement| judgement.rule)
                .to_owned(),
            line: row.and_then(|row| task.screen.rows.get(row)).cloned(),
            line_y: row.and_then(|row| u32::try_from(row).ok()),
            quiet_ms: None,
            cursor_x: task.screen.cursor.map(|cursor| cursor.x),
            cursor_y: task.screen.cursor.map(|cursor| cursor.y),
            alternate_on: task.screen.alternate,
            terminal: terminal.cloned(),
            read: terminal.and_then(|terminal| terminal.read),
            next_restart: None,
            cannot_restart: None,
        }
    }
}
