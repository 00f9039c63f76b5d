//! Values in the broker's buckets, and this machine's presence: one with a short lifetime, which each
//! daemon of the machine renews.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use tokio::time::sleep;

use super::connection::{Connection, FleetError};
use super::layout::{HOSTS_BUCKET, HostState, VERSION, bucket_subject, token};
use super::streams::{self, PRESENT};
use crate::config::FleetConfig;

/// How often the presence is renewed.
const BEAT: Duration = Duration::from_secs(20);

/// Puts values into the buckets. Each is there when the broker has confirmed it.
#[derive(Debug)]
pub(super) struct Buckets<'a> {
    connection: &'a Connection,
    /// Whether the broker takes lifetimes of single values: from 2.11 on, if the bucket is so.
    with_lifetimes: AtomicBool,
}

impl<'a> Buckets<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            with_lifetimes: AtomicBool::new(true),
        }
    }

    /// Puts a value, which is removed after its lifetime.
    pub(super) async fn put(
        &self,
        bucket: &str,
        key: &str,
        value: &[u8],
        lifetime: Duration,
    ) -> Result<(), FleetError> {
        if self.with_lifetimes.load(Ordering::Relaxed) {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-TTL", format!("{}s", lifetime.as_secs()));
            match self.publish(bucket, key, headers, value).await {
                Err(PublishErrorKind::Other) => self.with_lifetimes.store(false, Ordering::Relaxed),
                Err(kind) => return Err(self.explain(kind).await),
                Ok(()) => return Ok(()),
            }
        }
        match self.publish(bucket, key, HeaderMap::new(), value).await {
            Ok(()) => Ok(()),
            Err(kind) => Err(self.explain(kind).await),
        }
    }

    /// Removes a value.
    pub(super) async fn remove(&self, bucket: &str, key: &str) -> Result<(), FleetError> {
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        match self.publish(bucket, key, headers, &[]).await {
            Ok(()) => Ok(()),
            Err(kind) => Err(self.explain(kind).await),
        }
    }

    async fn publish(
        &self,
        bucket: &str,
        key: &str,
        headers: HeaderMap,
        value: &[u8],
    ) -> Result<(), PublishErrorKind> {
        let (subject, value) = (bucket_subject(bucket, key), value.to_vec());
        let jetstream = &self.connection.jetstream;
        let sent = jetstream.publish_with_headers(subject, headers, value.into());
        let confirmed = match sent.await {
            Ok(confirmed) => confirmed.await,
            Err(error) => Err(error),
        };
        confirmed.map(drop).map_err(|error| error.kind())
    }

    async fn explain(&self, kind: PublishErrorKind) -> FleetError {
        streams::explain(self.connection, kind).await
    }
}

/// Renews the presence until the broker does not confirm it. `confirmed` is called each time it has.
pub(super) async fn beat(
    buckets: &Buckets<'_>,
    host: &str,
    config: &FleetConfig,
    confirmed: impl Fn(),
) -> Result<(), FleetError> {
    let state = HostState {
        v: VERSION,
        host: host.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        allow: config
            .allow
            .iter()
            .map(|verb| verb.name().to_owned())
            .collect(),
    };
    let value = serde_json::to_vec(&state).expect("it has text only");
    loop {
        buckets
            .put(HOSTS_BUCKET, &token(host), &value, PRESENT)
            .await?;
        confirmed();
        sleep(BEAT).await;
    }
}
