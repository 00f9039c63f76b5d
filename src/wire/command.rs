//! What commands ask of a daemon: to start a task, to type into one.

use serde::{Deserialize, Serialize};

use crate::model::{Millis, StatusCounts};

/// A task that is to be started, or run again in its slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// The task's name.
    pub name: String,
    /// How the launch is recognised in tmux; no other launch has it. ASCII letters, digits and `-`.
    pub token: String,
    /// What the pane runs. The environment is in a file that these words name: no value of it is
    /// here.
    pub words: Vec<String>,
    /// The command as a person reads it, one line.
    pub command: String,
    /// Where the command runs, an absolute path.
    pub cwd: String,
    /// Whose command asks for it; `None` for a person at a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was asked for, milliseconds since 1970.
    pub started: Millis,
    /// Whether a live run stays, and the request is refused.
    #[serde(default)]
    pub if_absent: bool,
    /// Whether the command goes on to wait for the run, and will return with what comes of it.
    #[serde(default)]
    pub will_wait: bool,
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchedRun {
    /// The window's id.
    pub window_id: String,
    /// The primary pane's id.
    pub pane_id: String,
    /// Which run of the task it is, from 1.
    pub run: u32,
    /// The beginning of the run's output, for `--since`.
    pub cursor: String,
    /// What was in the slot before; null when the window was made for this run.
    pub replaced: Option<ReplacedRun>,
}

/// What a launch has put an end to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplacedRun {
    /// A run that was alive.
    Live,
    /// A window whose run had ended.
    Dead,
}

/// Something that is to be typed into a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The task, by name or window id.
    pub task: String,
    /// What is typed.
    pub input: TypedInput,
    /// Whether Enter follows a text.
    #[serde(default)]
    pub enter: bool,
    /// Only while the task asks exactly this; a secret only where it is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_prompt: Option<String>,
}

/// What is typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TypedInput {
    /// A text, letter by letter.
    Text(String),
    /// Keys, by tmux's names.
    Keys(Vec<String>),
    /// A text that must be seen nowhere.
    Secret(SecretText),
}

/// A text that must be seen nowhere: no log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(..)")
    }
}

/// How many tasks there are of each sort. Every task is in exactly one count, but for `stalled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCounts {
    /// Whether the session exists.
    pub exists: bool,
    /// Alive and not waiting.
    pub running: usize,
    /// Alive and waiting for a person.
    pub waiting: usize,
    /// Ended.
    pub dead: usize,
    /// Of those that run: silent for long, and nothing tells whether they wait.
    #[serde(default)]
    pub stalled: usize,
}

impl From<StatusCounts> for TaskCounts {
    fn from(counts: StatusCounts) -> Self {
        let StatusCounts {
            exists,
            running,
            waiting,
            dead,
            stalled,
        } = counts;
        Self {
            exists,
            running,
            waiting,
            dead,
            stalled,
        }
    }
}

impl From<TaskCounts> for StatusCounts {
    fn from(counts: TaskCounts) -> Self {
        let TaskCounts {
            exists,
            running,
            waiting,
            dead,
            stalled,
        } = counts;
        Self {
            exists,
            running,
            waiting,
            dead,
            stalled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_in_its_request_and_in_no_log() {
        let request = SendRequest {
            task: "api".to_owned(),
            input: TypedInput::Secret(SecretText("hunter2".to_owned())),
            enter: true,
            if_prompt: None,
        };
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(
            line,
            r#"{"task":"api","input":{"secret":"hunter2"},"enter":true}"#
        );
        assert_eq!(serde_json::from_str::<SendRequest>(&line).unwrap(), request);
        assert!(!format!("{request:?}").contains("hunter2"));
    }
}
