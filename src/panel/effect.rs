//! What the panel does besides drawing, and what came of it.

use crate::wire::{Explanation, SendRequest};

/// What the panel does besides drawing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Quit,
    /// Show this window in the user's terminal.
    Attach {
        window: String,
    },
    /// Type into a task.
    Send {
        /// The task's name.
        name: String,
        request: SendRequest,
    },
    /// End the task.
    Kill {
        window: String,
        name: String,
    },
    /// Run the task again.
    Rerun {
        window: String,
        name: String,
    },
    /// Remove the tasks that have ended.
    Prune,
    /// Find out why the task is or is not judged to wait.
    Explain {
        window: String,
    },
    /// Read the task's output.
    ReadLog {
        window: String,
    },
    /// Read the end of the task's output.
    Preview {
        window: String,
        is_full_screen: bool,
    },
}

/// The result of an effect. An error is one line.
#[derive(Debug)]
pub(super) enum Report {
    /// It was done, or not, and there is something to say.
    Said(Result<String, String>),
    Explained {
        window: String,
        result: Result<(Box<Explanation>, Vec<String>), String>,
    },
    Log {
        window: String,
        result: Result<Vec<String>, String>,
    },
    Preview {
        window: String,
        lines: Vec<String>,
    },
}
