//! The effects that the panel has besides drawing, and their results.

use std::rc::Rc;

use super::board::{SessionKey, TaskKey};
use crate::ops::TaskSession;
use crate::wire::SendRequest;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PanelEffect {
    Quit,
    /// Show the task's window in the user's terminal.
    Attach {
        task: TaskKey,
    },
    /// Type into a task.
    Send {
        session: SessionKey,
        /// The task's name.
        name: String,
        request: SendRequest,
    },
    /// End the task.
    Kill {
        task: TaskKey,
        name: String,
    },
    /// Run the task again.
    Rerun {
        task: TaskKey,
        name: String,
    },
    /// Remove the session's tasks that have ended.
    Prune {
        session: SessionKey,
    },
    /// Find out why the task is or is not judged to wait.
    Explain {
        task: TaskKey,
    },
    /// Read the task's output.
    ReadLog {
        task: TaskKey,
    },
    /// Read the end of the task's output.
    Preview {
        task: TaskKey,
        is_full_screen: bool,
    },
}

impl PanelEffect {
    /// Returns the session that it is for; `None` if it is for none.
    pub(super) fn session(&self) -> Option<SessionKey> {
        match self {
            Self::Quit => None,
            Self::Send { session, .. } | Self::Prune { session } => Some(*session),
            Self::Attach { task }
            | Self::Kill { task, .. }
            | Self::Rerun { task, .. }
            | Self::Explain { task }
            | Self::ReadLog { task }
            | Self::Preview { task, .. } => Some(task.session),
        }
    }
}

/// Where the effects for a session are performed.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Here(Rc<TaskSession>),
    /// The session of this name on a host of the fleet.
    #[cfg(feature = "fleet")]
    Host {
        host: String,
        session: String,
    },
}

/// The result of an effect. An error is one line.
#[derive(Debug)]
pub(super) enum ActionReport {
    /// It was done, or not, and there is something to say.
    Said(Result<String, String>),
    Explained {
        task: TaskKey,
        /// Whether the answer must not be shown, and all that is to be said.
        result: Result<(bool, Vec<String>), String>,
    },
    Log {
        task: TaskKey,
        result: Result<Vec<String>, String>,
    },
    Preview {
        task: TaskKey,
        lines: Vec<String>,
    },
}
