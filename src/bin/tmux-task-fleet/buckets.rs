//! Values in the broker's buckets: the last state of each task of the session, and this machine's
//! presence, one with a short lifetime, which each daemon of the machine renews.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use async_nats::jetstream::context::PublishErrorKind;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll, once, select_all};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use serde_json::{Value, json};
use tmux_task::model::{Error, text};

use crate::board::{Bucket, BucketEntry};
use crate::connection::{
    Connection, KEPT, PRESENT, broken, bucket_stream, create_missing, not_stored,
};
use crate::layout::{
    HOSTS_BUCKET, HostState, Machine, STATE_BUCKET, SessionState, TaskState, VERSION,
    bucket_subject, parse, session_key, task_key, token,
};
use crate::machine::millis;

/// How often the presence is renewed.
const BEAT: Duration = Duration::from_secs(20);

/// Puts values into the buckets. Each is there when the broker has confirmed it.
#[derive(Debug)]
pub(crate) struct Buckets<'a> {
    connection: &'a Connection,
    /// Whether the broker takes lifetimes of single values: from 2.11 on, if the bucket is so.
    with_lifetimes: AtomicBool,
}

impl<'a> Buckets<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            with_lifetimes: AtomicBool::new(true),
        }
    }

    /// Puts a value, which is removed after its lifetime.
    pub(crate) async fn put(
        &self,
        bucket: &str,
        key: &str,
        value: &[u8],
        lifetime: Duration,
    ) -> Result<(), Error> {
        if self.with_lifetimes.load(Ordering::Relaxed) {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-TTL", format!("{}s", lifetime.as_secs()));
            match self.publish(bucket, key, &headers, value).await {
                Err(PublishErrorKind::Other) => self.with_lifetimes.store(false, Ordering::Relaxed),
                done => return done.map_err(|kind| not_stored(self.connection, kind)),
            }
        }
        let done = self.publish(bucket, key, &HeaderMap::new(), value).await;
        done.map_err(|kind| not_stored(self.connection, kind))
    }

    /// Removes a value.
    async fn remove(&self, bucket: &str, key: &str) -> Result<(), Error> {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, "DEL");
        let done = self.publish(bucket, key, &headers, &[]).await;
        done.map_err(|kind| not_stored(self.connection, kind))
    }

    /// Stores a message. On a broker that has no streams yet, they are created first.
    async fn publish(
        &self,
        bucket: &str,
        key: &str,
        headers: &HeaderMap,
        value: &[u8],
    ) -> Result<(), PublishErrorKind> {
        let mut may_create = true;
        loop {
            let (subject, value) = (bucket_subject(bucket, key), value.to_vec());
            let jetstream = &self.connection.jetstream;
            let sent = jetstream.publish_with_headers(subject, headers.clone(), value.into());
            let confirmed = match sent.await {
                Ok(confirmed) => confirmed.await,
                Err(error) => Err(error),
            };
            let kind = match confirmed {
                Ok(_) => return Ok(()),
                Err(error) => error.kind(),
            };
            let is_missing = kind == PublishErrorKind::StreamNotFound && may_create;
            if !is_missing || create_missing(self.connection).await.is_err() {
                return Err(kind);
            }
            may_create = false;
        }
    }
}

/// Returns what a host has said last of its presence, and how long ago; `None` if it has not, or these
/// credentials do not permit to know that.
pub(crate) async fn published_presence(
    connection: &Connection,
    host: &str,
) -> Option<(Option<HostState>, Duration)> {
    let bucket = bucket_stream(HOSTS_BUCKET);
    let stream = connection.jetstream.get_stream_no_info(bucket).await.ok()?;
    let subject = bucket_subject(HOSTS_BUCKET, &token(host));
    let asked = async { Ok(stream.direct_get_last_for_subject(subject).await) };
    let found = connection.unless_refused(asked).await.ok()?.ok()?;
    let age = SystemTime::now().duration_since(found.time.into());
    Some((parse(&found.payload), age.unwrap_or_default()))
}

/// The presence of this machine in the fleet.
#[derive(Debug)]
pub(crate) struct Presence<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) buckets: &'a Buckets<'a>,
    pub(crate) state: HostState,
}

impl Presence<'_> {
    /// Checks that no other machine has the name.
    ///
    /// # Errors
    ///
    /// When another one has beaten with it in the time that a beat counts.
    pub(crate) async fn check_name(&self) -> Result<(), Error> {
        let host = &self.state.host;
        let Some((state, age)) = published_presence(self.connection, host).await else {
            return Ok(());
        };
        // From 2.11 on the broker has removed it by then.
        let is_here = self.connection.client.is_server_compatible(2, 11, 0) || age < PRESENT;
        let own = self.state.machine.as_ref();
        let other = state
            .and_then(|state| state.machine)
            .filter(|other| is_here && own.is_some_and(|own| own.id != other.id));
        let Some(Machine { name, .. }) = other else {
            return Ok(());
        };
        let why =
            format!("another machine, which its system calls {name}, is {host} in this fleet");
        Err(Error::failed(why).with_hint("`[fleet] host` in the configuration names this one"))
    }

    /// Says that the machine is there.
    pub(crate) async fn beat(&self) -> Result<(), Error> {
        let value = serde_json::to_vec(&self.state).expect("it has text only");
        let key = token(&self.state.host);
        self.buckets.put(HOSTS_BUCKET, &key, &value, PRESENT).await
    }

    /// Says so again and again, until the broker does not confirm it, or another machine has the name.
    pub(crate) async fn keep(&self) -> Result<(), Error> {
        loop {
            sleep(BEAT).await;
            self.check_name().await?;
            self.beat().await?;
        }
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
    pub(crate) async fn begin(connection: &Connection, hosts_only: bool) -> Result<Self, Error> {
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
    pub(crate) async fn next(&mut self) -> Result<BucketNews, Error> {
        loop {
            let news = tokio::select! {
                biased;
                news = self.streams.next() => news.flatten(),
                () = self.connection.ended() => None,
            };
            match news {
                Some(BucketNews::Complete) if self.n_incomplete > 1 => self.n_incomplete -= 1,
                Some(news) => return Ok(news),
                None => return Err(broken()),
            }
        }
    }
}

async fn read(
    connection: &Connection,
    bucket: Bucket,
) -> Result<BoxStream<'static, Option<BucketNews>>, Error> {
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
        at: millis(published),
    })
}

/// At least the time between two publications. Records are published at once; these are for lists.
const PAUSE: Duration = Duration::from_secs(1);

/// After which time all is published again, so that it is not removed while the daemon lives.
const RENEWED: Duration = Duration::from_secs(24 * 3600);

/// The maximum length of a command, a folder, a prompt and the last line, in characters.
const MAX_TEXT: usize = 160;

/// The tasks of the session, as its daemon has seen them last.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskBoard {
    /// Whether all of them are known.
    pub(crate) is_complete: bool,
    /// Whether the session exists.
    pub(crate) exists: bool,
    pub(crate) session_name: String,
    /// As `ls --json` has them, by the id of the window.
    pub(crate) tasks: BTreeMap<String, Value>,
}

impl TaskBoard {
    /// Takes a line of the daemon about tasks: those that have changed, or all of them.
    pub(crate) fn apply(&mut self, line: &Value) {
        if line["complete"] == true {
            self.tasks.clear();
            self.is_complete = true;
        }
        self.exists = line["exists"] == true;
        let list = |field: &str| line[field].as_array().into_iter().flatten();
        for window in list("removed").filter_map(Value::as_str) {
            self.tasks.remove(window);
        }
        for task in list("tasks") {
            if let Some(window) = task["windowId"].as_str() {
                self.tasks.insert(window.to_owned(), task.clone());
            }
        }
    }
}

/// Publishes what changes until the broker does not confirm it; at first all, because it may have lost
/// what it had.
pub(crate) async fn publish(
    buckets: &Buckets<'_>,
    host: &str,
    key: &str,
    mut boards: watch::Receiver<TaskBoard>,
) -> Result<(), Error> {
    loop {
        let mut published: BTreeMap<String, String> = BTreeMap::new();
        let renewed_at = Instant::now() + RENEWED;
        loop {
            let board = boards.borrow_and_update().clone();
            if board.is_complete {
                let values = values_of(&board, host, key);
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
            }
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
fn values_of(board: &TaskBoard, host: &str, key: &str) -> BTreeMap<String, String> {
    let session = SessionState {
        v: VERSION,
        host: host.to_owned(),
        session_name: board.session_name.clone(),
        exists: board.exists,
        windows: board.tasks.keys().cloned().collect(),
    };
    let mut values = BTreeMap::new();
    values.insert(session_key(host, key), json_of(&session));
    for (window, task) in &board.tasks {
        let state = TaskState {
            v: VERSION,
            host: host.to_owned(),
            session_name: board.session_name.clone(),
            task: shortened(task.clone()),
        };
        values.insert(task_key(host, key, window), json_of(&state));
    }
    values
}

fn json_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it has text and numbers only")
}

/// Returns a task with its last line alone, and short texts.
fn shortened(mut task: Value) -> Value {
    let lines = task["outputPreview"].as_str().unwrap_or_default().lines();
    let last = lines.rev().find(|line| !line.trim().is_empty());
    task["outputPreview"] = json!(last.unwrap_or_default());
    for name in ["outputPreview", "command", "taskCwd", "waitingFor"] {
        if let Some(Value::String(text)) = task.get_mut(name) {
            *text = text::bounded(text, MAX_TEXT);
        }
    }
    if let Some(Value::Object(next)) = task.get_mut("nextRestart") {
        // It changes all the time.
        next.insert("inMs".to_owned(), json!(0));
    }
    if let Value::Object(fields) = &mut task {
        for cursor in ["cursorX", "cursorY"] {
            fields.remove(cursor);
        }
    }
    task
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_names_its_windows_and_a_task_is_short() {
        let mut board = TaskBoard {
            session_name: "api".to_owned(),
            ..TaskBoard::default()
        };
        let output = format!("{}\nlast\n", "y".repeat(900));
        let task = json!({"windowId": "@1", "windowName": "api", "outputPreview": output,
            "command": "x".repeat(5000), "waitingFor": "z".repeat(900)});
        let old = json!({"windowId": "@2"});
        board
            .apply(&json!({"exists": true, "complete": true, "tasks": [task, old], "removed": []}));
        board.apply(&json!({"exists": true, "complete": false, "tasks": [], "removed": ["@2"]}));
        let values = values_of(&board, "gpu1", "api-0a");
        let keys: Vec<&String> = values.keys().collect();
        assert_eq!(keys, ["gpu1.api-0a.session", "gpu1.api-0a.w1"]);
        let session: SessionState = serde_json::from_str(&values["gpu1.api-0a.session"]).unwrap();
        assert_eq!(
            (session.exists, session.windows),
            (true, vec!["@1".to_owned()])
        );
        let value = &values["gpu1.api-0a.w1"];
        let state: TaskState = serde_json::from_str(value).unwrap();
        assert_eq!(state.task["outputPreview"], "last");
        assert!(value.len() < 1400, "{value}");
    }
}
