//! Publishes the records of the feed. The feed is the truth: what the broker has not confirmed, or has
//! lost since, is published from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::HeaderMap;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::stream::DirectGetErrorKind;
use futures_util::future::join_all;
use futures_util::stream::{FuturesOrdered, StreamExt};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, duplex};
use tokio::sync::Notify;

use super::connection::{self, Connection, FleetError, KEPT};
use super::layout::{
    FEED_STREAM, LOOK_HEADER, feed_subject, feed_subjects_of, message_id, parse_message_id,
    wake_subject,
};
use crate::clock;
use crate::model::{Body, Record, Seq};
use crate::store::{self, Lease, Live};
use crate::wire::StreamRecord;

/// How many records may wait for their confirmation: what the broker takes in the time of an answer.
const MOST_UNDER_WAY: usize = 256;

/// How much of the feed is read ahead, in bytes.
const READ_AHEAD: usize = 64 << 10;

/// How much a message may be smaller than the broker permits, for its headers, in bytes.
const HEADERS: usize = 4 << 10;

/// The session's records on their way to the broker.
#[derive(Debug)]
pub(super) struct Uplink {
    pub(super) host: String,
    /// The key of the session's files.
    pub(super) key: String,
    pub(super) live: Arc<Live>,
    /// Keeps the position: the feed keeps what follows it.
    pub(super) lease: Arc<Lease>,
    /// The last record that the broker has confirmed.
    pub(super) confirmed: AtomicU64,
    /// How many it has confirmed since the daemon started.
    pub(super) n_confirmed: AtomicU64,
    /// Notified when the feed has ended and all of it is confirmed: the daemon is leaving.
    pub(super) has_all: Notify,
}

#[derive(Serialize)]
struct FromHost<'a> {
    host: &'a str,
    #[serde(flatten)]
    record: &'a Record,
}

impl Uplink {
    /// Publishes all records that the broker does not have, and those to come.
    pub(super) async fn publish(&self, connection: &Connection) -> Result<(), FleetError> {
        let after = self.find_start(connection).await?;
        let Ok(subscription) = self.live.subscribe_to_pass_on(after) else {
            // The daemon is leaving.
            return std::future::pending().await;
        };
        let (reader, mut writer) = duplex(READ_AHEAD);
        let reading = async move {
            if let Err(error) = store::serve(subscription, &mut writer).await {
                tracing::warn!(%error, "the feed could not be read for the broker");
            }
        };
        let publishing = self.publish_lines(connection, reader);
        let mut publishing = std::pin::pin!(publishing);
        tokio::select! {
            published = &mut publishing => published,
            () = reading => publishing.await,
        }
    }

    /// Returns the record after which to begin: the last one of the session that the broker has, if it
    /// may be asked for that.
    async fn find_start(&self, connection: &Connection) -> Result<Seq, FleetError> {
        let confirmed = self.confirmed.load(Ordering::Relaxed);
        let stream = connection.jetstream.get_stream_no_info(FEED_STREAM).await;
        let stream = stream.map_err(|error| connection.not_confirmed(&error))?;
        let subjects = feed_subjects_of(&self.host, &self.key);
        let last = subjects
            .iter()
            .map(|subject| stream.direct_get_last_for_subject(subject.as_str()));
        let mut known = 0;
        for found in join_all(last).await {
            match found {
                Ok(message) => {
                    let id = message.headers.get("Nats-Msg-Id");
                    let id = id.and_then(|id| parse_message_id(id.as_str()));
                    // A feed that was created again has other records with these numbers.
                    if let Some((_, seq)) = id.filter(|(epoch, _)| *epoch == self.live.epoch) {
                        known = known.max(seq);
                    }
                }
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => {}
                // These credentials may only publish, or there is no stream yet.
                Err(_) => return Ok(confirmed),
            }
        }
        if known < confirmed {
            tracing::info!(confirmed, known, "the broker has lost records");
        }
        // It may have records that it could not confirm, of a feed that has lost its end.
        let last = self.live.last_seq();
        Ok(known.min(last))
    }

    async fn publish_lines(
        &self,
        connection: &Connection,
        reader: DuplexStream,
    ) -> Result<(), FleetError> {
        let mut lines = BufReader::new(reader).lines();
        let mut under_way = FuturesOrdered::new();
        let mut is_open = true;
        let oldest = clock::now().wall - i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
        loop {
            let may_read = is_open && under_way.len() < MOST_UNDER_WAY;
            // Losing either is safe: a line is read as a whole or stays, and what is under way stays
            // in its queue.
            tokio::select! {
                Some(done) = under_way.next() => match done {
                    Ok(seq) => self.confirm(seq),
                    Err(kind) => return Err(connection::why_not_published(connection, kind).await),
                },
                line = lines.next_line(), if may_read => {
                    let Ok(Some(line)) = line else {
                        is_open = false;
                        continue;
                    };
                    let Ok(StreamRecord::Durable(record)) = serde_json::from_str(&line) else {
                        continue;
                    };
                    // The broker would remove it at once.
                    let is_old = record.time < oldest;
                    let seq = record.seq;
                    let sent = if is_old { Vec::new() } else { self.send(connection, *record).await };
                    under_way.push_back(confirmed(seq, sent));
                }
                else => {
                    self.has_all.notify_one();
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Sends a record, and the wake of a conversation that it is for.
    async fn send(&self, connection: &Connection, record: Record) -> Vec<Sent> {
        let Self { host, key, .. } = self;
        let mut subjects = vec![feed_subject(host, key, &record.body)];
        if let Body::FollowUp {
            owner: Some(owner), ..
        } = &record.body
        {
            subjects.push(wake_subject(owner, host));
        }
        let mut headers = HeaderMap::new();
        headers.insert(
            "Nats-Msg-Id",
            message_id(host, key, &record.epoch, record.seq),
        );
        let last_of_write = record.seq + Seq::from(record.more);
        headers.insert(LOOK_HEADER, format!("{}:{last_of_write}", record.epoch));
        let payload = payload(host, record, connection.client.max_payload());
        let mut sent = Vec::new();
        for subject in subjects {
            let headers = headers.clone();
            let jetstream = &connection.jetstream;
            let payload = payload.clone().into();
            sent.push(
                jetstream
                    .publish_with_headers(subject, headers, payload)
                    .await,
            );
        }
        sent
    }

    fn confirm(&self, seq: Seq) {
        let before = self.confirmed.fetch_max(seq, Ordering::Relaxed);
        self.n_confirmed.fetch_add(1, Ordering::Relaxed);
        // What is published again is acknowledged already.
        if seq > before
            && let Err(refusal) = self.live.acknowledge(&self.lease, seq)
        {
            tracing::warn!(why = refusal.message, "a record was not acknowledged");
        }
    }
}

type Sent = Result<PublishAckFuture, PublishError>;

/// Resolves when the broker has stored everything of this record.
async fn confirmed(seq: Seq, sent: Vec<Sent>) -> Result<Seq, PublishErrorKind> {
    for one in sent {
        let confirmed = match one {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        confirmed.map_err(|error| error.kind())?;
    }
    Ok(seq)
}

/// Returns a record as it is published. If it is longer than the broker permits, it is without the
/// output of its tasks, and if that does not suffice, without its events: their records are there.
fn payload(host: &str, mut record: Record, most: usize) -> Vec<u8> {
    // The daemon's own.
    record.checkpoint = None;
    let json = |record: &Record| {
        serde_json::to_vec(&FromHost { host, record }).expect("it has text and numbers only")
    };
    let most = most.saturating_sub(HEADERS);
    let mut payload = json(&record);
    for is_last in [false, true] {
        if payload.len() <= most {
            break;
        }
        match &mut record.body {
            Body::FollowUp { message, .. } if is_last => message.details.events.clear(),
            Body::FollowUp { message, .. } => {
                for event in &mut message.details.events {
                    event.task.screen.forget_rows();
                }
            }
            Body::Event(event) => event.task.screen.forget_rows(),
            Body::Notice { text, .. } => text.truncate(text.floor_char_boundary(most / 2)),
        }
        payload = json(&record);
    }
    payload
}
