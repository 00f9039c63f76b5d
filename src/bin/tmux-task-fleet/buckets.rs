//! What this machine says of itself in the broker's buckets: that it is there, by a value with a short
//! lifetime, which each daemon renews, and the last state of each task of the session.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use serde::Deserialize;
use serde_json::{Value, json};
use tmux_task::model::{Error, text};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connection::{Connection, KEPT, PRESENT, create_missing};
use crate::layout::{
    HOSTS, HostState, Machine, OPERATION, SESSION, STATE, VERSION, parse, subject, window_word,
};

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
    let mut done = connection.store(subject, message.clone()).await;
    if matches!(done, Err(PublishErrorKind::StreamNotFound)) {
        create_missing(connection).await;
        done = connection.store(subject, message).await;
    }
    if matches!(done, Err(PublishErrorKind::Other)) && lifetime.is_some() {
        // The bucket is one without lifetimes of single values.
        done = connection.store(subject, plain).await;
    }
    done.map_err(|kind| connection.not_confirmed(kind))
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
    Some((parse(&found.payload), age.unwrap_or_default()))
}

/// Checks that no other machine has the name.
///
/// # Errors
///
/// When another one has beaten with it in the time that a beat counts.
pub(crate) async fn check_name(connection: &Connection, state: &HostState) -> Result<(), Error> {
    let host = &state.host;
    let Some((there, age)) = published_presence(connection, host).await else {
        return Ok(());
    };
    // From 2.11 on the broker has removed it by then.
    let is_here = connection.client.is_server_compatible(2, 11, 0) || age < PRESENT;
    let other = there.and_then(|there| there.machine);
    match (other, &state.machine) {
        (Some(Machine { id, name }), Some(own)) if is_here && id != own.id => {
            let why =
                format!("another machine, which its system calls {name}, is {host} in this fleet");
            Err(Error::failed(why).with_hint("`[fleet] host` in the configuration names this one"))
        }
        _ => Ok(()),
    }
}

/// Says that the machine is there.
pub(crate) async fn beat(connection: &Connection, state: &HostState) -> Result<(), Error> {
    let subject = subject(HOSTS.root, &[&state.host]);
    let value = message(&json!(state).to_string());
    put(connection, &subject, value, Some(PRESENT)).await
}

/// Says so again and again, until the broker does not confirm it, or another machine has the name.
pub(crate) async fn keep_beating(connection: &Connection, state: &HostState) -> Result<(), Error> {
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
pub(crate) struct TasksLine {
    exists: bool,
    /// Whether these are all tasks. Others are as they were before.
    complete: bool,
    tasks: Vec<Value>,
    /// The ids of windows that are gone.
    removed: Vec<String>,
}

/// The tasks of the session, as its daemon has seen them last.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskBoard {
    pub(crate) session_name: String,
    /// Whether the session exists; `None` before its tasks are known.
    pub(crate) exists: Option<bool>,
    /// As `ls --json` has them, by the id of the window.
    pub(crate) tasks: BTreeMap<String, Value>,
}

impl TaskBoard {
    /// Takes a line of the daemon, the first of which has all tasks.
    pub(crate) fn apply(&mut self, line: TasksLine) {
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
pub(crate) async fn keep_tasks(
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
