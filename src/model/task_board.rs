//! The tasks of a session with what is known of them besides, for those who show them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Millis, NextRestart, Task, WindowId};

/// The tasks of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskBoard {
    /// Whether the session exists.
    pub exists: bool,
    /// By window.
    pub tasks: BTreeMap<WindowId, BoardTask>,
}

/// A task with what is known of it besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardTask {
    /// The task.
    pub task: Arc<Task>,
    /// What it waits for, once that was recorded.
    pub waiting_for: Option<String>,
    /// For how long it has been silent, milliseconds, where it counts as stalled.
    pub stalled_ms: Option<u64>,
    /// How long its run usually takes, in milliseconds, if it lives and that is known.
    pub usual_ms: Option<Millis>,
    /// The restart that it waits for.
    pub next_restart: Option<NextRestart>,
    /// Why it is not run again, although it has failed and is to be restarted then.
    pub cannot_restart: Option<String>,
}

impl BoardTask {
    /// Whether it looks the same as another. That a silence goes on is no difference.
    pub fn is_same(&self, other: &Self) -> bool {
        let at = |task: &Self| task.next_restart.map(|next| next.at);
        (Arc::ptr_eq(&self.task, &other.task) || self.task == other.task)
            && self.waiting_for == other.waiting_for
            && self.stalled_ms.is_some() == other.stalled_ms.is_some()
            && self.usual_ms == other.usual_ms
            && at(self) == at(other)
            && self.cannot_restart == other.cannot_restart
    }
}
