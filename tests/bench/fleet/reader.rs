//! A durable consumer of all hosts' records.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use futures_util::StreamExt;

use super::Shared;

/// What the consumer has received.
#[derive(Default)]
pub(crate) struct Received {
    count: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
}

impl Received {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Begins to measure again.
    pub(crate) fn forget(&self) {
        self.take();
    }

    pub(crate) fn take(&self) -> Latency {
        let mut latencies = self
            .latencies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Latency::of(std::mem::take(&mut *latencies))
    }
}

/// Latencies in order.
pub(crate) struct Latency(Vec<Duration>);

impl Latency {
    pub(crate) fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percent: usize| {
            let place = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
            self.0.get(place).copied().unwrap_or_default().as_secs_f64() * 1000.0
        };
        write!(
            f,
            "p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms (n {})",
            at(50),
            at(99),
            at(100),
            self.0.len()
        )
    }
}

pub(crate) fn read(url: &str, shared: &Shared, received: &Received) {
    super::runtime().block_on(async {
        let client = ConnectOptions::new()
            .reconnect_delay_callback(|_| Duration::from_millis(200))
            .connect(url)
            .await
            .unwrap();
        let context = jetstream::new(client);
        let stream = context.get_stream("TT_FEED").await.unwrap();
        let config = pull::Config {
            durable_name: Some("bench".to_owned()),
            ack_policy: AckPolicy::All,
            max_ack_pending: 10_000,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        // The last record of each host.
        let mut last = BTreeMap::<String, u64>::new();
        let mut last_place = 0;
        while shared.is_over.load(Ordering::Relaxed) < 2 {
            let Ok(mut messages) = consumer.messages().await else {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            };
            loop {
                let wait = tokio::time::timeout(Duration::from_secs(1), messages.next()).await;
                let message = match wait {
                    Ok(Some(Ok(message))) => message,
                    // Missed heartbeats while the broker is away.
                    Ok(Some(Err(_))) if shared.is_over.load(Ordering::Relaxed) < 2 => continue,
                    Ok(_) => break,
                    Err(_) if shared.is_over.load(Ordering::Relaxed) < 2 => continue,
                    Err(_) => break,
                };
                let headers = message.headers.as_ref().unwrap();
                // The real host before them publishes as well.
                let Some(made) = headers.get("Made-At") else {
                    continue;
                };
                let id = headers.get("Nats-Msg-Id").unwrap().as_str();
                let (host, seq) = id.split_once(':').unwrap();
                let seq: u64 = seq.parse().unwrap();
                // What was delivered and not acknowledged comes again from a broker that was killed.
                let place = message.info().unwrap().stream_sequence;
                if place <= last_place {
                    continue;
                }
                last_place = place;
                let before = last.entry(host.to_owned()).or_default();
                assert_eq!(seq, *before + 1, "lost or doubled: {host}");
                *before = seq;
                let at: u64 = made.as_str().parse().unwrap();
                let latency = shared
                    .began
                    .elapsed()
                    .saturating_sub(Duration::from_nanos(at));
                let latencies = received.latencies.lock();
                latencies
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(latency);
                if seq.is_multiple_of(8) {
                    drop(message.ack().await);
                }
                received.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
}
