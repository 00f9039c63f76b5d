//! When a task that has failed is run again.

use std::time::Duration;

/// When a task is run again by itself: after a run that ended with another code than 0 or by a
/// signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// How often in a row, at least 1.
    pub limit: u32,
    /// The pause before the first restart in a row.
    pub backoff: Duration,
}

impl RestartPolicy {
    /// The largest number of restarts in a row.
    pub const MOST: u32 = 1000;

    /// The longest first pause.
    pub const LONGEST_FIRST: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The policy of a task, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRestarts {
    /// The policy.
    pub policy: RestartPolicy,
    /// How many restarts in a row have led to the present run.
    pub used: u32,
    /// Identifies the launch that set the policy, and the file with its environment. ASCII letters,
    /// digits and `-`.
    pub token: String,
}
