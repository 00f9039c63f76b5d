//! Messages that an adapter has given up: they were handed over, and the conversation never got them.

use serde::{Deserialize, Serialize};

use super::{DurableRecord, RecordBody, parse_rfc3339};
use crate::model::{Millis, Seq};

/// How many messages of one consumer are kept, the last ones.
const KEPT: usize = 100;

/// The messages that the adapter of one consumer has given up: its file in the state folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenUp {
    /// The epoch of the feed that the sequence numbers refer to.
    pub epoch: String,
    /// The messages, in the order of their numbers.
    pub messages: Vec<GivenUpMessage>,
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GivenUpMessage {
    /// Its sequence number.
    pub seq: Seq,
    /// When it was recorded, in milliseconds since 1970: since then it is undelivered.
    pub since: Millis,
    /// When it was given up, in milliseconds since 1970.
    pub given_up_at: Millis,
    /// The windows of its tasks.
    pub windows: Vec<String>,
}

impl GivenUp {
    /// Adds a message, if this record is one. Messages of another feed are forgotten.
    pub fn add(&mut self, record: &DurableRecord, now: Millis) {
        let RecordBody::FollowUp { message, .. } = &record.body else {
            return;
        };
        if self.epoch != record.epoch {
            self.epoch.clone_from(&record.epoch);
            self.messages.clear();
        }
        if self.messages.iter().any(|one| one.seq == record.seq) {
            return;
        }
        let events = message.details.events.iter();
        let mut windows: Vec<_> = events.map(|event| event.task.window_id.clone()).collect();
        windows.dedup();
        self.messages.push(GivenUpMessage {
            seq: record.seq,
            since: parse_rfc3339(&record.time).unwrap_or(now),
            given_up_at: now,
            windows,
        });
        self.messages.sort_by_key(|one| one.seq);
        let surplus = self.messages.len().saturating_sub(KEPT);
        self.messages.drain(..surplus);
    }

    /// Forgets these messages: the conversation has got them after all.
    pub fn remove(&mut self, seqs: &[Seq]) {
        self.messages.retain(|one| !seqs.contains(&one.seq));
    }
}
