//! Writes the session's observations to the daemon's log.

use crate::session::LogEntry;

/// Writes one entry.
pub(super) fn write(entry: LogEntry) {
    match entry {
        LogEntry::LookFailed { error } => tracing::warn!(error, "a look failed"),
        LogEntry::LooksRecovered => tracing::info!("looks succeed again"),
        LogEntry::FoundLate => {
            tracing::warn!("a safety look found an event that was not reported");
        }
        LogEntry::WrongOutcome { job } => {
            tracing::error!(job, "the outcome of a job is of another kind than the job");
        }
        LogEntry::NotMarked { error } => {
            tracing::warn!(error, "could not mark windows whose runs are ended");
        }
        LogEntry::CleanupFailed { error } => tracing::error!(error, "could not end the session"),
        LogEntry::NotSearched { window, error } => {
            tracing::debug!(error, %window, "a window was closed before it was searched");
        }
        LogEntry::PaneNotRead {
            pane,
            purpose,
            error,
        } => tracing::debug!(error, %pane, purpose, "could not read a pane"),
        LogEntry::RunReplaced { pane } => {
            tracing::debug!(%pane, "a run was replaced before its last output was read");
        }
        LogEntry::RestartFailed { window, error } => {
            tracing::warn!(error, %window, "could not restart a task; trying again");
        }
    }
}
