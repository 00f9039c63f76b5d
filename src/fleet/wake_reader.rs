//! Reads the wakes of a conversation: the follow-ups of its tasks on other hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};

use super::connection::{Connection, FleetError};
use super::layout::parse;
use super::layout::{WAKE_STREAM, source_of_wake, wake_consumer, wake_filter};
use super::streams::KEPT;
use crate::config::is_host_name;
use crate::model::{Record, Seq};

/// When a wake is sent again that was not acknowledged. Its reader has it already.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

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
