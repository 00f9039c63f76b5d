//! Values in the broker's buckets: the last state of each task of the session, and this machine's
//! presence, one with a short lifetime, which each daemon of the machine renews.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use async_nats::jetstream::context::PublishErrorKind;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll, once, select_all};
use tokio::time::{Instant, sleep, timeout_at};

use super::board::{Bucket, BucketEntry};
use super::connection::{self, Connection, FleetError, KEPT, PRESENT, bucket_stream};
use super::layout::{
    HOSTS_BUCKET, HostState, STATE_BUCKET, SessionState, TaskState, VERSION, bucket_subject,
    session_key, task_key, token,
};
use crate::config::FleetConfig;
use crate::model::{Millis, NextRestart, Screen, text};
use crate::store::Live;
use crate::wire::{LsTask, TaskBoard};

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
        connection::why_not_published(self.connection, kind).await
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

/// The headers by which a bucket says that a key has no value any more.
const OPERATION: &str = "KV-Operation";
const MARKER: &str = "Nats-Marker-Reason";

/// What is read of the buckets.
#[derive(Debug)]
pub(crate) enum BucketNews {
    Entry(BucketEntry),
    /// All that the buckets had at first has been read.
    Complete,
}

/// Reads the buckets until the connection breaks.
pub(crate) struct BucketWatch {
    /// What comes of each bucket; `None` when it broke.
    streams: SelectAll<BoxStream<'static, Option<BucketNews>>>,
    n_incomplete: usize,
    connection: Connection,
}

impl BucketWatch {
    /// Begins to read. With `hosts_only` it is the hosts' presence alone.
    pub(crate) async fn begin(
        connection: &Connection,
        hosts_only: bool,
    ) -> Result<Self, FleetError> {
        let mut streams = vec![read(connection, Bucket::Hosts).await?];
        if !hosts_only {
            streams.push(read(connection, Bucket::State).await?);
        }
        Ok(Self {
            n_incomplete: streams.len(),
            streams: select_all(streams),
            connection: connection.clone(),
        })
    }

    /// Returns what comes next.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<BucketNews, FleetError> {
        loop {
            let news = tokio::select! {
                biased;
                news = self.streams.next() => news.flatten(),
                () = self.connection.ended() => None,
            };
            match news {
                Some(BucketNews::Complete) if self.n_incomplete > 1 => self.n_incomplete -= 1,
                Some(news) => return Ok(news),
                None => return Err(FleetError::Broken),
            }
        }
    }
}

async fn read(
    connection: &Connection,
    bucket: Bucket,
) -> Result<BoxStream<'static, Option<BucketNews>>, FleetError> {
    let name = match bucket {
        Bucket::Hosts => HOSTS_BUCKET,
        Bucket::State => STATE_BUCKET,
    };
    let config = OrderedConfig {
        deliver_subject: connection.client.new_inbox(),
        deliver_policy: DeliverPolicy::LastPerSubject,
        filter_subject: format!("$KV.{name}.>"),
        ..OrderedConfig::default()
    };
    let jetstream = &connection.jetstream;
    let consumer: Consumer<OrderedConfig> = jetstream
        .create_consumer_on_stream(config, bucket_stream(name))
        .await
        .map_err(|error| connection.unreadable(name, &error))?;
    let is_empty = consumer.cached_info().num_pending == 0;
    let messages: Ordered = consumer
        .messages()
        .await
        .map_err(|error| connection.unreadable(name, &error))?;
    let mut is_complete = is_empty;
    let entries = messages.flat_map(move |message| {
        let mut reads = Vec::new();
        match message {
            Ok(message) => {
                let pending = message.info().map_or(0, |info| info.pending);
                reads.extend(
                    entry(bucket, name, &message).map(|entry| Some(BucketNews::Entry(entry))),
                );
                if !is_complete && pending == 0 {
                    is_complete = true;
                    reads.push(Some(BucketNews::Complete));
                }
            }
            Err(_) => reads.push(None),
        }
        futures_util::stream::iter(reads)
    });
    if is_empty {
        return Ok(once(async { Some(BucketNews::Complete) })
            .chain(entries)
            .boxed());
    }
    Ok(entries.boxed())
}

fn entry(bucket: Bucket, name: &str, message: &Message) -> Option<BucketEntry> {
    let key = message.subject.strip_prefix("$KV.")?.strip_prefix(name)?;
    let has = |header| {
        let headers = message.headers.as_ref();
        headers.is_some_and(|headers| headers.get(header).is_some())
    };
    let is_removed = has(OPERATION) || has(MARKER);
    let published = message.info().ok()?.published;
    Some(BucketEntry {
        bucket,
        key: key.strip_prefix('.')?.to_owned(),
        value: (!is_removed).then(|| message.payload.to_vec()),
        at: Millis::try_from(published.unix_timestamp_nanos() / 1_000_000).unwrap_or_default(),
    })
}

/// At least the time between two publications. Records are published at once; these are for lists.
const PAUSE: Duration = Duration::from_secs(1);

/// After which time all is published again, so that it is not removed while the daemon lives.
const RENEWED: Duration = Duration::from_secs(24 * 3600);

/// The maximum length of a command, a folder, a prompt and the last line, in characters.
const MAX_TEXT: usize = 160;

/// Publishes what changes until the broker does not confirm it; at first all, because it may have lost
/// what it had.
pub(super) async fn publish(
    buckets: &Buckets<'_>,
    host: &str,
    key: &str,
    live: &Live,
) -> Result<(), FleetError> {
    let mut boards = live.tasks();
    loop {
        let mut published: BTreeMap<String, String> = BTreeMap::new();
        let renewed_at = Instant::now() + RENEWED;
        loop {
            let board = Arc::clone(&boards.borrow_and_update());
            let values = values_of(&board, host, key, &live.session_name());
            for (name, value) in &values {
                if published.get(name) != Some(value) {
                    let bytes = value.as_bytes();
                    buckets.put(STATE_BUCKET, name, bytes, KEPT).await?;
                }
            }
            for name in published.keys().filter(|name| !values.contains_key(*name)) {
                buckets.remove(STATE_BUCKET, name).await?;
            }
            published = values;
            sleep(PAUSE).await;
            match timeout_at(renewed_at, boards.changed()).await {
                Ok(Ok(())) => {}
                // The daemon is leaving.
                Ok(Err(_)) => return std::future::pending().await,
                Err(_) => break,
            }
        }
    }
}

/// Returns the values of a session by their keys. The session's own names its windows, and sorts before
/// them.
fn values_of(
    board: &TaskBoard,
    host: &str,
    key: &str,
    session_name: &str,
) -> BTreeMap<String, String> {
    let session = SessionState {
        v: VERSION,
        host: host.to_owned(),
        session_name: session_name.to_owned(),
        exists: board.exists,
        windows: board.tasks.keys().map(ToString::to_string).collect(),
    };
    let mut values = BTreeMap::new();
    values.insert(session_key(host, key), json(&session));
    for (window, task) in &board.tasks {
        let state = TaskState {
            v: VERSION,
            host: host.to_owned(),
            session_name: session_name.to_owned(),
            task: shortened(task.clone()),
        };
        values.insert(task_key(host, key, &window.to_string()), json(&state));
    }
    values
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it has text and numbers only")
}

/// Returns a task with its last line alone, and short texts.
fn shortened(mut task: LsTask) -> LsTask {
    let short = |text: &str| text::bounded(text, MAX_TEXT);
    let of_task = Arc::make_mut(&mut task.task);
    of_task.screen = Screen {
        rows: [short(&of_task.last_line())].into(),
        alternate: of_task.screen.alternate,
        ..Screen::default()
    };
    of_task.command = of_task.command.as_deref().map(short);
    of_task.cwd = of_task.cwd.as_deref().map(short);
    task.waiting_for = task.waiting_for.as_deref().map(short);
    // It changes all the time.
    task.next_restart = task
        .next_restart
        .map(|next| NextRestart { in_ms: 0, ..next });
    task
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    #[test]
    fn a_session_names_its_windows_and_a_task_is_short() {
        let mut task = task("@1 api running");
        task.command = Some("x".repeat(5000));
        task.screen.rows = ["y".repeat(900), "last".to_owned(), String::new()].into();
        let window = task.window;
        let listed = LsTask::new(task, Some("z".repeat(900)));
        let board = TaskBoard {
            exists: true,
            tasks: BTreeMap::from([(window, listed)]),
        };
        let values = values_of(&board, "gpu1", "api-0a", "api");
        let keys: Vec<&String> = values.keys().collect();
        assert_eq!(keys, ["gpu1.api-0a.session", "gpu1.api-0a.w1"]);
        let session: SessionState = serde_json::from_str(&values["gpu1.api-0a.session"]).unwrap();
        assert_eq!(
            (session.exists, session.windows),
            (true, vec!["@1".to_owned()])
        );
        let value = &values["gpu1.api-0a.w1"];
        let state: TaskState = serde_json::from_str(value).unwrap();
        assert_eq!(state.task.task.last_line(), "last");
        assert!(value.len() < 1400, "{value}");
    }
}
