//! The sinks of the configuration: each is a consumer of the feed, on a thread that they share.
//!
//! A sink that fails is tried again until it succeeds; meanwhile its records wait in the feed, and
//! neither the daemon nor another sink waits for it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::config::{SinkConfig, SinkFilter, SinkTarget};
use crate::model::{Backoff, Level, Seq, with_causes};
use crate::sink::{Delivery, Exec, Sink};
use crate::store::{self, Lease, Live, ReaderThread, Subscription};
use crate::wire::{
    ConsumeRequest, ConsumerStatus, DurableRecord, EventType, Filter, Kind, RecordBody, Refusal,
    SINK_PREFIX, SinkStatus, StreamRecord, is_owner_of,
};

/// How long to wait before trying again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// How long deliveries may take when the daemon stops.
const FINAL_DELIVERY_LIMIT: Duration = Duration::from_millis(300);

/// How much of the feed is read ahead for a sink, in bytes.
const READ_AHEAD: usize = 64 << 10;

/// How long creating the consumers, all of them, may delay the start.
const CREATED_WITHIN: Duration = Duration::from_millis(500);

/// The sinks of a daemon.
#[derive(Debug)]
pub(super) struct Sinks {
    states: Vec<Arc<SinkState>>,
    stopping: watch::Sender<bool>,
    /// Dropping it ends them.
    _thread: ReaderThread,
}

/// What is known of a sink.
#[derive(Debug)]
struct SinkState {
    name: String,
    kind: &'static str,
    owners: Vec<String>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    delivered: u64,
    failed: u64,
    /// The last error and when it happened; `None` after a success.
    error: Option<(String, i64)>,
}

impl SinkState {
    fn consumer(&self) -> String {
        format!("{SINK_PREFIX}{}", self.name)
    }

    fn succeed(&self) {
        self.update(|progress| {
            progress.delivered += 1;
            progress.error = None;
        });
    }

    fn fail(&self, why: String) {
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

impl Sinks {
    /// Starts these sinks; `None` when there are none. A sink that is new gets what is recorded after
    /// `last_seq`.
    ///
    /// # Errors
    ///
    /// When their thread cannot be created.
    pub(super) async fn start(
        configs: &[SinkConfig],
        live: &Arc<Live>,
        last_seq: Seq,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Option<Self>> {
        if configs.is_empty() {
            return Ok(None);
        }
        let thread = ReaderThread::named("sinks")?;
        let stopping = watch::Sender::new(false);
        let mut states = Vec::new();
        let mut all = Vec::new();
        for config in configs {
            let sink = sink_of(config);
            let state = Arc::new(SinkState {
                name: config.name.clone(),
                kind: sink.kind(),
                owners: config.filter.owners.clone(),
                progress: Mutex::default(),
            });
            states.push(Arc::clone(&state));
            all.push(RunningSink {
                sink,
                selection: Selection::new(&config.filter),
                state,
                live: Arc::clone(live),
                last_seq,
                stopping: stopping.subscribe(),
            });
        }
        // What happens from here on is for them, so they exist before anything can happen.
        let leases = all.iter().map(|sink| timeout(CREATED_WITHIN, sink.lease()));
        let leases = join_all(leases).await;
        for (mut running, first) in all.into_iter().zip(leases) {
            let first = first.ok();
            let handle = thread.handle();
            tasks.spawn(async move { handle.run(async move { running.run(first).await }).await });
        }
        Ok(Some(Self {
            states,
            stopping,
            _thread: thread,
        }))
    }

    /// Ends the sinks soon: what is recorded is delivered if that succeeds at once.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns what is known of each; `consumers` are those of the feed.
    pub(super) fn status(&self, consumers: &[ConsumerStatus]) -> Vec<SinkStatus> {
        let status = |state: &Arc<SinkState>| {
            let name = state.consumer();
            let consumer = consumers.iter().find(|one| one.name == name);
            let progress = state
                .progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let error = progress.error.clone();
            SinkStatus {
                name: state.name.clone(),
                kind: state.kind.to_owned(),
                cursor: consumer.map_or(0, |one| one.cursor),
                lag: consumer.map_or(0, |one| one.lag),
                delivered: progress.delivered,
                failed: progress.failed,
                error_at: error.as_ref().map(|(_, at)| *at),
                error: error.map(|(why, _)| why),
                owners: state.owners.clone(),
            }
        };
        self.states.iter().map(status).collect()
    }
}

fn sink_of(config: &SinkConfig) -> Sink {
    match &config.target {
        SinkTarget::Exec(words) => Sink::Exec(Exec {
            words: words.clone(),
            timeout: config.timeout,
        }),
        #[cfg(feature = "webhook")]
        SinkTarget::Webhook {
            url,
            secret_file,
            ca_file,
        } => Sink::Webhook(crate::sink::Webhook {
            url: url.clone(),
            secret_file: secret_file.clone(),
            ca_file: ca_file.clone(),
            timeout: config.timeout,
        }),
    }
}

/// Which records a sink gets.
#[derive(Debug, Clone)]
struct Selection {
    filter: Filter,
    owners: Vec<String>,
    level: Option<Level>,
}

impl Selection {
    fn new(config: &SinkFilter) -> Self {
        let kind = |name: &&str| match *name {
            "event" => Kind::Event,
            "notice" => Kind::Notice,
            _ => Kind::FollowUp,
        };
        let types = EventType::ALL;
        let event_type = |name: &&str| types.into_iter().find(|known| known.name() == *name);
        Self {
            filter: Filter::new(
                config.kinds.iter().map(kind).collect(),
                config.types.iter().filter_map(event_type).collect(),
                config.tasks.clone(),
            ),
            owners: config.owners.clone(),
            level: config.level,
        }
    }

    /// Whether a record that the filter passes is wanted.
    fn wants(&self, body: &RecordBody) -> bool {
        let (level, owner) = match body {
            RecordBody::Event(fields) => (fields.level, &fields.task.owner),
            RecordBody::Notice { level, owner, .. } | RecordBody::FollowUp { level, owner, .. } => {
                (*level, owner)
            }
        };
        let is_important = self.level != Some(Level::Warning) || level == Level::Warning;
        // What has no owner is everybody's.
        let is_theirs = self.owners.is_empty()
            || owner
                .as_ref()
                .is_none_or(|owner| self.owners.iter().any(|one| is_owner_of(one, owner)));
        is_important && is_theirs
    }
}

type LeaseResult = Result<(Subscription, Arc<Lease>), Refusal>;

/// A sink that runs.
struct RunningSink {
    sink: Sink,
    selection: Selection,
    state: Arc<SinkState>,
    live: Arc<Live>,
    /// Where a new consumer starts.
    last_seq: Seq,
    stopping: watch::Receiver<bool>,
}

impl RunningSink {
    /// Becomes the reader of the sink's consumer.
    async fn lease(&self) -> LeaseResult {
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

    async fn run(&mut self, mut first: Option<LeaseResult>) {
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
    async fn deliver(&mut self, record: &DurableRecord, line: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(owners: &[&str], level: Option<Level>, of: Option<&str>, at: &str, wanted: bool) {
        let config = SinkFilter {
            owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
            level,
            ..SinkFilter::default()
        };
        let notice = serde_json::json!({"kind": "notice", "level": at, "text": "", "events": [], "owner": of});
        let body = serde_json::from_value(notice).unwrap();
        assert_eq!(Selection::new(&config).wants(&body), wanted);
    }

    #[test]
    fn a_sink_gets_its_owners_and_everybodys_records() {
        check(&[], None, Some("pi:1"), "info", true);
        check(&["pi:1"], None, Some("pi:1"), "info", true);
        check(&["pi:1"], None, Some("pi:12"), "info", false);
        check(&["x", "pi:*"], None, Some("pi:12"), "info", true);
        check(&["pi:1"], None, None, "info", true);
        check(&[], Some(Level::Warning), None, "info", false);
        check(&[], Some(Level::Warning), None, "warning", true);
        check(&[], Some(Level::Info), None, "info", true);
    }

    #[test]
    fn kinds_and_types_are_those_of_the_feed() {
        let config = SinkFilter {
            kinds: vec!["event", "notice", "followUp"],
            types: EventType::ALL.iter().map(|known| known.name()).collect(),
            ..SinkFilter::default()
        };
        let filter = Selection::new(&config).filter;
        assert_eq!(filter.kinds, [Kind::Event, Kind::Notice, Kind::FollowUp]);
        assert_eq!(filter.types, EventType::ALL);
    }
}
