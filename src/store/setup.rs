//! The initial state of a store.

use std::path::PathBuf;

use crate::model::Seq;
use crate::store::feed::{Ages, Journal, PendingEvents, Retention};

#[derive(Debug)]
pub(crate) struct StoreSetup {
    /// The feed.
    pub(crate) journal: Journal,
    /// The feed's epoch.
    pub(crate) epoch: String,
    /// The session's name.
    pub(crate) session_name: String,
    /// The sequence number of its last record.
    pub(crate) last_seq: Seq,
    /// What the feed leaves open.
    pub(crate) pending: PendingEvents,
    /// What is kept of the feed.
    pub(crate) retention: Retention,
    /// How old the feed's segments are.
    pub(crate) ages: Ages,
    /// The file of the saved snapshot.
    pub(crate) saved: PathBuf,
    /// The folder with the consumers of the feed.
    pub(crate) consumers: PathBuf,
}
