//! The state that a daemon saves, from which the next one continues.

use serde::{Deserialize, Serialize};

use super::SnapshotLine;
use crate::model::{Bookmark, DeliveredEvent, Event, FEED_VERSION, Seq, SessionLife, Snapshot};

/// The last look, and the last record that it includes: later ones are applied at the next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedSession {
    /// The version of this file: 1.
    pub v: u32,
    /// The epoch of the feed that the sequence number below belongs to.
    pub epoch: String,
    /// The sequence number of the last record whose change is in the snapshot.
    pub last_seq: Seq,
    /// The life of the session.
    pub life: Option<SessionLife>,
    /// How much of tmux's data had been processed by then.
    #[serde(flatten)]
    pub bookmark: Bookmark,
    /// The last look.
    pub snapshot: SnapshotLine,
    /// What the feed says up to `lastSeq`, so that the next daemon reads only what follows. Absent
    /// while the feed has no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<SavedFeed>,
}

/// The state of the feed at one of its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedFeed {
    /// The file with that record, by the number of the file's first record.
    pub segment: Seq,
    /// The byte behind that record in its file.
    pub end: u64,
    /// Events that are not delivered yet: no notice and no follow-up contains them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<DeliveredEvent>,
    /// The `input` events of tasks that still wait for input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Event>,
    /// The `exited` events of tasks that are about to be restarted: they were not delivered as failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarting: Vec<DeliveredEvent>,
}

impl SavedSession {
    /// Returns the state to save for this look.
    pub fn new(snapshot: &Snapshot, bookmark: &Bookmark, epoch: &str, last_seq: Seq) -> Self {
        Self {
            v: FEED_VERSION,
            epoch: epoch.to_owned(),
            last_seq,
            life: snapshot.life.clone(),
            bookmark: bookmark.clone(),
            snapshot: SnapshotLine::from(snapshot),
            feed: None,
        }
    }

    /// Checks that the sequence numbers are some that this feed can have had.
    ///
    /// # Errors
    ///
    /// When one is not; the text names it.
    pub fn check_numbers(&self) -> Result<(), String> {
        let feed = self.feed.iter();
        let events = feed.flat_map(|feed| feed.undelivered.iter().chain(&feed.restarting));
        for number in events.map(|event| event.seq) {
            if !(1..=self.last_seq).contains(&number) {
                let last = self.last_seq;
                return Err(format!(
                    "it has an event {number}, and its last record is {last}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the look that was saved; an error names what cannot be read.
    pub fn to_snapshot(&self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot.to_snapshot()?;
        snapshot.life.clone_from(&self.life);
        Ok(snapshot)
    }
}
