//! The streams and buckets on the broker. They are created where they are missing and the credentials
//! permit it: `docs/fleet.md` has the same settings for whoever creates them beforehand.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use serde::Serialize;

use super::connection::{Connection, FleetError};
use super::layout::{
    FEED_STREAM, FEED_SUBJECTS, HOSTS_BUCKET, STATE_BUCKET, WAKE_STREAM, WAKE_SUBJECTS,
};
use crate::model::Millis;

/// How long records and wakes are kept, and the state of a session that nobody updates.
pub(crate) const KEPT: Duration = Duration::from_secs(72 * 3600);

/// For how long a host counts as there after its last beat.
pub(crate) const PRESENT: Duration = Duration::from_secs(60);

/// Within which time a record that is published twice is stored once. What was published longer ago
/// is recognised by the last record of its session.
const SAME_WITHIN: Duration = Duration::from_secs(120);

/// The size of a stream, in bytes.
const FEED_BYTES: i64 = 1 << 30;
const WAKE_BYTES: i64 = 256 << 20;

/// Creates what is missing. What exists is left as it is.
pub(crate) async fn create_missing(connection: &Connection) -> Result<(), FleetError> {
    let all = [
        (FEED_STREAM, stream(FEED_STREAM, FEED_SUBJECTS, FEED_BYTES)),
        (WAKE_STREAM, stream(WAKE_STREAM, WAKE_SUBJECTS, WAKE_BYTES)),
        (STATE_BUCKET, bucket(STATE_BUCKET, None)),
        (HOSTS_BUCKET, bucket(HOSTS_BUCKET, Some(KEPT))),
    ];
    for (name, config) in all {
        let Err(error) = connection.jetstream.create_stream(config).await else {
            continue;
        };
        let exists = matches!(
            error.kind(),
            CreateStreamErrorKind::JetStream(why) if why.error_code() == ErrorCode::STREAM_NAME_EXIST
        );
        if !exists {
            let why = connection.why_not(&error);
            return Err(FleetError::NoStream { name, why });
        }
    }
    Ok(())
}

/// Returns the name of the stream that is a bucket.
pub(crate) fn bucket_stream(name: &str) -> String {
    format!("KV_{name}")
}

fn stream(name: &str, subjects: &str, max_bytes: i64) -> Config {
    Config {
        name: name.to_owned(),
        subjects: vec![subjects.to_owned()],
        max_bytes,
        max_age: KEPT,
        discard: DiscardPolicy::Old,
        storage: StorageType::File,
        duplicate_window: SAME_WITHIN,
        allow_direct: true,
        num_replicas: 1,
        ..Config::default()
    }
}

/// Returns the stream that is a bucket of this name, as clients of such buckets expect it. A broker
/// before 2.11 ignores what it does not know: the lifetime of single values, and the marks (`marked`:
/// for how long) in place of values whose lifetime has ended.
fn bucket(name: &str, marked: Option<Duration>) -> Config {
    Config {
        name: bucket_stream(name),
        subjects: vec![format!("$KV.{name}.>")],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: 1,
        allow_message_ttl: true,
        subject_delete_marker_ttl: marked,
        ..Config::default()
    }
}

/// Returns the error of a message that was not stored. Creates what it would be stored in, if that is
/// missing: the next connection finds it.
pub(super) async fn explain(connection: &Connection, kind: PublishErrorKind) -> FleetError {
    if kind == PublishErrorKind::StreamNotFound
        && let Err(error) = create_missing(connection).await
    {
        return error;
    }
    let why = connection.refusal().unwrap_or_else(|| kind.to_string());
    FleetError::NotConfirmed(why)
}

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
