//! A sink that runs: it reads the feed as a consumer, and delivers each record until the sink has it.
//!
//! A delivery that fails is tried again after a pause that doubles; meanwhile the records wait in the
//! feed, and neither the daemon nor another sink waits for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::sleep;

use super::delivery::Delivery;
use super::target::{Selection, Sink};
use crate::clock;
use crate::model::{Backoff, Error, Record, Seq, with_causes};
use crate::store::{self, Lease, Live, Subscription};
use crate::wire::{ConsumeRequest, SINK_PREFIX, StreamRecord};

/// How long to wait before trying again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// How long deliveries may take when the daemon stops.
const FINAL_DELIVERY_LIMIT: Duration = Duration::from_millis(300);

/// How much of the feed is read ahead for a sink, in bytes.
const READ_AHEAD: usize = 64 << 10;

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

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        // Nothing is left half done while it is held.
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

pub(super) type LeaseResult = Result<(Subscription, Arc<Lease>), Error>;

/// A sink that runs.
pub(super) struct RunningSink {
    pub(super) sink: Sink,
    pub(super) selection: Selection,
    pub(super) state: Arc<SinkState>,
    pub(super) live: Arc<Live>,
    /// Where a new consumer starts.
    pub(super) last_seq: Seq,
    pub(super) stopping: watch::Receiver<bool>,
}

impl RunningSink {
    /// Becomes the reader of the sink's consumer.
    pub(super) async fn lease(&self) -> LeaseResult {
        let request = ConsumeRequest {
            name: self.state.consumer(),
            from_now: true,
            take_over: false,
            filter: self.selection.filter.clone(),
        };
        let pid = Some(std::process::id());
        let leased = self.live.consume_from(request, pid, self.last_seq).await?;
        leased.1.set_owners(&self.selection.owners);
        Ok(leased)
    }

    pub(super) async fn run(&mut self, mut first: Option<LeaseResult>) {
        let mut retry = RETRY;
        loop {
            let leased = match first.take() {
                Some(leased) => leased,
                None => self.lease().await,
            };
            match leased {
                Ok((subscription, lease)) => {
                    retry = RETRY;
                    if !self.serve(subscription, &lease).await {
                        return;
                    }
                    self.state
                        .fail("another process reads as its consumer".to_owned());
                }
                Err(refusal) => self.state.fail(refusal.message),
            }
            if !self.pause(&mut retry).await {
                return;
            }
        }
    }

    /// Delivers what the stream has. Returns whether to begin another one.
    async fn serve(&mut self, subscription: Subscription, lease: &Lease) -> bool {
        let (reader, mut writer) = duplex(READ_AHEAD);
        let writing = async move {
            if let Err(error) = store::serve(subscription, &mut writer).await {
                tracing::debug!(%error, "the stream of a sink has ended");
            }
        };
        let is_going_on = {
            let delivering = self.deliver_all(reader, lease);
            let mut delivering = std::pin::pin!(delivering);
            tokio::select! {
                is_going_on = &mut delivering => is_going_on,
                () = writing => delivering.await,
            }
        };
        is_going_on && !*self.stopping.borrow()
    }

    /// Returns whether the stream has ended, and not the sink.
    async fn deliver_all(&mut self, reader: DuplexStream, lease: &Lease) -> bool {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(StreamRecord::Durable(record)) = serde_json::from_str(&line) else {
                continue;
            };
            if self.selection.wants(&record.body) && !self.deliver(&record, &line).await {
                return false;
            }
            if let Err(refusal) = self.live.acknowledge(lease, record.seq) {
                tracing::warn!(
                    why = refusal.message,
                    "a sink's record was not acknowledged"
                );
            }
        }
        true
    }

    /// Delivers a record, however often it takes. Returns `false` when the daemon stops before.
    async fn deliver(&mut self, record: &Record, line: &str) -> bool {
        let delivery = Delivery::new(&self.state.name, record, line);
        let mut retry = RETRY;
        loop {
            let delivered = tokio::select! {
                delivered = self.sink.deliver(&delivery, clock::now().wall) => delivered,
                () = farewell(&mut self.stopping) => return false,
            };
            match delivered {
                Ok(()) => {
                    self.state.succeed();
                    return true;
                }
                Err(error) => self.state.fail(with_causes(&error)),
            }
            if !self.pause(&mut retry).await {
                return false;
            }
        }
    }

    /// Waits before the next attempt. Returns `false` at once when the daemon stops.
    async fn pause(&mut self, retry: &mut Backoff) -> bool {
        tokio::select! {
            () = sleep(retry.next_pause()) => true,
            _ = self.stopping.wait_for(|is_stopping| *is_stopping) => false,
        }
    }
}

/// Resolves a moment after the daemon has begun to stop.
async fn farewell(stopping: &mut watch::Receiver<bool>) {
    // Without a sender the daemon has gone.
    drop(stopping.wait_for(|is_stopping| *is_stopping).await);
    sleep(FINAL_DELIVERY_LIMIT).await;
}
