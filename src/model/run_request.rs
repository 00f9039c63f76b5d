//! A task to start.

use serde::{Deserialize, Serialize};

use super::{Millis, NotifyOn, Replaces, Slot, StopSettings, TaskRestarts};

/// A request to start a task, or to run it again in its slot: everything that tmux needs for it. None of
/// it is secret: the environment is in the task's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// The task's name.
    pub name: String,
    /// Identifies the launch in tmux; unique. ASCII letters, digits and `-`.
    pub token: String,
    /// The command line of the pane. Its last word is the path of the task's file.
    pub words: Vec<String>,
    /// The command for display, one line.
    pub command: String,
    /// The record of the exact command, for another run.
    pub record: String,
    /// Where the command runs, an absolute path.
    pub cwd: String,
    /// The owner that the command belongs to; `None` for a user at a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was requested, in milliseconds since 1970.
    pub started: Millis,
    /// The last number that a run of this name has had; 0 if there was none. Not serialised: who starts
    /// the run knows it.
    #[serde(skip)]
    pub last_run: u32,
    /// Which run it may replace. It fails if there is another one.
    pub replaces: Replaces,
    /// When it is run again by itself; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<TaskRestarts>,
    /// How it is ended.
    #[serde(default, skip_serializing_if = "StopSettings::is_unset")]
    pub stop: StopSettings,
    /// The lines that its owner is notified of; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_on: Option<NotifyOn>,
    /// The slot in which it runs; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Whether the command will wait for the run and return with its events.
    pub will_wait: bool,
}

impl RunRequest {
    /// Returns the path of the task's file.
    pub fn file(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }
}
