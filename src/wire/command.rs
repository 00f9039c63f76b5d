//! What commands send to a daemon, and what it answers: a task that was started, text to type.

use serde::{Deserialize, Serialize};

use crate::model::{ReplacedRun, TypedInput};

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchedRun {
    /// The window's id.
    pub window_id: String,
    /// The primary pane's id.
    pub pane_id: String,
    /// The number of the run, from 1.
    pub run: u32,
    /// The start of the run's output, for `--since`.
    pub cursor: String,
    /// What the slot contained before; null when the window was created for this run.
    pub replaced: Option<ReplacedRun>,
}

/// A request to type into a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The task, by name or window id.
    pub task: String,
    /// What to type.
    pub input: TypedInput,
    /// Whether Enter follows a text.
    #[serde(default)]
    pub enter: bool,
    /// Type only while the task shows exactly this prompt, and a secret only while input is not
    /// echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_prompt: Option<String>,
    /// For a caller that may not see what a user would see: refuse a text while it would be a secret,
    /// and anything while the task asks and `if_prompt` is absent. Not serialised: that is a request
    /// of its own, [`Request::SendGuarded`](super::Request::SendGuarded), which a daemon that cannot
    /// do this refuses.
    #[serde(skip)]
    pub is_guarded: bool,
}

impl SendRequest {
    /// Whether it depends on what the task asks.
    pub fn needs_prompt(&self) -> bool {
        self.if_prompt.is_some() || self.is_guarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SecretText;

    #[test]
    fn a_secret_is_in_its_request_and_in_no_log() {
        let request = SendRequest {
            task: "api".to_owned(),
            input: TypedInput::Secret(SecretText("hunter2".to_owned())),
            enter: true,
            if_prompt: None,
            is_guarded: false,
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
