//! Looks as programs see them: the input of `replay`, and the output of `ls --json`, where a task has
//! what is derived of it besides.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::*;

/// A task in the output of `ls --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LsTask {
    /// The task's window.
    // Shared, because few tasks change between looks.
    #[serde(flatten)]
    #[schemars(with = "Task")]
    pub task: Arc<Task>,
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
}

impl LsTask {
    pub(crate) fn new(task: impl Into<Arc<Task>>, waiting_for: Option<String>) -> Self {
        let task = task.into();
        let state = match task.exit() {
            Some(exit) if exit.signal.is_some() => TaskStateName::Killed,
            Some(_) => TaskStateName::Exited,
            None if task.queued => TaskStateName::Queued,
            None if waiting_for.is_some() => TaskStateName::Waiting,
            None if task.shell => TaskStateName::Shell,
            None => TaskStateName::Running,
        };
        Self {
            state,
            named_by_tmux: task.is_named_by_tmux,
            linked: task.is_linked,
            task,
            waiting_for,
            next_restart: None,
            cannot_restart: None,
            usual_ms: None,
        }
    }

    /// Returns the task with the restart that follows its failed run, or why none does.
    #[must_use]
    pub(crate) fn with_restart(
        self,
        next: Option<NextRestart>,
        cannot_restart: Option<String>,
    ) -> Self {
        Self {
            state: next.map_or(self.state, |_| TaskStateName::Restarting),
            next_restart: next,
            cannot_restart,
            ..self
        }
    }

    /// Returns its state as a list shows it: `stopped` is no state of its own, because such a task may
    /// wait for input as well.
    pub(crate) fn state_word(&self) -> String {
        if self.task.stopped.is_some() && self.task.is_alive() {
            "stopped".to_owned()
        } else {
            self.state.to_string()
        }
    }

    /// Whether its run has failed, and no other follows by itself.
    pub(crate) fn has_failed(&self) -> bool {
        !self.task.is_alive() && self.next_restart.is_none() && self.task.exit_code() != Some(0)
    }

    /// Returns when its run ended or, while it lives, began.
    #[cfg(any(feature = "mcp", feature = "panel"))]
    pub(crate) fn since(&self) -> Option<Millis> {
        let ended = self.task.ended_at.filter(|_| !self.task.is_alive());
        ended.or(self.task.started_at)
    }

    /// Whether this is what a launch of a task of this name finds: not a shell, and not a window that
    /// a user opened and tmux named, or that belongs to another session.
    pub(crate) fn is_task_named(&self, name: &str) -> bool {
        self.task.name == name && !self.task.shell && !self.named_by_tmux && !self.linked
    }

    /// Whether it looks the same as another.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let at = |task: &Self| task.next_restart.map(|next| next.at);
        (Arc::ptr_eq(&self.task, &other.task) || self.task == other.task)
            && self.waiting_for == other.waiting_for
            && self.usual_ms == other.usual_ms
            && at(self) == at(other)
            && self.cannot_restart == other.cannot_restart
    }
}

/// The tasks of a session, for those who show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskBoard {
    pub exists: bool,
    pub tasks: BTreeMap<WindowId, LsTask>,
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
    /// It is a shell, and asks for nothing.
    Shell,
}

shown_by_wire_name!(TaskStateName);

/// The output of `ls --json`: a snapshot, with the prompt of each waiting task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LsView {
    pub session_name: String,
    pub exists: bool,
    /// Whether a daemon supervises the session. Without one, waiting is judged by the screen alone.
    pub supervised: bool,
    /// When the look was taken, in milliseconds since 1970.
    pub captured_at: Millis,
    pub tasks: Vec<LsTask>,
}

impl LsView {
    /// Returns the view of a look. `listed` adds what is known of each task.
    pub(crate) fn new(
        look: &Snapshot,
        supervised: bool,
        listed: impl Fn(&Arc<Task>) -> LsTask,
    ) -> Self {
        Self {
            session_name: text::session_name(look.session.as_bytes(), SESSION_CHARS),
            exists: look.exists,
            supervised,
            captured_at: look.captured_at,
            tasks: look.tasks.values().map(listed).collect(),
        }
    }
}

/// Everything observed of the task session at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotLine {
    /// The task session.
    pub session_name: String,
    /// Whether it exists.
    pub exists: bool,
    /// When the look was taken, in milliseconds since 1970.
    pub captured_at: Millis,
    /// The tasks, by window. A window that is listed more than once had several runs since the
    /// previous look; the last one is the present one.
    pub tasks: Vec<Task>,
}

impl From<&Snapshot> for SnapshotLine {
    fn from(snapshot: &Snapshot) -> Self {
        let tasks = snapshot.tasks.values();
        Self {
            session_name: text::session_name(snapshot.session.as_bytes(), SESSION_CHARS),
            exists: snapshot.exists,
            captured_at: snapshot.captured_at,
            tasks: tasks.map(|task| Task::clone(task)).collect(),
        }
    }
}

impl SnapshotLine {
    /// Returns the snapshot.
    /// Fails if a session that does not exist has tasks.
    pub fn to_snapshot(&self) -> Result<Snapshot, String> {
        let session = text::session_name(self.session_name.as_bytes(), SESSION_CHARS);
        let mut snapshot = Snapshot {
            exists: self.exists,
            ..Snapshot::missing(session, self.captured_at)
        };
        if !self.exists && !self.tasks.is_empty() {
            return Err("tasks: a session that does not exist has none".to_owned());
        }
        for task in &self.tasks {
            let task = Arc::new(task.clone());
            if let Some(earlier) = snapshot.tasks.insert(task.window, task) {
                snapshot.ended.push(Arc::unwrap_or_clone(earlier));
            }
        }
        Ok(snapshot)
    }
}
