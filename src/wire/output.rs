//! The output of tasks, as requests ask for it and answers have it.

use serde::{Deserialize, Serialize};

use crate::model::{Millis, NextRestart, Prompt, PromptKind, ReadCall, Task, TtyEvidence};
use crate::prompt::Judgement;

/// A request for the output of a task's present run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRequest {
    /// The task, by name or window id.
    pub task: String,
    /// Whether escape sequences are included.
    #[serde(default)]
    pub raw: bool,
    /// Only the output after this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How many lines are wanted: the last ones; all if absent. From a cursor on, all of them are
    /// always returned, and so they are by daemons that do not know this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// How many rows of the history are read at most, besides the screen; all of them if absent.
    /// From a cursor on, all of them are always read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_rows: Option<usize>,
}

/// The output of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskLog {
    /// The window's id.
    pub window_id: String,
    /// The task's name.
    pub window_name: String,
    /// The number of the run.
    pub run: Option<u32>,
    /// Its lines.
    pub lines: Vec<String>,
    /// The end of the output, for `--since`; null for an earlier run.
    pub cursor: Option<String>,
    /// Whether lines may be missing, at the beginning or behind the first lines. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_lack_beginning: bool,
    /// Behind how many of the lines; absent: at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_after: Option<usize>,
    /// Whether the task is gone, and this is its last stored run. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl TaskLog {
    /// Returns that it is of this run because the task is gone, if it is.
    pub fn gone_words(&self) -> Option<String> {
        let (name, run) = (&self.window_name, self.run.filter(|_| self.gone)?);
        Some(format!(
            "{name} is gone; this is its last stored run, {run}"
        ))
    }

    /// Drops all but the last lines.
    #[must_use]
    pub fn last(mut self, most: usize) -> Self {
        let n_dropped = self.lines.len().saturating_sub(most);
        self.lines.drain(..n_dropped);
        if n_dropped > 0 {
            let gap = self.gap_after.filter(|gap| *gap > n_dropped);
            self.may_lack_beginning &= gap.is_some();
            self.gap_after = gap.map(|gap| gap - n_dropped);
        }
        self
    }

    /// Says where lines are missing, if they are.
    pub fn missing(&self) -> Option<String> {
        let gap = self.gap_after.unwrap_or_default();
        self.may_lack_beginning
            .then(|| missing_lines(&self.window_name, gap))
    }
}

/// Says where lines of a task's output are missing: behind so many, or at the beginning.
pub fn missing_lines(name: &str, gap_after: usize) -> String {
    match gap_after {
        0 => format!("the beginning of the output of `{name}` may be missing"),
        line => format!("output of `{name}` is missing after line {line}"),
    }
}

/// A request to find a pattern in the output of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchRequest {
    /// The task, by name or window id; all tasks if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The text or regular expression.
    pub pattern: String,
    /// Whether it is a regular expression.
    #[serde(default)]
    pub regex: bool,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The lines, by window and line number.
    pub matches: Vec<SearchMatch>,
    /// Says of which tasks lines are missing, and where. Absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchMatch {
    /// The window's id.
    pub window_id: String,
    /// The task's name.
    pub window_name: String,
    /// The number of the run.
    pub run: Option<u32>,
    /// The line number in what `logs` prints, from 1.
    pub line_number: usize,
    /// The line.
    pub line: String,
    /// Whether lines of the task's output may be missing. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_lack_beginning: bool,
}

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
