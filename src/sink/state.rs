//! What is known of a sink, and what ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock;
use crate::model::Error;
use crate::store::{Lease, Subscription};
use crate::wire::{ConsumerStatus, SINK_PREFIX, SinkStatus};

/// How long deliveries may take when the daemon stops.
const FINAL_DELIVERY_LIMIT: Duration = Duration::from_millis(300);

/// What is known of a sink, besides its position.
#[derive(Debug)]
pub(super) struct SinkState {
    pub(super) name: String,
    status: Mutex<SinkStatus>,
}

impl SinkState {
    pub(super) fn new(name: &str, kind: &str, owners: &[String]) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            status: Mutex::new(SinkStatus {
                name: name.to_owned(),
                kind: kind.to_owned(),
                owners: owners.to_owned(),
                ..SinkStatus::default()
            }),
        })
    }

    pub(super) fn consumer(&self) -> String {
        format!("{SINK_PREFIX}{}", self.name)
    }

    /// Returns what is known of it; its consumer is one of these.
    pub(super) fn status(&self, consumers: &[ConsumerStatus]) -> SinkStatus {
        let name = self.consumer();
        let mut status = self.locked().clone();
        if let Some(consumer) = consumers.iter().find(|one| one.name == name) {
            (status.cursor, status.lag) = (consumer.cursor, consumer.lag);
        }
        status
    }

    pub(super) fn succeed(&self) {
        let mut status = self.locked();
        status.delivered += 1;
        (status.error, status.error_at) = (None, None);
    }

    /// Notes whether others reach this machine by the sink; then nothing is wrong with it.
    pub(super) fn reaches(&self, is_reached: bool) {
        let mut status = self.locked();
        status.reached = Some(is_reached);
        if is_reached {
            (status.error, status.error_at) = (None, None);
        }
    }

    pub(super) fn fail(&self, why: String) {
        let mut status = self.locked();
        status.failed += 1;
        if status.error.as_ref() != Some(&why) {
            tracing::warn!(sink = self.name, why, "a record was not delivered");
        }
        (status.error, status.error_at) = (Some(why), Some(clock::now().wall));
    }

    fn locked(&self) -> MutexGuard<'_, SinkStatus> {
        // Nothing is left half done while it is held.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) type LeaseResult = Result<(Subscription, Arc<Lease>), Error>;

/// Resolves a moment after the daemon has begun to stop.
pub(super) async fn farewell(stopping: &mut watch::Receiver<bool>) {
    // Without a sender the daemon has gone.
    drop(stopping.wait_for(|is_stopping| *is_stopping).await);
    sleep(FINAL_DELIVERY_LIMIT).await;
}
