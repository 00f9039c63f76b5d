//! The job that runs a task again, and its result.

use std::sync::Arc;

use crate::model::Task;

/// A task that is to be run again because its run has failed.
#[derive(Debug)]
pub(crate) struct DueRestart {
    /// The task, as it was at the end of its run.
    pub(crate) task: Arc<Task>,
    /// Which restart in a row this is, from 1.
    pub(crate) number: u32,
    /// The session's present name.
    pub(crate) session_name: String,
}

/// The result of a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RestartEnd {
    /// The task runs.
    Started,
    /// Nothing was started, because the window seemed to have changed: a look shows whether it has.
    Superseded,
    /// It can never succeed, for this reason.
    Impossible(String),
}
