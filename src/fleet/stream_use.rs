//! What the broker stores.

use serde::Serialize;

use super::connection::{Connection, FleetError};
use super::layout::{FEED_STREAM, HOSTS_BUCKET, STATE_BUCKET, WAKE_STREAM};
use super::streams::bucket_stream;
use crate::model::Millis;

/// What follows for a broker that syncs rarely.
pub(crate) const SINGLE: &str = "with less than three replicas the last seconds before a power cut can be \
                                 lost, unless the server has `sync_interval: always`; the hosts publish \
                                 again what is missing";

/// A stream of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StreamUse {
    /// Its name, as in the documentation.
    pub(crate) name: &'static str,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// When its first message came, in milliseconds since 1970; `None` for an empty one.
    #[serde(skip)]
    pub(crate) since: Option<Millis>,
    pub(crate) replicas: usize,
    pub(crate) consumers: usize,
}

impl StreamUse {
    /// Whether the last seconds before a power cut may be missing in it, as the server is by default.
    pub(crate) fn is_single(&self) -> bool {
        self.replicas < 3
    }
}

/// Returns what the broker stores.
pub(crate) async fn stream_uses(connection: &Connection) -> Result<Vec<StreamUse>, FleetError> {
    let all = [
        (FEED_STREAM, FEED_STREAM.to_owned()),
        (WAKE_STREAM, WAKE_STREAM.to_owned()),
        (STATE_BUCKET, bucket_stream(STATE_BUCKET)),
        (HOSTS_BUCKET, bucket_stream(HOSTS_BUCKET)),
    ];
    let mut uses = Vec::new();
    for (name, stream) in all {
        let found = connection.jetstream.get_stream(stream).await;
        let found = found.map_err(|error| connection.unreadable(name, &error))?;
        let info = found.cached_info();
        let first = info.state.first_timestamp.unix_timestamp_nanos() / 1_000_000;
        uses.push(StreamUse {
            name,
            messages: info.state.messages,
            bytes: info.state.bytes,
            since: (info.state.messages > 0).then(|| Millis::try_from(first).unwrap_or_default()),
            replicas: info.config.num_replicas,
            consumers: info.state.consumer_count,
        });
    }
    Ok(uses)
}
