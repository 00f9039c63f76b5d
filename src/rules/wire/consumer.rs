//! Consumers: named readers of the feed whose position is kept.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::environment::covers_name;
use crate::model::{Body, Event, EventType, Kind, Level, Millis, Seq};

/// The beginning of the names of consumers that are sinks.
pub(crate) const SINK_PREFIX: &str = "sink:";

/// The clients that have an adapter. Their owners and consumers are named `CLIENT:ID`.
pub(crate) const ADAPTER_CLIENTS: [&str; 6] =
    ["claude", "codex", "copilot", "opencode", "pi", "qwen"];

/// Returns the client of an owner or of a conversation's consumer, if that has an adapter.
pub(crate) fn client_of(owner: &str) -> Option<&'static str> {
    let (client, _) = owner.split_once(':')?;
    ADAPTER_CLIENTS.into_iter().find(|known| *known == client)
}

/// A request to read the feed as a consumer. Acknowledgements follow on the same connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumeRequest {
    pub name: String,
    /// Where a consumer starts that does not exist yet: at the feed's present end instead of its
    /// first record.
    #[serde(default)]
    pub from_now: bool,
    /// Whether to end the stream of the consumer's present reader, if there is one.
    #[serde(default)]
    pub take_over: bool,
    #[serde(default)]
    pub filter: Filter,
}

/// A line that a consumer sends: this record and all before it were processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The record's sequence number.
    pub ack: Seq,
}

/// How many records a feed can have lost at its end, at most: more than any disk that breaks off has.
const MOST_LOST: Seq = 1 << 32;

/// Whether a feed whose last record is `last_seq` can have had the record `seq` once. If not, the number
/// is damage.
pub(crate) fn can_have_lost(last_seq: Seq, seq: Seq) -> bool {
    seq.saturating_sub(last_seq) <= MOST_LOST
}

/// A consumer as its file in the state folder describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedConsumer {
    /// The version of the file: 1.
    pub v: u32,
    /// The consumer's name.
    pub name: String,
    /// The epoch of the feed that `cursor` refers to.
    pub epoch: String,
    /// The sequence number of the last acknowledged record; 0 for none.
    pub cursor: Seq,
    /// The first follow-up that the consumer's filter left out; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_left_out: Option<Seq>,
    /// When the consumer was created, in milliseconds since 1970.
    pub created_at: Millis,
    /// When it last began to read, acknowledged or stopped reading, in milliseconds since 1970.
    pub used_at: Millis,
    /// The same by the clock of the feed, which nobody can set: what is kept for the consumer depends
    /// on it.
    pub used_after: Millis,
    /// For whom it reads, as its last reader asked.
    pub audience: ConsumerAudience,
}

impl SavedConsumer {
    /// Returns the last acknowledged record of the feed with this epoch and last number.
    ///
    /// A feed that was created again has nothing that was acknowledged. In a feed that lost its end,
    /// the numbers behind the end may be given to other records.
    pub(crate) fn cursor_in(&self, epoch: &str, last_seq: Seq) -> Seq {
        // A cursor far behind the end is damage: what it seems to acknowledge is given again.
        if self.epoch == epoch && can_have_lost(last_seq, self.cursor) {
            self.cursor.min(last_seq)
        } else {
            0
        }
    }

    /// Whether it is a sink, which passes records on and reads none.
    pub(crate) fn is_sink(&self) -> bool {
        self.name.starts_with(SINK_PREFIX)
    }

    /// Returns the record up to which the consumer has read every follow-up of the feed with this
    /// epoch, and its filter left out none.
    pub(crate) fn read_in(&self, epoch: &str) -> Seq {
        let first = self.first_left_out.unwrap_or(Seq::MAX);
        self.cursor_in(epoch, first.saturating_sub(1))
    }
}

/// A consumer as `consumer ls` and `daemon status` show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsumerStatus {
    pub name: String,
    /// The sequence number of the last acknowledged record; 0 for none.
    pub cursor: Seq,
    /// How many records the feed has after it.
    pub lag: Seq,
    /// How many bytes of the feed are kept only because it has not acknowledged their records.
    pub held_bytes: u64,
    /// The process that reads as this consumer now; null when there is none.
    pub reader: Option<u32>,
    pub created_at: Millis,
    pub used_at: Millis,
    pub audience: ConsumerAudience,
}

/// The consumers of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsumerList {
    /// The feed's epoch; null when the feed has no record.
    pub epoch: Option<String>,
    /// The sequence number of the first record that the feed keeps.
    pub first_seq: Seq,
    pub last_seq: Seq,
    /// The size of all of the feed's files in bytes.
    pub feed_bytes: u64,
    pub consumers: Vec<ConsumerStatus>,
}

/// Who reads the messages of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageReaders {
    pub consumers: Vec<ConsumerStatus>,
    /// For whom programs read that are no consumers: for each the owner, null if it reads for all owners.
    pub programs: Vec<Option<String>>,
    /// When the daemon started, in milliseconds since 1970.
    pub daemon_started_at: Millis,
}

/// For whom a consumer reads follow-ups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerAudience {
    /// Whether it reads follow-ups, of all tasks.
    pub follow_ups: bool,
    /// For these owners, of which one may end in `*`; for all of them if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
}

/// Which durable records a reader gets. Empty lists match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filter {
    pub kinds: Vec<Kind>,
    /// Only events of these types and, where `kinds` includes them, deliveries of such events.
    pub types: Vec<EventType>,
    /// Only tasks with these names or window ids, and their deliveries.
    pub tasks: Vec<String>,
    /// Only deliveries for this owner and for everybody. Events are not filtered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether deliveries for everybody do not pass either, where an owner is given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_own: bool,
    /// Only records of these owners, of which one may end in `*`, and of none; those of all if there
    /// is none. Only a sink has this, and what follows.
    #[serde(skip)]
    pub owners: Vec<String>,
    /// Whether records with the level `info` do not pass.
    #[serde(skip)]
    pub only_warnings: bool,
    /// The sequence numbers of the latest events that matched: notices refer to their events by
    /// number.
    #[serde(skip)]
    wanted: BTreeSet<Seq>,
}

/// How many events a filter remembers: a notice is written within one gathering of its events.
const REMEMBERED: u32 = 1000;

impl Filter {
    /// Returns the number after which it has to see the records if those after `after` are asked
    /// for: a notice names its events by number, and only they say which task it is about.
    pub(crate) fn first_seen(&self, after: Seq) -> Seq {
        let chooses_tasks_or_types = !(self.types.is_empty() && self.tasks.is_empty());
        let wants_notices = if self.kinds.is_empty() {
            self.types.is_empty()
        } else {
            self.kinds.contains(&Kind::Notice)
        };
        if chooses_tasks_or_types && wants_notices {
            after.saturating_sub(Seq::from(REMEMBERED))
        } else {
            after
        }
    }

    /// Returns a filter for these kinds, types and tasks.
    pub(crate) fn new(kinds: Vec<Kind>, types: Vec<EventType>, tasks: Vec<String>) -> Self {
        Self {
            kinds,
            types,
            tasks,
            ..Self::default()
        }
    }

    /// Passes only deliveries for this owner and for everybody.
    #[must_use]
    pub(crate) fn for_owner(mut self, owner: Option<String>) -> Self {
        self.owner = owner;
        self
    }

    /// Passes only follow-ups for this owner, and none for everybody.
    pub(crate) fn own_follow_ups(owner: &str) -> Self {
        Self {
            owner: Some(owner.to_owned()),
            only_own: true,
            ..Self::new(vec![Kind::FollowUp], Vec::new(), Vec::new())
        }
    }

    /// Returns for whom follow-ups pass.
    pub(crate) fn audience(&self) -> ConsumerAudience {
        let is_partial = !self.tasks.is_empty() || !self.types.is_empty();
        ConsumerAudience {
            follow_ups: !is_partial
                && (self.kinds.is_empty() || self.kinds.contains(&Kind::FollowUp)),
            owners: self.owner.iter().chain(&self.owners).cloned().collect(),
        }
    }

    /// Whether records of unknown kinds pass.
    pub(crate) fn wants_unknown(&self) -> bool {
        self.kinds.is_empty() && self.types.is_empty() && self.tasks.is_empty()
    }

    /// Whether this record passes. Must be called in the order of sequence numbers.
    pub(crate) fn wants(&mut self, seq: Seq, body: &Body) -> bool {
        let kind_wanted = if self.kinds.is_empty() {
            self.types.is_empty() || body.kind() == Kind::Event
        } else {
            self.kinds.contains(&body.kind())
        };
        let wanted = self.types.is_empty() && self.tasks.is_empty()
            || match body {
                Body::Event(event) => self.wants_event(seq, event),
                Body::Notice { events, .. } => events.iter().any(|seq| self.wanted.contains(seq)),
                Body::FollowUp { message, .. } => message
                    .details
                    .events
                    .iter()
                    .any(|event| self.matches(event)),
            };
        let (level, owner) = match body {
            Body::Event(event) => (event.level(), &event.task.owner),
            Body::Notice { level, owner, .. } | Body::FollowUp { level, owner, .. } => {
                (*level, owner)
            }
        };
        let is_theirs = self.owner.is_none()
            || match owner {
                _ if body.kind() == Kind::Event => true,
                Some(_) => *owner == self.owner,
                None => !self.only_own,
            };
        let is_covered = |owner: &String| {
            self.owners
                .iter()
                .any(|pattern| covers_name(pattern, owner))
        };
        let is_for_sink = (self.owners.is_empty() || owner.as_ref().is_none_or(is_covered))
            && (!self.only_warnings || level == Level::Warning);
        kind_wanted && wanted && is_theirs && is_for_sink
    }

    fn wants_event(&mut self, seq: Seq, event: &Event) -> bool {
        let wanted = self.matches(event);
        if wanted {
            self.wanted.insert(seq);
            if self.wanted.len() > REMEMBERED as usize {
                self.wanted.pop_first();
            }
        }
        wanted
    }

    fn matches(&self, event: &Event) -> bool {
        let mut tasks = self.tasks.iter();
        (self.types.is_empty() || self.types.contains(&event.event_type()))
            && (self.tasks.is_empty() || tasks.any(|name| event.task.is_called(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::check_consumer_name;
    use crate::model::test_notation::saved_consumer;

    #[test]
    fn a_name_can_be_a_file_name() {
        for name in ["a", "pi-1", "A.b_c", "claude:9b05-2c", &"x".repeat(120)] {
            assert_eq!(check_consumer_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(121);
        for name in ". .. -x _x a/b ä :x"
            .split(' ')
            .chain(["", "a b", "a\n", &long])
        {
            assert!(check_consumer_name(name).is_err(), "{name}");
        }
        let why = check_consumer_name("a\n\u{1b}[31m").unwrap_err();
        assert!(!why.contains(['\n', '\u{1b}']), "{why}");
    }

    #[test]
    fn a_cursor_of_another_feed_acknowledges_nothing_of_this_one() {
        for (cursor, epoch, last, expected) in [
            (12, "e", 20, 12),
            // The feed lost its end: record 11 will be another one.
            (12, "e", 10, 10),
            (12, "f", 20, 0),
            // Damaged.
            ((1 << 32) + 21, "e", 20, 0),
            (Seq::MAX, "e", 20, 0),
        ] {
            let found = saved_consumer("pi", cursor).cursor_in(epoch, last);
            assert_eq!(found, expected, "{cursor} {epoch}");
        }
    }
}
