//! Reads the records of all hosts, as a durable consumer or from a position.
//!
//! A record's place is its sequence number on the broker. What is acknowledged is so for all places
//! before it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use serde_json::{Value, json};

use tmux_task::model::{Error, EventType, Kind, Seq, is_host_name, text};

use crate::connection::{ANSWER_LIMIT, Connection, broken};
use crate::layout::{FEED, feed_filters, parse, token, words_of};

/// How many records a reader may have that it has not acknowledged; further ones wait.
const MAX_UNACKNOWLEDGED: i64 = 10_000;

/// When a record is sent again that was not acknowledged. The reader has it already.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(60);

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
    ) -> Result<Self, Error> {
        let refused = |error: &dyn std::error::Error| connection.unreadable(FEED.name, error);
        let jetstream = &connection.jetstream;
        let stream = jetstream.get_stream(FEED.stream).await;
        let stream = stream.map_err(|error| refused(&error))?;
        let info = stream.cached_info();
        let epoch = format!("{:x}", info.created.unix_timestamp_nanos());
        let last = known.filter(|known| known.bounds.epoch == epoch);
        let last = last.map(|known| known.last);
        let (policy, after) = match &request.start {
            // All that the broker has is of after it had lost its stream.
            _ if known.is_some() && last.is_none() => (DeliverPolicy::All, 0),
            FeedStart::After(place) if *place > info.state.last_sequence => {
                let last = info.state.last_sequence;
                return Err(Error::failed(format!(
                    "there is no record {place}: the last one is {last}"
                )));
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
    pub(crate) async fn next_kept(&mut self) -> Result<Option<FleetRecord>, Error> {
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
    pub(crate) async fn next(&mut self) -> Result<FleetRecord, Error> {
        loop {
            if let Some(record) = self.read().await? {
                return Ok(record);
            }
        }
    }

    /// Reads a message. Returns its record unless it was returned before, or is none.
    async fn read(&mut self) -> Result<Option<FleetRecord>, Error> {
        let message = self.connection.next(&mut self.messages).await?;
        let message = message.map_err(|_| broken())?;
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
    pub(crate) async fn acknowledge(&mut self, place: Seq) -> Result<(), Error> {
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
) -> Result<(Consumer<pull::Config>, bool), Error> {
    let jetstream = &connection.jetstream;
    let known = match name {
        Some(name) => jetstream
            .get_consumer_from_stream::<pull::Config, _, _>(name, FEED.stream)
            .await
            .ok(),
        None => None,
    };
    let config = match &known {
        Some(known) if known.cached_info().num_waiting > 0 => {
            let name = name.unwrap_or_default();
            let why = format!("another process reads as consumer `{name}`");
            return Err(Error::failed(why));
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
        .create_consumer_on_stream(config, FEED.stream)
        .await;
    let opened = opened.map_err(|error| connection.unreadable(FEED.name, &error))?;
    Ok((opened, known.is_none()))
}

/// Returns a record as it is passed on. The subject says which host it is of: what the host says of
/// itself does not count. What has not the subject's kind is no record.
fn record(message: &Message, place: Seq) -> Option<FleetRecord> {
    let words = words_of(FEED.root, &message.subject)?;
    let (host, kind) = (words.first()?, words.get(2)?);
    let mut fields: Value = parse(&message.payload)?;
    let object = fields.as_object_mut()?;
    if object.get("kind")? != kind || !is_host_name(host) {
        return None;
    }
    object.insert("host".to_owned(), json!(host));
    object.insert("fleetSeq".to_owned(), json!(place));
    for pointer in ["/text", "/message/content"] {
        if let Some(Value::String(text)) = fields.pointer_mut(pointer) {
            *text = text::from_host(text, host);
        }
    }
    Some(FleetRecord { place, fields })
}
