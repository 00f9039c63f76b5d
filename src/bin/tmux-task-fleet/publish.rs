//! A session on the broker: its daemon writes its records and tasks to standard input, and reads on standard
//! output how far the broker has them. One process is one connection: when that ends, the process does,
//! with why, and the daemon starts another one after a pause.
//!
//! In: first a [`Session`], then, once `{"after":SEQ}` was written, the daemon's stream of the feed behind
//! that record. Out: `{"ready":true}` when others reach this machine, `{"ack":SEQ}` for each record.
//!
//! The feed is the truth: what the broker has not confirmed, or has lost since, is published from it.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use async_nats::header::NATS_MESSAGE_ID as MESSAGE_ID;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tmux_task::model::{Body, Error, OURS, Record, Seq, text};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::command::Service;
use crate::connection::{Connection, FleetConfig, KEPT, PRESENT, broken, connect, create_missing};
use crate::layout::{
    FEED, HOSTS, HostState, LOOK_HEADER, Machine, OPERATION, SESSION, STATE, VERSION, feed_subject,
    message_id, parse, parse_message_id, subject, token, wakes_of, window_word,
};
use crate::{millis, print_json, private_folder, system_name};

/// How many records may wait for their confirmation: what the broker takes in the time of an answer.
const MOST_UNDER_WAY: usize = 256;

/// Between the epoch of a feed and how often it has gone back to an older copy; and the file that has both.
const GENERATION: &str = "-";
const GENERATION_FILE: &str = "fleet-generation";

/// How much a message may be smaller than the broker permits, for its headers, in bytes.
const HEADERS: usize = 4 << 10;

/// What the daemon says first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    /// The key of the session's files.
    key: String,
    session_name: String,
    /// The epoch of its feed, and the last record.
    epoch: String,
    last_seq: Seq,
    /// The last record that the broker has confirmed.
    cursor: Seq,
    /// The folder of its state.
    state: PathBuf,
    /// The folder that all sessions of the user share while the machine runs.
    runtime: PathBuf,
}

pub(crate) async fn run() -> Result<(), Error> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let first = lines.next_line().await.map_err(Error::of)?;
    let session = first.and_then(|line| serde_json::from_str(&line).ok());
    let session: Session = session.ok_or_else(|| Error::usage("a daemon starts this"))?;
    let connection = connect().await?;
    let FleetConfig { host, allow, .. } = &*connection.config;
    let shared = session.runtime.join("fleet");
    let state = HostState {
        v: VERSION,
        host: host.clone(),
        version: OURS.to_owned(),
        allow: json!(allow),
        machine: Some(Machine {
            id: machine_id(&shared, &connection.client.new_inbox())
                .map_err(|error| Error::folder(&shared, &error))?,
            name: system_name(),
        }),
    };
    check_name(&connection, &state).await?;
    // Whoever sees that the machine is there can ask it.
    let service = Service::begin(&connection, shared.join("keys")).await?;
    beat(&connection, &state).await?;
    print_json(&json!({ "ready": true }))?;
    let (boards, board) = watch::channel(TaskBoard {
        session_name: session.session_name.clone(),
        ..TaskBoard::default()
    });
    let serving = async {
        tokio::try_join!(
            service.serve(),
            keep_tasks(&connection, &session.key, board),
            keep_beating(&connection, &state),
        )
    };
    tokio::select! {
        // All that the daemon had is published.
        published = session.publish(&connection, lines, boards) => published,
        Err(error) = serving => Err(error),
        () = connection.ended() => Err(broken()),
    }
}

/// Returns what identifies this machine until it ends: all of the user's daemons have the same. `new` is a name
/// that nothing else has.
fn machine_id(folder: &Path, new: &str) -> io::Result<String> {
    private_folder(folder)?;
    let path = folder.join("id");
    // A link is there as a whole, or not at all: another daemon may read it.
    match symlink(new, &path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(fs::read_link(path)?.display().to_string()),
    }
}

impl Session {
    /// Publishes all records that the broker does not have, and those to come, until the daemon leaves.
    async fn publish(
        &self,
        connection: &Connection,
        lines: Lines<BufReader<Stdin>>,
        boards: watch::Sender<TaskBoard>,
    ) -> Result<(), Error> {
        let (epoch, known) = self.find_start(connection).await?;
        // Whatever ended the connection before may have come between a record and its wake.
        print_json(&json!({ "after": known.min(self.cursor) }))?;
        let oldest = millis(SystemTime::now() - KEPT);
        // A line that cannot be read is the last one.
        let lines = stream::unfold(lines, async |mut lines| {
            Some((lines.next_line().await.ok()??, lines))
        });
        let records = lines.filter_map(async |line| read(&line, &boards));
        #[expect(clippy::async_yields_async, reason = "sent now, confirmed later")]
        let sent = records.then(async |record| {
            let (seq, is_known) = (record.seq, record.seq <= known);
            let record = Record {
                epoch: epoch.clone(),
                ..record
            };
            let mut sent = Ok(Vec::new());
            // The broker would remove an older one at once.
            if record.time >= oldest {
                sent = self.send(connection, record, is_known).await;
            }
            async move {
                for stored in sent? {
                    stored.await?;
                }
                Ok::<Seq, PublishError>(seq)
            }
        });
        let mut stored = pin!(sent.buffered(MOST_UNDER_WAY));
        let mut confirmed_before = self.cursor;
        while let Some(done) = stored.next().await {
            match done {
                // What is published again is acknowledged already.
                Ok(seq) if seq > confirmed_before => {
                    confirmed_before = seq;
                    print_json(&json!({ "ack": seq }))?;
                }
                Ok(_) => {}
                Err(error) => {
                    if error.kind() == PublishErrorKind::StreamNotFound {
                        create_missing(connection).await;
                    }
                    return Err(connection.not_confirmed(error.kind()));
                }
            }
        }
        Ok(())
    }

    /// Returns the epoch by which the broker knows the feed, and the last record of the session that the broker
    /// has; the last one that it confirmed where it may not be asked. A broker that has more than the feed has it
    /// from before the machine's state went back to an older copy: what comes now has other numbers, so it is
    /// another feed to whoever reads.
    async fn find_start(&self, connection: &Connection) -> Result<(String, Seq), Error> {
        let (cursor, last_seq) = (self.cursor, self.last_seq);
        let noted = self.noted_generation();
        let subject = subject(FEED.root, &[&connection.config.host, &self.key]);
        let last = connection.last(FEED, format!("{subject}.>")).await;
        // These credentials may only publish.
        let is_known = last.is_ok();
        let id = last.ok().flatten();
        let id = id.and_then(|last| parse_message_id(last.headers.get(MESSAGE_ID)?.as_str()));
        // A feed that was created again has other records with these numbers.
        let found = id.and_then(|(epoch, seq)| Some((self.generation_of(&epoch)?, seq)));
        // The latest generation, and the last record of that.
        let (mut generation, known) = found.unwrap_or_default().max((noted, 0));
        let mut after = if is_known { known } else { cursor };
        if after > last_seq {
            generation += 1;
            after = cursor.min(last_seq);
        }
        let epoch = match generation {
            0 => self.epoch.clone(),
            n => format!("{}{GENERATION}{n}", self.epoch),
        };
        if generation != noted {
            let path = self.state.join(GENERATION_FILE);
            fs::write(&path, &epoch).map_err(|error| Error::folder(&path, &error))?;
        }
        Ok((epoch, after))
    }

    /// Returns how often the feed with this epoch, as the broker knows it, had gone back; `None` for another
    /// feed.
    fn generation_of(&self, epoch: &str) -> Option<u64> {
        match epoch.strip_prefix(&self.epoch)? {
            "" => Some(0),
            rest => rest.strip_prefix(GENERATION)?.parse().ok(),
        }
    }

    /// A broker that has lost everything does not know it.
    fn noted_generation(&self) -> u64 {
        let noted = fs::read_to_string(self.state.join(GENERATION_FILE)).unwrap_or_default();
        self.generation_of(&noted).unwrap_or_default()
    }

    /// Sends a record, unless the broker has it, and the wake of a conversation that it is for. Returns what
    /// resolves when each is stored.
    async fn send(
        &self,
        connection: &Connection,
        record: Record,
        is_known: bool,
    ) -> Result<Vec<PublishAckFuture>, PublishError> {
        let (host, key) = (&connection.config.host, &self.key);
        let mut subjects = Vec::new();
        if !is_known {
            subjects.push(feed_subject(host, key, &record.body));
        }
        if let Body::FollowUp {
            owner: Some(owner), ..
        } = &record.body
        {
            subjects.push(format!("{}.{}", wakes_of(owner), token(host)));
        }
        let last_of_write = record.seq + Seq::from(record.more);
        let message = PublishMessage::build()
            .message_id(message_id(host, key, &record.epoch, record.seq))
            .header(LOOK_HEADER, format!("{}:{last_of_write}", record.epoch))
            .payload(payload(host, record, connection.client.max_payload()).into());
        let mut sent = Vec::new();
        for subject in subjects {
            let jetstream = &connection.jetstream;
            sent.push(jetstream.send_publish(subject, message.clone()).await?);
        }
        Ok(sent)
    }
}

/// Reads a line of the daemon: a record; or what it says of tasks, which is noted.
fn read(line: &str, boards: &watch::Sender<TaskBoard>) -> Option<Record> {
    let Ok(record) = serde_json::from_str::<Record>(line) else {
        let tasks = serde_json::from_str(line).ok()?;
        boards.send_modify(|board| board.apply(tasks));
        return None;
    };
    boards.send_if_modified(|board| {
        let is_other = board.session_name != record.session_name;
        board.session_name.clone_from(&record.session_name);
        is_other
    });
    Some(record)
}

/// Returns a record as it is published. If it is longer than the broker permits, it is without the
/// output of its tasks, and if that does not suffice, without its events: their records are there.
fn payload(host: &str, mut record: Record, most: usize) -> Vec<u8> {
    record.host = Some(host.to_owned());
    // The daemon's own.
    record.checkpoint = None;
    let json = |record: &Record| serde_json::to_vec(record).expect("it has text and numbers only");
    let most = most.saturating_sub(HEADERS);
    let mut payload = json(&record);
    if payload.len() > most {
        match &mut record.body {
            Body::FollowUp { message, .. } => {
                for event in &mut message.details.events {
                    event.task.screen.forget_rows();
                }
            }
            Body::Event(event) => event.task.screen.forget_rows(),
            Body::Notice { text, .. } => text.truncate(text.floor_char_boundary(most / 2)),
        }
        payload = json(&record);
    }
    if payload.len() > most
        && let Body::FollowUp { message, .. } = &mut record.body
    {
        message.details.events.clear();
        payload = json(&record);
    }
    payload
}

// What this machine says of itself in the broker's buckets: that it is there, by a value with a short lifetime,
// which each daemon renews, and the last state of each task of the session.

/// How often the presence is renewed.
const BEAT: Duration = Duration::from_secs(20);

/// The header with the lifetime of a value.
const LIFETIME: &str = "Nats-TTL";

/// Stores a message; with a lifetime it is removed after that. It is stored when this returns. On a broker that
/// has no streams yet, they are created first.
async fn put(
    connection: &Connection,
    subject: &str,
    plain: PublishMessage,
    lifetime: Option<Duration>,
) -> Result<(), Error> {
    let message = match lifetime {
        Some(lifetime) => (plain.clone()).header(LIFETIME, format!("{}s", lifetime.as_secs())),
        None => plain.clone(),
    };
    let store = async |message| {
        let sent = connection
            .jetstream
            .send_publish(subject.to_owned(), message);
        let stored = async { sent.await?.await };
        stored.await.map_err(|error: PublishError| error.kind())
    };
    let mut done = store(message.clone()).await;
    if matches!(done, Err(PublishErrorKind::StreamNotFound)) {
        create_missing(connection).await;
        done = store(message).await;
    }
    if matches!(done, Err(PublishErrorKind::Other)) && lifetime.is_some() {
        // The bucket is one without lifetimes of single values.
        done = store(plain).await;
    }
    done.map(drop)
        .map_err(|kind| connection.not_confirmed(kind))
}

fn message(value: &str) -> PublishMessage {
    PublishMessage::build().payload(value.to_owned().into())
}

/// Returns what a host has said last of its presence, and how long ago; `None` if it has not, or these
/// credentials do not permit to know that.
pub(crate) async fn published_presence(
    connection: &Connection,
    host: &str,
) -> Option<(Option<HostState>, Duration)> {
    let found = connection.last(HOSTS, subject(HOSTS.root, &[host]));
    let found = found.await.ok()??;
    let age = SystemTime::now().duration_since(found.time.into());
    Some((parse(&found.payload, "\n"), age.unwrap_or_default()))
}

/// Checks that no other machine has the name.
///
/// # Errors
///
/// When another one has beaten with it in the time that a beat counts.
async fn check_name(connection: &Connection, state: &HostState) -> Result<(), Error> {
    let host = &state.host;
    let there = match published_presence(connection, host).await {
        // From 2.11 on the broker has removed it by then.
        Some((there, age)) if age < PRESENT || connection.client.is_server_compatible(2, 11, 0) => {
            there.and_then(|there| there.machine)
        }
        _ => None,
    };
    let own = state.machine.as_ref().map(|own| &own.id);
    let Some(Machine { id, name }) = there else {
        return Ok(());
    };
    if Some(&id) == own {
        return Ok(());
    }
    let why = format!("another machine, which its system calls {name}, is {host} in this fleet");
    Err(Error::failed(why).with_hint("`[fleet] host` in the configuration names this one"))
}

/// Says that the machine is there.
async fn beat(connection: &Connection, state: &HostState) -> Result<(), Error> {
    let subject = subject(HOSTS.root, &[&state.host]);
    let value = message(&json!(state).to_string());
    put(connection, &subject, value, Some(PRESENT)).await
}

/// Says so again and again, until the broker does not confirm it, or another machine has the name.
async fn keep_beating(connection: &Connection, state: &HostState) -> Result<(), Error> {
    loop {
        sleep(BEAT).await;
        check_name(connection, state).await?;
        beat(connection, state).await?;
    }
}

/// At least the time between two publications. Records are published at once; these are for lists.
const PAUSE: Duration = Duration::from_secs(1);

/// After which time all is published again, so that it is not removed while the daemon lives.
const RENEWED: Duration = Duration::from_secs(24 * 3600);

/// The maximum length of a command, a folder, a prompt and the last line, in characters.
const MAX_TEXT: usize = 160;

/// A line of the daemon about tasks.
#[derive(Debug, Deserialize)]
struct TasksLine {
    exists: bool,
    /// Whether these are all tasks. Others are as they were before.
    complete: bool,
    tasks: Vec<Value>,
    /// The ids of windows that are gone.
    removed: Vec<String>,
}

/// The tasks of the session, as its daemon has seen them last.
#[derive(Debug, Clone, Default)]
struct TaskBoard {
    session_name: String,
    /// Whether the session exists; `None` before its tasks are known.
    exists: Option<bool>,
    /// As `ls --json` has them, by the id of the window.
    tasks: BTreeMap<String, Value>,
}

impl TaskBoard {
    /// Takes a line of the daemon, the first of which has all tasks.
    fn apply(&mut self, line: TasksLine) {
        if line.complete {
            self.tasks.clear();
        }
        self.exists = Some(line.exists);
        for window in &line.removed {
            self.tasks.remove(window);
        }
        for task in line.tasks {
            if let Some(window) = task["windowId"].as_str() {
                self.tasks.insert(window.to_owned(), task);
            }
        }
    }
}

/// Publishes what changes until the broker does not confirm it; at first all, because it may have lost
/// what it had.
async fn keep_tasks(
    connection: &Connection,
    key: &str,
    mut boards: watch::Receiver<TaskBoard>,
) -> Result<(), Error> {
    let mut published: BTreeMap<String, String> = BTreeMap::new();
    let mut renewed_at = Instant::now() + RENEWED;
    loop {
        let board = boards.borrow_and_update().clone();
        if board.exists.is_some() {
            let values = values_of(&board, &connection.config.host, key);
            for (subject, value) in &values {
                if published.get(subject) != Some(value) {
                    put(connection, subject, message(value), Some(KEPT)).await?;
                }
            }
            published.retain(|subject, _| !values.contains_key(subject));
            for subject in published.keys() {
                let deleted = message("").header(OPERATION, "DEL");
                put(connection, subject, deleted, None).await?;
            }
            published = values;
            sleep(PAUSE).await;
        }
        match timeout_at(renewed_at, boards.changed()).await {
            Ok(Ok(())) => {}
            // The daemon is leaving.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => {
                published.clear();
                renewed_at += RENEWED;
            }
        }
    }
}

/// Returns the values of a session by their subjects. The session's own names its windows, and sorts before
/// them.
fn values_of(board: &TaskBoard, host: &str, key: &str) -> BTreeMap<String, String> {
    let value = |what: &str, mut value: Value| {
        value["v"] = json!(VERSION);
        value["host"] = json!(host);
        value["sessionName"] = json!(board.session_name);
        (subject(STATE.root, &[host, key, what]), value.to_string())
    };
    let windows: Vec<_> = board.tasks.keys().collect();
    let session = json!({ "exists": board.exists, "windows": windows });
    let task = |(window, task): (&String, &Value)| {
        value(
            &window_word(window),
            json!({ "task": shortened(task.clone()) }),
        )
    };
    let tasks = board.tasks.iter().map(task);
    tasks.chain([value(SESSION, session)]).collect()
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
    use crate::layout::SessionState;

    #[test]
    fn daemons_of_a_machine_have_its_id_and_other_machines_another() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = machine_id(one.path(), "a").unwrap();
        assert_eq!(machine_id(one.path(), "b").unwrap(), id);
        assert_ne!(machine_id(two.path(), "b").unwrap(), id);
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1);
    }

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
        for line in [
            json!({"exists": true, "complete": true, "tasks": [task, old], "removed": []}),
            json!({"exists": true, "complete": false, "tasks": [], "removed": ["@2"]}),
        ] {
            board.apply(serde_json::from_value(line).unwrap());
        }
        let values = values_of(&board, "gpu1", "api-0a");
        let keys: Vec<&String> = values.keys().collect();
        assert_eq!(
            keys,
            [
                "$KV.TT_STATE.gpu1.api-0a.session",
                "$KV.TT_STATE.gpu1.api-0a.w1"
            ]
        );
        let session: SessionState =
            serde_json::from_str(&values["$KV.TT_STATE.gpu1.api-0a.session"]).unwrap();
        assert_eq!(
            (session.exists, session.windows),
            (true, vec!["@1".to_owned()])
        );
        let value = &values["$KV.TT_STATE.gpu1.api-0a.w1"];
        let state: Value = serde_json::from_str(value).unwrap();
        assert_eq!(state["task"]["outputPreview"], "last");
        assert!(value.len() < 1400, "{value}");
    }
}
