//! Reads the broker's buckets: what they have, and what changes from then on.

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll, once, select_all};

use super::board::{Bucket, BucketEntry};
use super::connection::{Connection, FleetError};
use super::layout::{HOSTS_BUCKET, STATE_BUCKET};
use super::streams::bucket_stream;
use crate::model::Millis;

/// The headers by which a bucket says that a key has no value any more.
const OPERATION: &str = "KV-Operation";
const MARKER: &str = "Nats-Marker-Reason";

/// What is read of the buckets.
#[derive(Debug)]
pub(crate) enum BucketNews {
    Entry(BucketEntry),
    /// All that the buckets had at first has been read.
    Complete,
}

/// Reads the buckets until the connection breaks.
pub(crate) struct BucketWatch {
    /// What comes of each bucket; `None` when it broke.
    streams: SelectAll<BoxStream<'static, Option<BucketNews>>>,
    n_incomplete: usize,
    connection: Connection,
}

impl BucketWatch {
    /// Begins to read. With `hosts_only` it is the hosts' presence alone.
    pub(crate) async fn begin(
        connection: &Connection,
        hosts_only: bool,
    ) -> Result<Self, FleetError> {
        let mut streams = vec![read(connection, Bucket::Hosts).await?];
        if !hosts_only {
            streams.push(read(connection, Bucket::State).await?);
        }
        Ok(Self {
            n_incomplete: streams.len(),
            streams: select_all(streams),
            connection: connection.clone(),
        })
    }

    /// Returns what comes next.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<BucketNews, FleetError> {
        loop {
            let news = tokio::select! {
                biased;
                news = self.streams.next() => news.flatten(),
                () = self.connection.ended() => None,
            };
            match news {
                Some(BucketNews::Complete) if self.n_incomplete > 1 => self.n_incomplete -= 1,
                Some(news) => return Ok(news),
                None => return Err(FleetError::Broken),
            }
        }
    }
}

async fn read(
    connection: &Connection,
    bucket: Bucket,
) -> Result<BoxStream<'static, Option<BucketNews>>, FleetError> {
    let name = match bucket {
        Bucket::Hosts => HOSTS_BUCKET,
        Bucket::State => STATE_BUCKET,
    };
    let config = OrderedConfig {
        deliver_subject: connection.client.new_inbox(),
        deliver_policy: DeliverPolicy::LastPerSubject,
        filter_subject: format!("$KV.{name}.>"),
        ..OrderedConfig::default()
    };
    let jetstream = &connection.jetstream;
    let consumer: Consumer<OrderedConfig> = jetstream
        .create_consumer_on_stream(config, bucket_stream(name))
        .await
        .map_err(|error| connection.unreadable(name, &error))?;
    let is_empty = consumer.cached_info().num_pending == 0;
    let messages: Ordered = consumer
        .messages()
        .await
        .map_err(|error| connection.unreadable(name, &error))?;
    let mut is_complete = is_empty;
    let entries = messages.flat_map(move |message| {
        let mut reads = Vec::new();
        match message {
            Ok(message) => {
                let pending = message.info().map_or(0, |info| info.pending);
                reads.extend(
                    entry(bucket, name, &message).map(|entry| Some(BucketNews::Entry(entry))),
                );
                if !is_complete && pending == 0 {
                    is_complete = true;
                    reads.push(Some(BucketNews::Complete));
                }
            }
            Err(_) => reads.push(None),
        }
        futures_util::stream::iter(reads)
    });
    if is_empty {
        return Ok(once(async { Some(BucketNews::Complete) })
            .chain(entries)
            .boxed());
    }
    Ok(entries.boxed())
}

fn entry(bucket: Bucket, name: &str, message: &Message) -> Option<BucketEntry> {
    let key = message.subject.strip_prefix("$KV.")?.strip_prefix(name)?;
    let has = |header| {
        let headers = message.headers.as_ref();
        headers.is_some_and(|headers| headers.get(header).is_some())
    };
    let is_removed = has(OPERATION) || has(MARKER);
    let published = message.info().ok()?.published;
    Some(BucketEntry {
        bucket,
        key: key.strip_prefix('.')?.to_owned(),
        value: (!is_removed).then(|| message.payload.to_vec()),
        at: Millis::try_from(published.unix_timestamp_nanos() / 1_000_000).unwrap_or_default(),
    })
}
