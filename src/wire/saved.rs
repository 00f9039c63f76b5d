//! The state that a daemon saves, from which the next one continues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{EventFields, FollowUps, SavedLife, SnapshotLine};
use crate::model::{Bookmark, Millis, Ordered as _, Seq, SessionLife, Snapshot};

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
    pub life: Option<SavedLife>,
    /// The number of the last death in tmux's record that the snapshot accounts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deaths_read: Option<u64>,
    /// When the task in each window was last launched, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub launched_at: BTreeMap<String, Millis>,
    /// The last number that the runs of each name have had, the name used last being the last; absent in
    /// files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_numbers: Option<Vec<(String, u32)>>,
    /// The names to which the numbers of present runs belong, where their windows have been renamed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run_names: BTreeMap<String, String>,
    /// The last look.
    pub snapshot: SnapshotLine,
    /// What the feed says up to `lastSeq`, so that the next daemon reads only what follows. Absent in
    /// files of earlier versions, and while the feed has no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<SavedFeed>,
}

/// The state of the feed at one of its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedFeed {
    /// The file with that record, by the number of the file's first record; 0 in files of earlier
    /// versions, which knew one file.
    #[serde(default)]
    pub segment: Seq,
    /// The byte behind that record in its file.
    pub end: u64,
    /// Events that are not delivered yet: no notice and no follow-up contains them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<SavedEvent>,
    /// The `input` events of tasks that still wait for input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<EventFields>,
    /// The `exited` events of tasks that are about to be restarted: they were not delivered as failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarting: Vec<SavedEvent>,
    /// The follow-ups. Absent in files of earlier versions.
    #[serde(default)]
    pub follow_ups: FollowUps,
}

/// An event and its number in the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedEvent {
    /// Its sequence number.
    pub seq: Seq,
    /// The event.
    pub event: EventFields,
}

impl SavedSession {
    /// Returns the state to save for this look.
    #[must_use]
    pub fn new(snapshot: &Snapshot, bookmark: &Bookmark, epoch: &str, last_seq: Seq) -> Self {
        let launched = bookmark.launched_at.iter();
        let names = bookmark.run_names.iter();
        Self {
            v: super::VERSION,
            epoch: epoch.to_owned(),
            last_seq,
            life: snapshot.life.as_ref().map(SavedLife::from),
            deaths_read: bookmark.deaths_read,
            launched_at: launched
                .map(|(window, at)| (window.to_string(), *at))
                .into_map(),
            run_numbers: Some(bookmark.run_numbers.as_slice().to_vec()),
            run_names: names
                .map(|(window, name)| (window.to_string(), name.clone()))
                .into_map(),
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

    /// Returns the life of the session; `None` if there was none at the last look. An error names what
    /// cannot be read.
    pub fn to_life(&self) -> Result<Option<SessionLife>, String> {
        self.life.as_ref().map(SavedLife::to_life).transpose()
    }

    /// Returns the look that was saved; an error names what cannot be read.
    pub fn to_snapshot(&self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot.to_snapshot()?;
        snapshot.life = self.to_life()?;
        Ok(snapshot)
    }

    /// Returns how much of tmux's data had been processed by then.
    #[must_use]
    pub fn bookmark(&self) -> Bookmark {
        let launched = self.launched_at.iter();
        let names = self.run_names.iter();
        let numbers = self.run_numbers.iter().flatten();
        Bookmark {
            deaths_read: self.deaths_read,
            launched_at: launched
                .filter_map(|(window, at)| Some((window.parse().ok()?, *at)))
                .into_map(),
            run_numbers: numbers.map(|(name, run)| (name, *run)).collect(),
            run_names: names
                .filter_map(|(window, name)| Some((window.parse().ok()?, name.clone())))
                .into_map(),
        }
    }
}
