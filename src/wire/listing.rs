//! The output of `ls --json`: the tasks with their states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeliveryStatus, SnapshotLine, TaskFields};
use crate::model::{Millis, NextRestart, Task, shown_by_wire_name};

/// A task in the output of `ls --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LsTask {
    /// The task's window.
    #[serde(flatten)]
    pub task: TaskFields,
    /// Its state, in one word.
    pub state: TaskStateName,
    /// Whether tmux has given the window its name, after the program that runs in it: a window that a
    /// user opened. Absent: somebody has named it, or a launcher has started a task in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "bool")]
    pub named_by_tmux: bool,
    /// Whether a user has linked the window from another session, which it belongs to. Absent: it is of
    /// this session only, or a launcher has started a task in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "bool")]
    pub linked: bool,
    /// The prompt that it waits at, once reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// How long its screen has not changed, in milliseconds, where that is as long as the
    /// configuration says and no evidence says whether it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_ms: Option<u64>,
    /// How long its present run usually takes, in milliseconds: the median of its last runs that
    /// ended with code 0. Absent where it has ended, where fewer than two such runs are known, and
    /// without a daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_ms: Option<Millis>,
    /// The restart that it waits for. Absent: it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_restart: Option<NextRestart>,
    /// Why it is not run again, although it has failed and `--restart` was given. Absent: there is no
    /// such reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_restart: Option<String>,
    /// Whether the messages about it were delivered. Absent where there are none, or where it has no
    /// owner and nothing reads messages; only in `ls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeliveryStatus")]
    pub delivery: Option<DeliveryStatus>,
}

impl LsTask {
    /// Returns a task with its prompt, and with how long its screen has not changed where that
    /// counts as stalled.
    pub fn new(task: TaskFields, waiting_for: Option<String>, stalled_ms: Option<u64>) -> Self {
        let state = match (task.dead, &task.exit_signal) {
            (true, Some(_)) => TaskStateName::Killed,
            (true, None) => TaskStateName::Exited,
            (false, _) if task.queued => TaskStateName::Queued,
            (false, _) if waiting_for.is_some() => TaskStateName::Waiting,
            (false, _) if task.shell => TaskStateName::Shell,
            (false, _) if stalled_ms.is_some() => TaskStateName::Stalled,
            (false, _) => TaskStateName::Running,
        };
        Self {
            task,
            state,
            named_by_tmux: false,
            linked: false,
            waiting_for,
            stalled_ms,
            next_restart: None,
            cannot_restart: None,
            usual_ms: None,
            delivery: None,
        }
    }

    /// Returns the task with the restart that follows its failed run, or why none does.
    #[must_use]
    pub fn with_restart(self, next: Option<NextRestart>, cannot_restart: Option<String>) -> Self {
        Self {
            state: next.map_or(self.state, |_| TaskStateName::Restarting),
            next_restart: next,
            cannot_restart,
            ..self
        }
    }

    /// Returns its state as a list shows it: `stopped` is no state of its own, because such a task may
    /// wait for input as well.
    pub fn state_word(&self) -> String {
        if self.task.stopped && !self.task.dead {
            "stopped".to_owned()
        } else {
            self.state.to_string()
        }
    }

    /// Returns the task with what its name means.
    #[must_use]
    pub fn with_name_of(self, task: &Task) -> Self {
        Self {
            named_by_tmux: task.is_named_by_tmux,
            linked: task.is_linked,
            ..self
        }
    }

    /// Whether this is what a launch of a task of this name finds: not a shell, and not a window that
    /// a user opened and tmux named, or that belongs to another session.
    pub fn is_task_named(&self, name: &str) -> bool {
        self.task.window_name == name && !self.task.shell && !self.named_by_tmux && !self.linked
    }

    /// Returns the task with how long its run usually takes.
    #[must_use]
    pub fn with_usual(self, usual_ms: Option<Millis>) -> Self {
        Self { usual_ms, ..self }
    }
}

/// The state of a task, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TaskStateName {
    /// It runs.
    Running,
    /// It waits for a place in its slot, and has not begun.
    Queued,
    /// It asks for input.
    Waiting,
    /// It has ended by itself, with or without a known code.
    Exited,
    /// A signal ended it.
    Killed,
    /// Its run has failed, and it is about to be run again.
    Restarting,
    /// It runs, its screen has not changed for long, and no evidence says whether it waits.
    Stalled,
    /// It is a shell, and asks for nothing.
    Shell,
}

shown_by_wire_name!(TaskStateName);

/// The output of `ls --json`: a snapshot, with the prompt of each waiting task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LsView {
    /// The task session.
    pub session_name: String,
    /// Whether it exists.
    pub exists: bool,
    /// Whether a daemon supervises the session. Without one, waiting is judged by the screen alone.
    pub supervised: bool,
    /// When the look was taken, in milliseconds since 1970.
    pub captured_at: Millis,
    /// The tasks, by window.
    pub tasks: Vec<LsTask>,
}

impl LsView {
    /// Returns a daemon's view of a snapshot. `listed` adds what is known of each task besides.
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
