//! What a session has to say to whoever reads the daemon's log.

use crate::model::{PaneId, WindowId};

/// The answer to a request whose job had a [`LogEntry::WrongOutcome`].
pub(super) const WRONG_OUTCOME: &str = "internal error: the outcome does not fit the job";

/// An observation for the daemon's log. The session does not write it: it has no world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogEntry {
    /// A look failed, for another reason than the one before.
    LookFailed {
        /// Why.
        error: String,
    },
    /// A look succeeded after failed ones.
    LooksRecovered,
    /// A safety look found an event that tmux or the kernel should have reported.
    FoundLate,
    /// The link answered a job with an outcome of another kind, which is a bug. The request is
    /// refused with [`WRONG_OUTCOME`].
    WrongOutcome { job: &'static str },
    /// Windows were not marked before their runs were ended.
    NotMarked { error: String },
    /// The session could not be ended after its tasks.
    CleanupFailed {
        /// Why.
        error: String,
    },
    /// A task's output was not searched, because its window was closed.
    NotSearched {
        window: WindowId,
        /// What tmux said.
        error: String,
    },
    /// A pane could not be read.
    PaneNotRead {
        pane: PaneId,
        /// What for.
        purpose: &'static str,
        /// Why.
        error: String,
    },
    /// A pane has another run than the one whose last output was to be read.
    RunReplaced { pane: PaneId },
    /// A task could not be restarted. It is tried again.
    RestartFailed {
        window: WindowId,
        /// Why.
        error: String,
    },
}
