//! What is asked of the thread that ends runs, and what it reports.

use crate::model::{LeftProcess, StopPlan, WindowId};

/// A run that is to be ended.
#[derive(Debug, Clone)]
pub(crate) struct EndOrder {
    /// Identifies the run in reports.
    pub(crate) window: WindowId,
    /// The process that tmux started in its pane.
    pub(crate) leader: u32,
    /// Whether that process has ended, so that its number may be another's.
    pub(crate) is_over: bool,
    pub(crate) plan: StopPlan,
    /// Whether an earlier daemon has sent the signal.
    pub(crate) is_asked: bool,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndReport {
    /// These processes have not ended after a second.
    Waiting(WindowId, Vec<LeftProcess>),
    /// It has ended, or what is left of it cannot be ended.
    Ended(WindowId, Vec<LeftProcess>),
}
