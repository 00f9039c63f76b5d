//! What `ls --json` prints: the tasks, each with its state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SnapshotLine, TaskFields};
use crate::model::Millis;

/// A task as `ls --json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LsTask {
    /// The task.
    #[serde(flatten)]
    pub task: TaskFields,
    /// Its state, in one word.
    pub state: TaskStateName,
    /// What it waits for, once that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// For how long it has shown nothing new, milliseconds, where that is as long as the
    /// configuration says and nothing tells whether it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ms: Option<u64>,
}

impl LsTask {
    /// Returns a task with what is known of it besides: what it waits for, and for how long it has
    /// shown nothing new where that counts as stalled.
    #[must_use]
    pub fn new(task: TaskFields, waiting_for: Option<String>, stalled_ms: Option<u64>) -> Self {
        let state = match (task.dead, &task.exit_signal) {
            (true, Some(_)) => TaskStateName::Killed,
            (true, None) => TaskStateName::Exited,
            (false, _) if waiting_for.is_some() => TaskStateName::Waiting,
            (false, _) if stalled_ms.is_some() => TaskStateName::Stalled,
            (false, _) => TaskStateName::Running,
        };
        Self {
            task,
            state,
            waiting_for,
            stalled_ms,
        }
    }
}

/// The state of a task, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TaskStateName {
    /// It runs.
    Running,
    /// It asks for input.
    Waiting,
    /// It has ended by itself, whether its code is known or not.
    Exited,
    /// A signal has ended it.
    Killed,
    /// It runs, has shown nothing new for long, and nothing tells whether it waits.
    Stalled,
}

impl TaskStateName {
    /// Returns the word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Exited => "exited",
            Self::Killed => "killed",
            Self::Stalled => "stalled",
        }
    }
}

/// What `ls --json` prints: a snapshot, each task with what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LsView {
    /// The task session.
    pub session_name: String,
    /// Whether it exists.
    pub exists: bool,
    /// Whether a daemon supervises the session. Without one, whether a task waits is judged by its
    /// screen alone.
    pub supervised: bool,
    /// When the look was taken, milliseconds since 1970.
    pub captured_at: Millis,
    /// The tasks, by window.
    pub tasks: Vec<LsTask>,
}

impl LsView {
    /// Returns a daemon's view of a snapshot; `listed` adds what is known of each task besides.
    #[must_use]
    pub fn new(line: SnapshotLine, listed: impl Fn(TaskFields) -> LsTask) -> Self {
        let tasks = line.tasks.into_iter().map(listed).collect();
        Self {
            session_name: line.session_name,
            exists: line.exists,
            supervised: true,
            captured_at: line.captured_at,
            tasks,
        }
    }
}
