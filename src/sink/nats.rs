//! A subject of a broker: each record is published there, and delivered when the broker has stored it.

use std::time::Duration;

use async_nats::HeaderMap;
use tokio::time::timeout;

use super::delivery::Delivery;
use super::error::SinkError;
use crate::config::FleetConfig;
use crate::fleet::{connect, host_name};
use crate::model::with_causes;

/// A subject of a broker. Connections are not kept: records may be hours apart.
#[derive(Debug, Clone)]
pub(crate) struct Nats {
    pub(crate) broker: FleetConfig,
    pub(crate) subject: String,
    /// How long a delivery may take.
    pub(crate) timeout: Duration,
}

impl Nats {
    /// Publishes the record. The broker stores it once, whatever is published again within its window.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
        let delivered = timeout(self.timeout, self.publish(delivery)).await;
        delivered.map_err(|_| SinkError::TimedOut(self.timeout))?
    }

    async fn publish(&self, delivery: &Delivery) -> Result<(), SinkError> {
        let failed = |error: &dyn std::error::Error| SinkError::Failed(with_causes(error));
        let connection = connect(&self.broker, &host_name(&self.broker)).await;
        let connection = connection.map_err(|error| failed(&error))?;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", delivery.id.as_str());
        let (subject, line) = (self.subject.clone(), delivery.line.clone());
        let jetstream = &connection.jetstream;
        let sent = jetstream.publish_with_headers(subject, headers, line.into());
        let confirmed = match sent.await {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        confirmed
            .map(drop)
            .map_err(|error| failed(&connection.not_confirmed(&error)))
    }
}
