//! Which records a reader of the feed gets.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::model::{Body, Event, EventType, Kind, Seq};

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
    /// Only these kinds.
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
    /// The sequence numbers of the latest events that matched: notices refer to their events by
    /// number.
    #[serde(skip)]
    wanted: BTreeSet<Seq>,
}

/// How many events a filter remembers: a notice is written within one gathering of its events.
const REMEMBERED: u32 = 1000;

/// Whether the owner is one that a pattern stands for: itself, or any owner with its beginning if it
/// ends in `*`.
pub fn is_owner_of(pattern: &str, owner: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => owner.starts_with(start),
        None => owner == pattern,
    }
}

impl Filter {
    /// Returns the number after which it has to see the records if those after `after` are asked
    /// for: a notice names its events by number, and only they say which task it is about.
    pub fn first_seen(&self, after: Seq) -> Seq {
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
    pub fn new(kinds: Vec<Kind>, types: Vec<EventType>, tasks: Vec<String>) -> Self {
        Self {
            kinds,
            types,
            tasks,
            owner: None,
            only_own: false,
            wanted: BTreeSet::new(),
        }
    }

    /// Passes only deliveries for this owner and for everybody.
    #[must_use]
    pub fn for_owner(mut self, owner: Option<String>) -> Self {
        self.owner = owner;
        self
    }

    /// Passes only follow-ups for this owner, and none for everybody.
    pub fn own_follow_ups(owner: &str) -> Self {
        Self {
            owner: Some(owner.to_owned()),
            only_own: true,
            ..Self::new(vec![Kind::FollowUp], Vec::new(), Vec::new())
        }
    }

    /// Returns for whom follow-ups pass.
    pub fn audience(&self) -> ConsumerAudience {
        let is_partial = !self.tasks.is_empty() || !self.types.is_empty();
        ConsumerAudience {
            follow_ups: !is_partial
                && (self.kinds.is_empty() || self.kinds.contains(&Kind::FollowUp)),
            owners: self.owner.clone().into_iter().collect(),
        }
    }

    /// Whether records of unknown kinds pass.
    pub fn wants_unknown(&self) -> bool {
        self.kinds.is_empty() && self.types.is_empty() && self.tasks.is_empty()
    }

    /// Whether this record passes. Must be called in the order of sequence numbers.
    pub fn wants(&mut self, seq: Seq, body: &Body) -> bool {
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
        let is_theirs = match (&self.owner, body) {
            (Some(wanted), Body::Notice { owner, .. } | Body::FollowUp { owner, .. }) => owner
                .as_ref()
                .map_or(!self.only_own, |owner| owner == wanted),
            (Some(_), Body::Event(_)) | (None, _) => true,
        };
        kind_wanted && wanted && is_theirs
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
