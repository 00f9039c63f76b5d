//! Reads the records of all hosts, as a durable consumer or from a position; and the wakes of a
//! conversation, the follow-ups of its tasks on other hosts.
//!
//! A record's place is its sequence number on the broker. What is acknowledged is so for all places
//! before it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use serde_json::{Value, json};

use super::connection::{ANSWER_LIMIT, Connection, FleetError, KEPT};
use super::layout::{
    FEED_STREAM, WAKE_STREAM, feed_filters, parse, source_of_record, source_of_wake, token,
    wake_consumer, wake_filter,
};
use crate::config::is_host_name;
use crate::model::{EventType, Kind, Record, Seq};
use crate::route;

/// How many records a reader may have that it has not acknowledged; further ones wait.
const MAX_UNACKNOWLEDGED: i64 = 10_000;

/// When a record is sent again that was not acknowledged. The reader has it already.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Which part of a record's subject is its kind.
const KIND_TOKEN: usize = 5;

/// Where a reader starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FeedStart {
    /// With what is published from now on.
    Now,
    /// With the first record that is kept.
    First,
    /// Behind this place.
    After(Seq),
    /// As this consumer, which is created at the first record if there is none.
    Consumer(String),
}

/// What is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeedRequest {
    pub(crate) start: FeedStart,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) types: Vec<EventType>,
}

/// The feed as it was when reading began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeedBounds {
    /// Identifies the feed: another one has another epoch.
    pub(crate) epoch: String,
    /// The place of the first record that is kept, and of the last one.
    pub(crate) first: Seq,
    pub(crate) last: Seq,
    /// The place behind which reading begins.
    pub(crate) after: Seq,
}

impl FeedBounds {
    /// Returns the first and the last of the records that are asked for and no longer kept.
    pub(crate) fn gap(&self) -> Option<(Seq, Seq)> {
        let (from, to) = (self.after + 1, self.first.saturating_sub(1));
        (from <= to).then_some((from, to))
    }
}

/// A record of a host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FleetRecord {
    pub(crate) place: Seq,
    /// The record as the host's feed has it, with `host` and `fleetSeq`.
    pub(crate) fields: Value,
}

/// Reads records until the connection breaks.
pub(crate) struct FeedReader {
    messages: pull::Stream,
    connection: Connection,
    pub(crate) bounds: FeedBounds,
    /// The last record that was returned.
    last: Seq,
    /// What can be acknowledged, by place.
    open: BTreeMap<Seq, Message>,
    is_consumer: bool,
    /// How many of the records that are kept are still to come.
    n_kept: u64,
}

impl FeedReader {
    /// Begins to read. `known` is what was read before on another connection: its records do not come
    /// again.
    pub(crate) async fn begin(
        connection: &Connection,
        request: &FeedRequest,
        known: Option<&Self>,
    ) -> Result<Self, FleetError> {
        let refused = |error: &dyn std::error::Error| connection.unreadable(FEED_STREAM, error);
        let jetstream = &connection.jetstream;
        let stream = jetstream.get_stream(FEED_STREAM).await;
        let stream = stream.map_err(|error| refused(&error))?;
        let info = stream.cached_info();
        let epoch = format!("{:x}", info.created.unix_timestamp_nanos());
        let last = known.filter(|known| known.bounds.epoch == epoch);
        let last = last.map(|known| known.last);
        let (policy, after) = match &request.start {
            // All that the broker has is of after it had lost its stream.
            _ if known.is_some() && last.is_none() => (DeliverPolicy::All, 0),
            FeedStart::After(place) if *place > info.state.last_sequence => {
                return Err(FleetError::Beyond(*place, info.state.last_sequence));
            }
            FeedStart::Now => (DeliverPolicy::New, info.state.last_sequence),
            FeedStart::First => {
                let before = info.state.first_sequence.saturating_sub(1);
                (DeliverPolicy::All, before)
            }
            FeedStart::After(place) => (by_place(*place), *place),
            FeedStart::Consumer(_) => (DeliverPolicy::All, 0),
        };
        let name = match &request.start {
            FeedStart::Consumer(name) => Some(token(name)),
            FeedStart::Now | FeedStart::First | FeedStart::After(_) => None,
        };
        let is_consumer = name.is_some();
        let config = pull::Config {
            durable_name: name.clone(),
            deliver_policy: match (last, is_consumer) {
                (Some(last), false) => by_place(last),
                _ => policy,
            },
            ack_policy: match is_consumer {
                true => AckPolicy::All,
                false => AckPolicy::None,
            },
            ack_wait: AGAIN_AFTER,
            max_ack_pending: MAX_UNACKNOWLEDGED,
            filter_subjects: feed_filters(&request.kinds, &request.types),
            inactive_threshold: match is_consumer {
                true => Duration::ZERO,
                false => 3 * ANSWER_LIMIT,
            },
            ..pull::Config::default()
        };
        let (mut consumer, is_new) = open(connection, config, name.as_deref()).await?;
        if is_consumer {
            // What was delivered and not acknowledged comes again at once. A broker before 2.14 does
            // that only when the time for the acknowledgement is over.
            drop(consumer.reset(None).await);
        }
        // The broker moves it over what it removes: that is not known as a gap then.
        let after = match is_new {
            true => after,
            false => consumer.cached_info().ack_floor.stream_sequence,
        };
        let messages = consumer.stream().max_messages_per_batch(500).messages();
        Ok(Self {
            messages: messages.await.map_err(|error| refused(&error))?,
            connection: connection.clone(),
            bounds: FeedBounds {
                epoch,
                first: info.state.first_sequence,
                last: info.state.last_sequence,
                after,
            },
            last: last.unwrap_or(after),
            open: BTreeMap::new(),
            is_consumer,
            n_kept: consumer.cached_info().num_pending,
        })
    }

    /// Whether all records that there were when reading began have been returned.
    pub(crate) fn is_live(&self) -> bool {
        self.n_kept == 0
    }

    /// Returns the next record of those that there were when reading began; `None` when there are no
    /// more.
    pub(crate) async fn next_kept(&mut self) -> Result<Option<FleetRecord>, FleetError> {
        while !self.is_live() {
            if let Some(record) = self.read().await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Returns the next record.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<FleetRecord, FleetError> {
        loop {
            if let Some(record) = self.read().await? {
                return Ok(record);
            }
        }
    }

    /// Reads a message. Returns its record unless it was returned before, or is none.
    async fn read(&mut self) -> Result<Option<FleetRecord>, FleetError> {
        let message = self.connection.next_message(&mut self.messages).await?;
        let Ok((place, pending)) = message
            .info()
            .map(|info| (info.stream_sequence, info.pending))
        else {
            return Ok(None);
        };
        self.n_kept = self.n_kept.min(pending);
        let record = record(&message, place);
        if self.is_consumer {
            self.open.insert(place, message);
        }
        // One that was not acknowledged comes again.
        let is_new = place > self.last;
        self.last = self.last.max(place);
        Ok(record.filter(|_| is_new))
    }

    /// Acknowledges the record at this place and all before it. Returns when the broker has it.
    pub(crate) async fn acknowledge(&mut self, place: Seq) -> Result<(), FleetError> {
        let Some((last, message)) = self.open.range(..=place).next_back() else {
            return Ok(());
        };
        let last = *last;
        self.connection.acknowledge(message).await?;
        self.open = self.open.split_off(&(last + 1));
        Ok(())
    }
}

fn by_place(place: Seq) -> DeliverPolicy {
    DeliverPolicy::ByStartSequence {
        start_sequence: place + 1,
    }
}

/// Returns the consumer, and whether it is new. One that exists stays where it is, with the filter of
/// this request.
async fn open(
    connection: &Connection,
    config: pull::Config,
    name: Option<&str>,
) -> Result<(Consumer<pull::Config>, bool), FleetError> {
    let jetstream = &connection.jetstream;
    let known = match name {
        Some(name) => jetstream
            .get_consumer_from_stream::<pull::Config, _, _>(name, FEED_STREAM)
            .await
            .ok(),
        None => None,
    };
    let config = match &known {
        Some(known) if known.cached_info().num_waiting > 0 => {
            return Err(FleetError::Taken(name.unwrap_or_default().to_owned()));
        }
        Some(known) => {
            let there = &known.cached_info().config;
            pull::Config {
                deliver_policy: there.deliver_policy,
                ..config
            }
        }
        None => config,
    };
    let opened = jetstream
        .create_consumer_on_stream(config, FEED_STREAM)
        .await;
    let opened = opened.map_err(|error| connection.unreadable(FEED_STREAM, &error))?;
    Ok((opened, known.is_none()))
}

/// Returns a record as it is passed on. The subject says which host it is of: what the host says of
/// itself does not count. What has not the subject's kind is no record.
fn record(message: &Message, place: Seq) -> Option<FleetRecord> {
    let (host, _) = source_of_record(&message.subject).filter(|(host, _)| is_host_name(host))?;
    let mut fields: Value = parse(&message.payload)?;
    let object = fields.as_object_mut()?;
    let kind = object.get("kind")?.as_str()?;
    if message.subject.split('.').nth(KIND_TOKEN)? != kind {
        return None;
    }
    object.insert("host".to_owned(), json!(host));
    object.insert("fleetSeq".to_owned(), json!(place));
    for text in ["/text", "/message/content"] {
        if let Some(Value::String(text)) = fields.pointer_mut(text) {
            *text = route::from_host(text, &host);
        }
    }
    Some(FleetRecord { place, fields })
}

/// For how long a consumer stays that was created to see whether it can be.
const CHECK_FOR: Duration = Duration::from_secs(1);

/// A follow-up of another host.
#[derive(Debug)]
pub(crate) struct Wake {
    /// The host of its subject: what it says of itself does not count.
    pub(crate) host: String,
    pub(crate) record: Record,
}

/// Reads wakes until the connection breaks.
pub(crate) struct WakeReader {
    messages: pull::Stream,
    connection: Connection,
    /// What was not acknowledged, by epoch and sequence number.
    open: BTreeMap<(String, Seq), Message>,
}

impl WakeReader {
    /// Begins to read as the conversation's durable consumer: with what was not acknowledged.
    pub(crate) async fn begin(connection: &Connection, owner: &str) -> Result<Self, FleetError> {
        let refused = |error: &dyn std::error::Error| connection.unreadable(WAKE_STREAM, error);
        let name = wake_consumer(owner);
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: wake_filter(owner),
            ack_policy: AckPolicy::Explicit,
            ack_wait: AGAIN_AFTER,
            // By then there is nothing left that it has acknowledged.
            inactive_threshold: 2 * KEPT,
            ..pull::Config::default()
        };
        let jetstream = &connection.jetstream;
        let create = || jetstream.create_consumer_on_stream(config.clone(), WAKE_STREAM);
        let mut consumer: Consumer<pull::Config> =
            create().await.map_err(|error| refused(&error))?;
        // What was sent on another connection comes again at once and in order. A broker before 2.14
        // cannot do that: there the consumer is made again, and what was acknowledged comes too.
        if consumer.reset(None).await.is_err() {
            let removed = jetstream.delete_consumer_from_stream(&name, WAKE_STREAM);
            removed.await.map_err(|error| refused(&error))?;
            consumer = create().await.map_err(|error| refused(&error))?;
        }
        let messages = consumer.messages().await;
        Ok(Self {
            messages: messages.map_err(|error| refused(&error))?,
            connection: connection.clone(),
            open: BTreeMap::new(),
        })
    }

    /// Checks whether the credentials permit to read wakes, by a consumer of none that goes by itself.
    pub(crate) async fn may_read(connection: &Connection) -> Result<(), FleetError> {
        let config = pull::Config {
            name: Some("doctor".to_owned()),
            filter_subject: wake_filter("doctor:check"),
            inactive_threshold: CHECK_FOR,
            ..pull::Config::default()
        };
        let created = connection
            .jetstream
            .create_consumer_on_stream(config, WAKE_STREAM);
        let created: Result<Consumer<pull::Config>, _> = created.await;
        created.map_err(|error| connection.unreadable(WAKE_STREAM, &error))?;
        Ok(())
    }

    /// Returns the next wake, in whose record the epoch is the name that `name` gives to the host's feed
    /// with this epoch.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(
        &mut self,
        name: impl FnOnce(&str, &str) -> String,
    ) -> Result<Wake, FleetError> {
        loop {
            let message = self.connection.next_message(&mut self.messages).await?;
            let host = source_of_wake(&message.subject).filter(|host| is_host_name(host));
            let record: Option<Record> = parse(&message.payload);
            let Some((host, mut record)) = host.zip(record) else {
                // What nobody can read does not come again.
                self.connection.acknowledge(&message).await?;
                continue;
            };
            record.epoch = name(&host, &record.epoch);
            let key = (record.epoch.clone(), record.seq);
            self.open.insert(key, message);
            return Ok(Wake { host, record });
        }
    }

    /// Acknowledges the wakes of this feed up to this record.
    pub(crate) async fn acknowledge(&mut self, epoch: &str, seq: Seq) -> Result<(), FleetError> {
        let up_to = (epoch.to_owned(), 0)..=(epoch.to_owned(), seq);
        let keys: Vec<_> = self.open.range(up_to).map(|(key, _)| key.clone()).collect();
        for key in keys {
            if let Some(message) = self.open.remove(&key) {
                self.connection.acknowledge(&message).await?;
            }
        }
        Ok(())
    }
}
