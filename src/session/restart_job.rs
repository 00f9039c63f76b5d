//! The jobs of restarts: to run a task again, and to remove environments that were kept for it.

use std::collections::BTreeSet;
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

/// Which environments that were kept for restarts are needed, by the tokens of their launches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EnvironmentCleanup {
    /// Launches that tasks of the last look name.
    pub(crate) present: BTreeSet<String>,
    /// Launches that a task named in an earlier look, and none names any more.
    pub(crate) gone: BTreeSet<String>,
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
