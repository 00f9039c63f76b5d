//! Hosts: each makes records at random times and publishes them in order. What is not acknowledged is
//! published again, from behind the last one that the broker has.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, HeaderMap};
use tokio::time::{Instant, sleep, sleep_until};

use super::Shared;
use super::support::Dice;

/// A recorded event.
const RECORDS: &str = include_str!("../../fixtures/wire/v1/event.jsonl");
const FOLLOW_UP: &str = include_str!("../../fixtures/wire/v1/followUp.jsonl");

/// How many records may be on their way.
const UNDER_WAY: usize = 64;

const HEARTBEAT: Duration = Duration::from_secs(20);

/// A random number above 0, at most 1: the same run makes the same records.
fn share(dice: &mut Dice) -> f64 {
    (dice.below(1 << 31) + 1) as f64 / (1u64 << 31) as f64
}

pub(crate) fn run_all(url: &str, shared: &Arc<Shared>) {
    let runtime = super::runtime();
    let hosts = tokio::task::LocalSet::new();
    for n in 0..shared.size.hosts {
        let (url, shared) = (url.to_owned(), Arc::clone(shared));
        hosts.spawn_local(async move { Host::new(n, &url, shared).await.run().await });
    }
    runtime.block_on(hosts);
}

struct Record {
    seq: u64,
    /// When it was made, since the beginning.
    at: Duration,
}

struct Host {
    n: usize,
    shared: Arc<Shared>,
    client: Client,
    context: Context,
    dice: Dice,
    /// Records that the broker has not confirmed.
    waiting: VecDeque<Record>,
    last: u64,
    next_at: Instant,
    beats_at: Instant,
}

impl Host {
    async fn new(n: usize, url: &str, shared: Arc<Shared>) -> Self {
        let mut dice = Dice::new(1, n as u64);
        // They do not all start at once either.
        sleep(Duration::from_secs_f64(share(&mut dice) * 5.0)).await;
        let client = ConnectOptions::new()
            .client_capacity(256)
            .reconnect_delay_callback(move |attempts| {
                let longest = (0.1 * 2f64.powi(attempts.min(20) as i32)).min(30.0);
                let mut dice = Dice::new(attempts as u64 + 1, n as u64);
                Duration::from_secs_f64(longest * (0.5 + share(&mut dice) / 2.0))
            })
            .connect(url)
            .await
            .unwrap();
        let context = jetstream::new(client.clone());
        let mut host = Self {
            n,
            shared,
            client,
            context,
            dice,
            waiting: VecDeque::new(),
            last: 0,
            next_at: Instant::now(),
            beats_at: Instant::now(),
        };
        for task in 0..host.shared.size.tasks {
            host.put_state(task).await;
        }
        host.beat().await;
        host.shared.connected.fetch_add(1, Ordering::Relaxed);
        host.next_at = Instant::now() + host.pause();
        host
    }

    async fn run(mut self) {
        loop {
            let is_over = self.shared.is_over.load(Ordering::Relaxed) > 0;
            if is_over && self.waiting.is_empty() {
                return;
            }
            if !is_over {
                sleep_until(self.next_at.min(self.beats_at)).await;
                self.make();
            }
            if self.client.connection_state() != State::Connected {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            if self.beats_at <= Instant::now() {
                self.beat().await;
            }
            if self.publish().await.is_none() {
                self.resume().await;
            }
        }
    }

    fn pause(&mut self) -> Duration {
        let mean = self.shared.size.hosts as f64 / self.shared.size.rate as f64;
        Duration::from_secs_f64(-share(&mut self.dice).ln() * mean)
    }

    /// Makes the records that are due.
    fn make(&mut self) {
        while self.next_at <= Instant::now() {
            self.last += 1;
            let at = self.next_at.into_std() - self.shared.began;
            self.waiting.push_back(Record { seq: self.last, at });
            self.shared.made.fetch_add(1, Ordering::Relaxed);
            let pause = self.pause();
            self.next_at += pause;
        }
    }

    /// Publishes what waits. `None` when that failed.
    async fn publish(&mut self) -> Option<()> {
        while !self.waiting.is_empty() {
            let n = self.waiting.len().min(UNDER_WAY);
            let mut confirmations = Vec::with_capacity(n);
            for at in 0..n {
                let (subject, headers, line) = self.message(&self.waiting[at]);
                let sent = self
                    .context
                    .publish_with_headers(subject, headers, line.into());
                confirmations.push(sent.await.ok()?);
            }
            for confirmation in confirmations {
                confirmation.await.ok()?;
                self.waiting.pop_front();
            }
            let n_tasks = self.shared.size.tasks.max(1) as u64;
            let task = self.dice.below(n_tasks) as usize;
            self.put_state(task).await;
        }
        Some(())
    }

    /// Leaves out what the broker has.
    async fn resume(&mut self) {
        let subject = format!("tt.v1.feed.h{}.>", self.n);
        let Ok(stream) = self.context.get_stream_no_info("TT_FEED").await else {
            return;
        };
        if let Ok(last) = stream.get_last_raw_message_by_subject(&subject).await {
            let id = last.headers.get("Nats-Msg-Id").unwrap().as_str();
            let seq: u64 = id.rsplit_once(':').unwrap().1.parse().unwrap();
            self.waiting.retain(|record| record.seq > seq);
        }
    }

    fn message(&self, record: &Record) -> (String, HeaderMap, String) {
        let Record { seq, at } = record;
        let (kind, lines) = match seq % 3 {
            0 => ("followUp", FOLLOW_UP),
            _ => ("event.exited", RECORDS),
        };
        let n = usize::try_from(*seq).unwrap() % lines.lines().count();
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("e{}:{seq}", self.n));
        headers.insert("Made-At", at.as_nanos().to_string());
        let line = lines.lines().nth(n).unwrap_or_default().to_owned();
        (format!("tt.v1.feed.h{}.work.{kind}", self.n), headers, line)
    }

    async fn put_state(&mut self, task: usize) {
        let subject = format!("$KV.TT_STATE.h{}.work.w{task}", self.n);
        let state = "x".repeat(600);
        if let Ok(sent) = self.context.publish(subject, state.into()).await {
            drop(sent.await);
        }
    }

    async fn beat(&mut self) {
        self.beats_at = Instant::now() + HEARTBEAT;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-TTL", "60");
        let subject = format!("$KV.TT_HOSTS.h{}", self.n);
        let sent = self
            .context
            .publish_with_headers(subject, headers, r#"{"since":0}"#.into());
        if let Ok(sent) = sent.await {
            drop(sent.await);
        }
    }
}
