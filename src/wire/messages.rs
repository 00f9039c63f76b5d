//! What is undelivered: of a task, and of a consumer.
//!
//! A message is a follow-up. It is for the conversation that its tasks belong to, or for everybody.
//! Who has acknowledged it, who reads and what was given up decide the word.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::delivery::{DeliveryState, DeliveryStatus};
use super::follow_ups::FollowUps;
use super::{ConsumerStatus, SINK_PREFIX, is_owner_of};
use crate::model::{Millis, Seq};

/// The clients that have an adapter. Their owners and consumers are named `CLIENT:ID`.
pub const ADAPTER_CLIENTS: [&str; 4] = ["claude", "codex", "opencode", "pi"];

/// How long the consumer of a conversation may have no reader, in milliseconds, while its client's
/// adapter is installed: the one of Claude Code reads when a turn ends, and others read again when the
/// conversation is resumed.
const RESUMED_WITHIN: Millis = 24 * 60 * 60 * 1000;

/// How long programs have to connect to a new daemon, in milliseconds.
const CONNECTED_WITHIN: Millis = 60_000;

/// A new consumer of a conversation gets its follow-ups of this time, in milliseconds.
const EARLIER: Millis = 60 * 60 * 1000;

/// What a feed's daemon, or without one its state folder, knows of messages and their readers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    /// The feed's epoch; null when the feed has no record.
    pub epoch: Option<String>,
    /// The follow-ups.
    pub follow_ups: FollowUps,
    /// The consumers.
    pub consumers: Vec<ConsumerStatus>,
    /// For whom programs read now: for each the owner, null if it reads for all owners.
    pub readers: Vec<Option<String>>,
    /// The last follow-up of each owner that was written to a reader for it alone, which acknowledges
    /// nothing.
    pub written: BTreeMap<String, Seq>,
    /// When the daemon started, in milliseconds since 1970; null without one.
    pub daemon_started_at: Option<Millis>,
    /// The clients whose adapters are installed for the user who asks.
    #[serde(skip)]
    pub adapters: Vec<String>,
}

/// How specifically a consumer reads for an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// It is named like the owner, or reads for it alone.
    Own,
    /// It is a sink whose owners include this one.
    Sink,
    /// It reads for all owners.
    All,
}

/// Returns the client of an owner or of a conversation's consumer, if that has an adapter.
pub fn client_of(owner: &str) -> Option<&'static str> {
    let (client, _) = owner.split_once(':')?;
    ADAPTER_CLIENTS.into_iter().find(|known| *known == client)
}

/// Returns how this consumer reads the messages of an owner; `None` if it does not.
fn scope_of(consumer: &ConsumerStatus, owner: &str) -> Option<Scope> {
    let is_sink = consumer.name.starts_with(SINK_PREFIX);
    if !consumer.audience.follow_ups {
        return None;
    }
    match consumer.audience.owners.as_slice() {
        // A log, or what tells the user, where the client has an adapter.
        [] if is_sink && client_of(owner).is_some() => None,
        [] => Some(Scope::All),
        owners => owners
            .iter()
            .any(|pattern| is_owner_of(pattern, owner))
            .then_some(if is_sink { Scope::Sink } else { Scope::Own }),
    }
}

/// Whether a consumer reads the messages that are for everybody.
fn reads_for_everybody(consumer: &ConsumerStatus) -> bool {
    consumer.audience.follow_ups && !consumer.audience.only_own
}

/// Whether the name is that of a conversation of another machine, `MACHINE.CLIENT:ID`. Its adapter is
/// installed there.
fn is_of_other_machine(consumer: &str) -> bool {
    let client = consumer.split(':').next().unwrap_or_default();
    let machine = client
        .rsplit_once('.')
        .map_or(0, |(machine, _)| machine.len() + 1);
    machine > 0 && client_of(&consumer[machine..]).is_some()
}

impl Messages {
    /// Whether something will deliver a message for this owner that is recorded now.
    pub fn can_deliver(&self, owner: &str, now: Millis) -> bool {
        let reads = |reader: &Option<String>| reader.as_ref().is_none_or(|of| of == owner);
        self.readers.iter().any(reads)
            || self
                .consumers
                .iter()
                .any(|consumer| scope_of(consumer, owner).is_some() && self.is_there(consumer, now))
    }

    /// Whether a reader for this owner may connect soon: its adapter is installed, or one has left just
    /// now.
    pub fn is_expected(&self, owner: &str, now: Millis) -> bool {
        let has_left = |consumer: &ConsumerStatus| {
            scope_of(consumer, owner).is_some() && now - consumer.used_at < CONNECTED_WITHIN
        };
        client_of(owner).is_some_and(|client| self.has_adapter(client))
            || self.consumers.iter().any(has_left)
    }

    /// Returns the word for the messages about a task; `None` if there is none that concerns
    /// anybody.
    pub fn of_task(
        &self,
        owner: Option<&str>,
        window: &str,
        now: Millis,
    ) -> Option<DeliveryStatus> {
        let marks = self.follow_ups.about(owner, window);
        marks.and_then(|marks| {
            let (last, _) = marks.last()?;
            self.status(owner, last, |cursor| marks.first_after(cursor), now)
        })
    }

    /// Returns the word for the messages that a consumer reads; `None` if there are none.
    pub fn of_consumer(&self, consumer: &ConsumerStatus, now: Millis) -> Option<DeliveryStatus> {
        let owners = self.follow_ups.owners().filter(|one| match &one.owner {
            Some(owner) => scope_of(consumer, owner).is_some(),
            None => reads_for_everybody(consumer),
        });
        let (mut has_any, mut first) = (false, None);
        for of_owner in owners {
            has_any = true;
            let undelivered = of_owner.all.first_after(consumer.cursor);
            first = [first, undelivered].into_iter().flatten().min();
        }
        match first {
            Some((_, at)) if self.is_there(consumer, now) => {
                Some(DeliveryStatus::since(DeliveryState::Pending, at))
            }
            Some((_, at)) => Some(DeliveryStatus::since(DeliveryState::NotDeliverable, at)),
            None => has_any.then_some(DeliveryStatus::DELIVERED),
        }
    }

    /// Returns the word for messages of this owner, of which `last` is the last one.
    fn status(
        &self,
        owner: Option<&str>,
        last: Seq,
        first_after: impl Fn(Seq) -> Option<(Seq, Millis)>,
        now: Millis,
    ) -> Option<DeliveryStatus> {
        let scoped = self.consumers.iter().filter_map(|consumer| {
            let scope = match owner {
                Some(owner) => scope_of(consumer, owner)?,
                // What has no owner is everybody's.
                None => reads_for_everybody(consumer).then_some(Scope::All)?,
            };
            Some((scope, consumer))
        });
        let mut scoped: Vec<_> = scoped.collect();
        // The last one that has acknowledged is the last of its scope.
        scoped.sort_by_key(|(scope, consumer)| (*scope, consumer.cursor));
        let acknowledged = scoped.iter().map(|(_, consumer)| consumer.cursor).max();
        let since = |state, cursor| {
            let (_, at) = first_after(cursor)?;
            Some(DeliveryStatus::since(state, at))
        };
        for scope in [Scope::Own, Scope::Sink, Scope::All] {
            let of_scope = || scoped.iter().filter(|(of, _)| *of == scope);
            if of_scope().any(|(_, consumer)| consumer.cursor >= last) {
                return Some(DeliveryStatus::DELIVERED);
            }
            let present = of_scope().rfind(|(_, consumer)| self.is_there(consumer, now));
            if let Some((_, consumer)) = present {
                return since(DeliveryState::Pending, consumer.cursor);
            }
        }
        // Nobody follows: a user's own tasks.
        let owner = owner?;
        let (first, at) = first_after(acknowledged.unwrap_or_default())?;
        let is_new_to_adapter = client_of(owner).is_some_and(|client| self.has_adapter(client))
            && !scoped.iter().any(|(scope, _)| *scope == Scope::Own)
            && now - at < EARLIER;
        let reads = |reader: &Option<String>| reader.as_ref().is_none_or(|of| of == owner);
        let state = if is_new_to_adapter {
            DeliveryState::Pending
        } else if self.written.get(owner).is_some_and(|last| first <= *last)
            || self.readers.iter().any(reads)
        {
            DeliveryState::Unknown
        } else {
            DeliveryState::NotDeliverable
        };
        Some(DeliveryStatus::since(state, at))
    }

    /// Whether a consumer is read, or will be.
    fn is_there(&self, consumer: &ConsumerStatus, now: Millis) -> bool {
        let unused = now.saturating_sub(consumer.used_at);
        let has_adapter = client_of(&consumer.name).is_some_and(|client| self.has_adapter(client))
            || is_of_other_machine(&consumer.name);
        let is_resumed = has_adapter && unused < RESUMED_WITHIN;
        // A daemon that has seen no reader of it: programs connect again.
        let is_connecting = match self.daemon_started_at {
            Some(started) => {
                consumer.used_at < started
                    && now - started < CONNECTED_WITHIN
                    && unused < RESUMED_WITHIN
            }
            None => unused < CONNECTED_WITHIN,
        };
        consumer.reader.is_some() || is_resumed || is_connecting
    }

    /// Whether the adapter of this client is installed.
    pub fn has_adapter(&self, client: &str) -> bool {
        self.adapters.iter().any(|one| one == client)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOUR: Millis = 3_600_000;
    const DAY: Millis = 24 * HOUR;

    /// The time, by the clock of a daemon that has run for long.
    const NOW: Millis = 100 * DAY;

    /// A consumer that has acknowledged the records up to `cursor` and was used so long ago.
    fn consumer(name: &str, cursor: Seq, age: Millis, more: Value) -> ConsumerStatus {
        let mut fields = json!({
            "name": name, "cursor": cursor, "lag": 0, "heldBytes": 0, "reader": null, "createdAt": 0,
            "usedAt": NOW - age,
        });
        let fields_mut = fields.as_object_mut().unwrap();
        fields_mut.extend(more.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    fn reads_for(owners: &[&str]) -> Value {
        json!({"reader": 7, "audience": {"followUps": true, "owners": owners}})
    }

    fn left(owners: &[&str]) -> Value {
        json!({"audience": {"followUps": true, "owners": owners}})
    }

    /// Three messages about `@1` for `claude:a`, the last one a minute ago, and one for everybody
    /// about `@2`.
    fn messages(consumers: Vec<ConsumerStatus>) -> Messages {
        let mut follow_ups = FollowUps::default();
        let window = |name: &str| std::iter::once(name.to_owned());
        for (seq, age) in [(2, 2 * HOUR), (4, 3 * 60_000), (6, 60_000)] {
            follow_ups.add(seq, NOW - age, Some("claude:a"), window("@1"));
        }
        follow_ups.add(8, NOW - 1000, None, window("@2"));
        Messages {
            epoch: Some("e".to_owned()),
            follow_ups,
            consumers,
            daemon_started_at: Some(NOW - 90 * DAY),
            ..Messages::default()
        }
    }

    fn own(messages: &Messages) -> Option<String> {
        let status = messages.of_task(Some("claude:a"), "@1", NOW);
        status.map(|status| status.words(NOW))
    }

    fn everybodys(messages: &Messages) -> Option<String> {
        let status = messages.of_task(None, "@2", NOW);
        status.map(|status| status.words(NOW))
    }

    #[track_caller]
    fn check(consumers: Vec<ConsumerStatus>, expected: &str) {
        assert_eq!(own(&messages(consumers)).as_deref(), Some(expected));
    }

    #[test]
    fn a_message_is_delivered_when_its_conversation_has_acknowledged_it() {
        let name = "claude:a";
        check(vec![], "not deliverable 2h");
        check(vec![consumer(name, 6, 0, reads_for(&[name]))], "delivered");
        check(vec![consumer(name, 4, 0, reads_for(&[name]))], "pending 1m");
        check(vec![consumer(name, 2, 0, reads_for(&[name]))], "pending 3m");
        check(vec![consumer(name, 0, 0, reads_for(&[name]))], "pending 2h");
        // It has received all before it left.
        check(vec![consumer(name, 6, DAY, left(&[name]))], "delivered");
    }

    #[test]
    fn a_message_whose_reader_has_gone_is_not_deliverable() {
        for age in [1000, HOUR, 2 * DAY] {
            let gone = |name: &str, more| vec![consumer(name, 2, age, more)];
            check(gone("claude:a", left(&["claude:a"])), "not deliverable 3m");
            check(gone("my-agent", left(&[])), "not deliverable 3m");
        }
    }

    #[test]
    fn an_installed_adapter_reads_when_its_conversation_goes_on() {
        let with_adapter = |client: &str, consumers| {
            let messages = Messages {
                adapters: vec![client.to_owned()],
                ..messages(consumers)
            };
            own(&messages).unwrap()
        };
        let gone = |age| vec![consumer("claude:a", 4, age, left(&["claude:a"]))];
        assert_eq!(with_adapter("claude", gone(HOUR)), "pending 1m");
        assert_eq!(with_adapter("claude", gone(DAY)), "not deliverable 1m");
        assert_eq!(with_adapter("pi", gone(HOUR)), "not deliverable 1m");
        // It has not begun to follow: it then gets the messages of the last hour.
        assert_eq!(with_adapter("claude", vec![]), "not deliverable 2h");
        let mut new = messages(vec![]);
        new.adapters = vec!["claude".to_owned()];
        let window = std::iter::once("@3".to_owned());
        new.follow_ups.add(9, NOW - 1000, Some("claude:b"), window);
        let status = new.of_task(Some("claude:b"), "@3", NOW).unwrap();
        assert_eq!(status.words(NOW), "pending 1s");
    }

    #[test]
    fn the_conversations_own_consumer_decides_before_others() {
        let own = |cursor, more| consumer("claude:a", cursor, 0, more);
        let all = |cursor| consumer("log", cursor, 0, reads_for(&[]));
        let theirs = reads_for(&["claude:a"]);
        check(vec![own(2, theirs.clone()), all(9)], "pending 3m");
        check(vec![own(6, theirs), all(0)], "delivered");
        // Without it, they do.
        check(vec![own(2, left(&["claude:a"])), all(9)], "delivered");
        check(vec![own(2, left(&["claude:a"])), all(4)], "pending 1m");
        check(
            vec![all(0), consumer("other", 0, 0, reads_for(&["pi:1"]))],
            "pending 2h",
        );
    }

    #[test]
    fn who_reads_for_another_owner_or_no_messages_delivers_none() {
        let expected = "not deliverable 2h";
        check(
            vec![consumer("claude:b", 9, 0, reads_for(&["claude:b"]))],
            expected,
        );
        check(
            vec![consumer("claude:b", 9, 0, reads_for(&["claude:b"]))],
            expected,
        );
        let notices = json!({"reader": 7, "audience": {"followUps": false}});
        check(vec![consumer("notices", 9, 0, notices)], expected);
    }

    #[test]
    fn a_conversation_of_another_machine_reads_when_it_is_connected_again() {
        let read = |age| {
            let mut audience = left(&["claude:a"]);
            audience["audience"]["onlyOwn"] = json!(true);
            messages(vec![consumer("laptop.lan.claude:a", 4, age, audience)])
        };
        assert_eq!(own(&read(HOUR)).unwrap(), "pending 1m");
        assert_eq!(own(&read(DAY)).unwrap(), "not deliverable 1m");
        assert!(read(HOUR).can_deliver("claude:a", NOW));
        assert!(!read(HOUR).can_deliver("claude:b", NOW));
        assert_eq!(everybodys(&read(HOUR)), None);
        for name in [
            "claude:a",
            "laptop.gemini:a",
            "laptop:claude:a",
            "claude.a",
            ".",
        ] {
            assert!(!is_of_other_machine(name), "{name}");
        }
    }

    #[test]
    fn sinks_count_for_the_owners_that_they_name() {
        let sink = |cursor, owners: &[&str]| vec![consumer("sink:s", cursor, 0, reads_for(owners))];
        check(sink(9, &["claude:*"]), "delivered");
        check(sink(4, &["pi:*", "claude:a"]), "pending 1m");
        check(sink(9, &["pi:*"]), "not deliverable 2h");
        // A log.
        check(sink(9, &[]), "not deliverable 2h");
        let messages = messages(sink(0, &[]));
        assert!(messages.can_deliver("gemini:api", NOW));
        assert!(!messages.can_deliver("pi:1", NOW));
    }

    #[test]
    fn what_a_reader_without_acknowledgements_got_is_unknown() {
        let mut messages = messages(vec![]);
        messages.readers = vec![Some("pi:1".to_owned())];
        assert_eq!(own(&messages).unwrap(), "not deliverable 2h");
        for reader in [None, Some("claude:a".to_owned())] {
            messages.readers = vec![reader];
            assert_eq!(own(&messages).unwrap(), "unknown 2h");
        }
        // It has left.
        messages.readers.clear();
        messages.written = BTreeMap::from([("pi:1".to_owned(), 9)]);
        assert_eq!(own(&messages).unwrap(), "not deliverable 2h");
        messages.written = BTreeMap::from([("claude:a".to_owned(), 2)]);
        assert_eq!(own(&messages).unwrap(), "unknown 2h");
    }

    #[test]
    fn what_is_everybodys_is_shown_where_somebody_reads() {
        assert_eq!(everybodys(&messages(vec![])), None);
        let of = |cursor, age, more| {
            let consumers = vec![consumer("claude:a", cursor, age, more)];
            everybodys(&messages(consumers))
        };
        let (there, gone) = (reads_for(&["claude:a"]), left(&["claude:a"]));
        assert_eq!(of(6, 0, there.clone()).as_deref(), Some("pending 1s"));
        assert_eq!(of(8, 0, there).as_deref(), Some("delivered"));
        assert_eq!(of(6, HOUR, gone), None);
        let mut watched = messages(vec![]);
        watched.readers = vec![None];
        assert_eq!(everybodys(&watched), None);
        assert_eq!(watched.of_task(None, "@1", NOW), None);
        assert_eq!(watched.of_task(Some("claude:a"), "@9", NOW), None);
    }

    #[test]
    fn a_consumer_is_judged_by_what_it_reads() {
        let of = |one: ConsumerStatus| {
            let status = messages(vec![]).of_consumer(&one, NOW);
            status.map(|status| status.words(NOW))
        };
        let own = |cursor| of(consumer("claude:a", cursor, 0, reads_for(&["claude:a"])));
        assert_eq!(own(8).as_deref(), Some("delivered"));
        assert_eq!(own(4).as_deref(), Some("pending 1m"));
        let gone = consumer("claude:a", 4, HOUR, left(&["claude:a"]));
        assert_eq!(of(gone).as_deref(), Some("not deliverable 1m"));
        // Only what is everybody's is for it.
        let other = consumer("pi:1", 4, 0, reads_for(&["pi:1"]));
        assert_eq!(of(other).as_deref(), Some("pending 1s"));
        let notices = json!({"audience": {"followUps": false}});
        assert_eq!(of(consumer("n", 0, 0, notices)), None);
        let sink = consumer("sink:s", 2, 0, reads_for(&["claude:*"]));
        assert_eq!(of(sink).as_deref(), Some("pending 3m"));
    }

    #[test]
    fn readers_of_the_last_daemon_have_a_minute_to_connect() {
        let with = |started, age| {
            let consumers = vec![consumer("my-agent", 4, age, left(&[]))];
            let messages = Messages {
                daemon_started_at: started,
                ..messages(consumers)
            };
            own(&messages).unwrap()
        };
        let (pending, gone) = ("pending 1m", "not deliverable 1m");
        assert_eq!(with(Some(NOW - 1000), HOUR), pending);
        assert_eq!(with(Some(NOW - 1000), 2 * DAY), gone);
        // It has left this daemon.
        assert_eq!(with(Some(NOW - 2000), 1000), gone);
        assert_eq!(with(Some(NOW - 60_000), HOUR), gone);
        // Without a daemon.
        assert_eq!(with(None, 1000), pending);
        assert_eq!(with(None, HOUR), gone);
    }

    #[test]
    fn a_new_message_is_delivered_where_something_reads_for_its_owner() {
        let can = |consumers, readers: &[Option<&str>]| {
            let readers = readers.iter().map(|reader| reader.map(ToOwned::to_owned));
            let messages = Messages {
                readers: readers.collect(),
                ..messages(consumers)
            };
            messages.can_deliver("claude:a", NOW)
        };
        assert!(!can(vec![], &[]));
        assert!(can(vec![], &[None]));
        assert!(can(vec![], &[Some("pi:1"), Some("claude:a")]));
        assert!(!can(vec![], &[Some("pi:1")]));
        let own = |age, more| vec![consumer("claude:a", 0, age, more)];
        assert!(can(own(0, reads_for(&["claude:a"])), &[]));
        assert!(!can(own(HOUR, left(&["claude:a"])), &[]));
        // The owner's name is none that a consumer can have.
        let odd = messages(vec![consumer("x", 0, 0, reads_for(&["a b"]))]);
        assert!(odd.can_deliver("a b", NOW) && !odd.can_deliver("a c", NOW));
    }
}
