//! What is known of a sink, and what ends it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock;
use crate::model::Error;
use crate::store::{Lease, Subscription};
use crate::wire::SINK_PREFIX;

/// How long deliveries may take when the daemon stops.
const FINAL_DELIVERY_LIMIT: Duration = Duration::from_millis(300);

/// What is known of a sink.
#[derive(Debug)]
pub(super) struct SinkState {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) owners: Vec<String>,
    pub(super) progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) delivered: u64,
    pub(super) failed: u64,
    /// The last error and when it happened; `None` after a success.
    pub(super) error: Option<(String, i64)>,
    /// Whether others reach this machine by it, where they do by a sink.
    pub(super) is_reached: Option<bool>,
}

impl SinkState {
    pub(super) fn consumer(&self) -> String {
        format!("{SINK_PREFIX}{}", self.name)
    }

    pub(super) fn succeed(&self) {
        self.update(|progress| {
            progress.delivered += 1;
            progress.error = None;
        });
    }

    /// Notes whether others reach this machine by the sink; then nothing is wrong with it.
    pub(super) fn reaches(&self, is_reached: bool) {
        self.update(|progress| {
            progress.is_reached = Some(is_reached);
            if is_reached {
                progress.error = None;
            }
        });
    }

    pub(super) fn fail(&self, why: String) {
        let mut is_news = false;
        self.update(|progress| {
            progress.failed += 1;
            is_news = progress.error.as_ref().is_none_or(|(last, _)| *last != why);
            progress.error = Some((why.clone(), clock::now().wall));
        });
        if is_news {
            tracing::warn!(sink = self.name, why, "a record was not delivered");
        }
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        // Nothing is left half done while it is held.
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

pub(super) type LeaseResult = Result<(Subscription, Arc<Lease>), Error>;

/// Resolves a moment after the daemon has begun to stop.
pub(super) async fn farewell(stopping: &mut watch::Receiver<bool>) {
    // Without a sender the daemon has gone.
    drop(stopping.wait_for(|is_stopping| *is_stopping).await);
    sleep(FINAL_DELIVERY_LIMIT).await;
}
