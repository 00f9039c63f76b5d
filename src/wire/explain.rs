//! Why a task is or is not taken to wait for a person, as `explain` tells it.

use serde::{Deserialize, Serialize};

use super::PromptKindName;
use crate::model::{Millis, Prompt, Task, TtyEvidence};
use crate::prompt::Judgement;

/// Everything that the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The window's id.
    pub window_id: String,
    /// Its name.
    pub window_name: String,
    /// How it stands.
    pub state: ExplainedState,
    /// Since when, milliseconds since 1970; null where it is not, or since before a restart.
    pub waiting_since: Option<Millis>,
    /// What was decided of the screen as it stands.
    pub asks: bool,
    /// The line that asks.
    pub prompt: Option<String>,
    /// What sort of answer it wants.
    pub prompt_kind: Option<PromptKindName>,
    /// Whether the answer must not be shown.
    pub secret: Option<bool>,
    /// The rule that decided.
    pub rule: String,
    /// The line that was looked at.
    pub line: Option<String>,
    /// The row of that line within what was captured.
    #[serde(default)]
    pub line_y: Option<u32>,
    /// For how long the screen has stood, milliseconds; null without a daemon.
    pub quiet_ms: Option<u64>,
    /// The cursor's column.
    pub cursor_x: Option<u32>,
    /// The cursor's row within what was captured.
    pub cursor_y: Option<u32>,
    /// Whether a full-screen program has the alternate screen.
    pub alternate_on: Option<bool>,
    /// What the kernel tells; null where it tells nothing, or was not asked as output moves.
    pub terminal: Option<TerminalFields>,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ExplainedState {
    /// The run has ended.
    Ended,
    /// It does not wait for a person.
    Working,
    /// It has shown nothing new for as long as the configuration says, and nothing tells whether it
    /// waits.
    Stalled,
    /// It asks something that is not told, because its screen has not stood long enough or nobody
    /// watches.
    Asking,
    /// It asks something that the configuration keeps quiet.
    Muted,
    /// It is told as waiting.
    Waiting,
}

/// What the kernel tells of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalFields {
    /// What the foreground programs do with it: `reading`, `polling`, `elsewhere`, `unknown`.
    pub reader: String,
    /// Whether what is typed is shown.
    pub echo: Option<bool>,
    /// Whether it gathers lines.
    pub canonical: Option<bool>,
    /// `command`, `idle` (a shell or interpreter without a command), `unknown`.
    pub foreground: String,
    /// The programs in the foreground.
    pub programs: Vec<String>,
    /// Whether they may only pass on what is typed, to another machine or another terminal.
    #[serde(default)]
    pub may_relay: bool,
}

impl From<&TtyEvidence> for TerminalFields {
    fn from(terminal: &TtyEvidence) -> Self {
        Self {
            reader: terminal.reader.name().to_owned(),
            echo: terminal.echo,
            canonical: terminal.canonical,
            foreground: terminal.foreground.name().to_owned(),
            programs: terminal.programs.clone(),
            may_relay: terminal.may_relay,
        }
    }
}

impl Explanation {
    /// Returns the explanation of how a task's screen was judged; it is not told as waiting yet.
    #[must_use]
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
            prompt_kind: prompt.map(|prompt| prompt.kind.into()),
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
            terminal: terminal.map(TerminalFields::from),
        }
    }
}
