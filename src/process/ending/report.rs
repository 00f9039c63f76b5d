//! What the thread that ends runs reports.

use crate::model::{LeftProcess, WindowId};

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndReport {
    /// These processes have not ended after a second.
    Waiting(WindowId, Vec<LeftProcess>),
    /// It has ended, or what is left of it cannot be ended.
    Ended(WindowId, Vec<LeftProcess>),
}
