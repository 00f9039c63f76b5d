//! The jobs of the writing thread, and its reports.

use tokio::sync::oneshot;

use crate::model::{Bookmark, Record, Seq, Snapshot, StatusCounts};
use crate::wire::Context;

/// A job of the writing thread. Jobs are done in order.
#[derive(Debug)]
pub(super) enum StoreJob {
    /// Append these records: after a crash all of them are there or none.
    Append(Vec<Record>, Box<Context>),
    /// Publish the counts once all earlier jobs are written.
    Status(StatusCounts),
    /// Replace the saved snapshot once all earlier jobs are written.
    Save(Box<SavedLook>),
    /// Try once more to write what the disk refused, and answer.
    Close(oneshot::Sender<()>),
}

/// The state from which the next daemon continues.
#[derive(Debug)]
pub(crate) struct SavedLook {
    /// The last look.
    pub(crate) snapshot: Snapshot,
    /// How much of tmux's data had been processed by then.
    pub(crate) bookmark: Bookmark,
    /// The sequence number of the first event that is not delivered yet.
    pub(crate) first_undelivered: Option<Seq>,
}

/// The progress of the writing thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoreReport {
    /// The sequence number of the last record that is on the disk.
    pub(crate) written: Seq,
    /// The sequence number of the last record that the disk has accepted or refused.
    pub(crate) tried: Seq,
    /// Why the disk refused; `None` while it accepts everything.
    pub(crate) problem: Option<String>,
    /// Whether so much was refused that recording should stop.
    pub(crate) is_full: bool,
    /// The counts that were published last.
    pub(crate) counts: Option<StatusCounts>,
}
