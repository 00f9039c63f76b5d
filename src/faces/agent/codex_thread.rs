//! A thread of Codex: whether messages reach its model, handing them over, and which of them it has.

use std::fs;
use std::future::pending;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::Error as SocketError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::Conversation;
use super::hand_over::Given;
use super::outbox::Batch;
use crate::config::paths::Env;
use crate::files;
use crate::model::{Error, ErrorKind, with_causes};
use crate::process::run_program;

/// How many of a thread's last turns are searched for a message.
const TURNS: u32 = 50;

/// How many messages of the queue are listed.
const QUEUED: u32 = 100;

const QUEUES_WITHIN: Duration = Duration::from_secs(30);

/// Returns the id of a message, which Codex keeps: which records are in it.
pub(super) fn message_id(batch: &Batch) -> String {
    let seqs = &batch.seqs;
    let (first, last) = (seqs.first().copied(), seqs.last().copied());
    let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
    format!("tmux-task:{}:{first}-{last}", batch.epoch)
}

/// A thread, and the connection to the app-server that runs it. An error is [`ErrorKind::Unreachable`] if no
/// app-server listens, and [`ErrorKind::Lost`] if there was no answer: what was asked for may have been done.
pub(super) struct CodexThread {
    /// The folder of Codex's files.
    home: PathBuf,
    id: String,
    /// Codex's program.
    program: PathBuf,
    connection: Option<AppServer>,
}

impl CodexThread {
    /// Returns the thread of this conversation; `None` when there is no home folder.
    pub(super) fn new(conversation: &Conversation, program: PathBuf, env: Env<'_>) -> Option<Self> {
        let set = |name: &str| Some(PathBuf::from(env(name).filter(|value| !value.is_empty())?));
        Some(Self {
            home: set("CODEX_HOME").or_else(|| Some(set("HOME")?.join(".codex")))?,
            id: conversation.id().to_owned(),
            program,
            connection: None,
        })
    }

    /// Checks whether messages reach the thread's model. If not, the text says why.
    pub(super) async fn check_reachable(&mut self) -> Result<(), String> {
        let is_exec = match self.call("thread/read", json!({})).await {
            Ok(read) if read["thread"]["canAcceptDirectInput"] == false => {
                return Err("a subagent of Codex takes no messages".to_owned());
            }
            // The app-server accepts messages for it, and never delivers them.
            Ok(read) => read["thread"]["source"] == "exec",
            Err(error) if error.kind == ErrorKind::Unreachable => {
                let source = source_in(&self.home, &self.id);
                let source = source.map_err(|error| {
                    format!("the thread's file cannot be read: {}", with_causes(&error))
                })?;
                source.as_deref() == Some("exec")
            }
            Err(error) => return Err(error.message),
        };
        match is_exec {
            true => Err("`codex exec` takes no messages".to_owned()),
            false => Ok(()),
        }
    }

    /// Hands a message over: to the thread's queue, or without an app-server to Codex, which keeps it until the
    /// thread's process reads it, and does not say later what happened to it.
    pub(super) async fn add(&mut self, id: &str, text: &str) -> Result<Given, Error> {
        let input = json!([{"type": "text", "text": text, "text_elements": []}]);
        let params = json!({"input": input, "clientUserMessageId": id});
        match self.call("thread/queue/add", params).await {
            Ok(_) => Ok(Given::Sent),
            Err(error) if error.kind == ErrorKind::Unreachable => {
                let mut command = Command::new(&self.program);
                command
                    .args(["queue", "--thread", &self.id, "--message", text])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped());
                let queued = run_program(&mut command, b"", QUEUES_WITHIN).await;
                queued.map_err(|end| Error::failed(format!("`codex queue` failed: {end:?}")))?;
                Ok(Given::Received)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the queue or one of the last turns has the message.
    pub(super) async fn has(&mut self, id: &str) -> Result<bool, Error> {
        // A message goes from the queue to the thread.
        if self.is_queued(id).await? {
            return Ok(true);
        }
        let params = json!({"limit": TURNS, "sortDirection": "desc"});
        let listed = self.call("thread/turns/list", params).await?;
        Ok(is_in_turns(&listed, id))
    }

    /// Resolves when Codex reports that the thread's queue has changed. Reads what else Codex reports. Nothing is
    /// lost when the future is dropped.
    pub(super) async fn queue_changed(&mut self) {
        loop {
            let Some(connection) = &mut self.connection else {
                return pending().await;
            };
            match connection.receive().await {
                Ok(notification) => {
                    let is_ours = notification["params"]["threadId"] == self.id;
                    if is_ours && notification["method"] == "thread/queue/changed" {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "Codex's app-server has left");
                    self.connection = None;
                }
            }
        }
    }

    pub(super) async fn is_queued(&mut self, id: &str) -> Result<bool, Error> {
        let params = json!({"limit": QUEUED});
        let listed = self.call("thread/queue/list", params).await?;
        Ok(is_in_queue(&listed, id))
    }

    async fn call(&mut self, method: &str, mut params: Value) -> Result<Value, Error> {
        params["threadId"] = self.id.clone().into();
        let called = timeout(ANSWERS_WITHIN, async {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                None => {
                    let socket = self.home.join("app-server-control/app-server-control.sock");
                    self.connection.insert(AppServer::connect(&socket).await?)
                }
            };
            connection.call(method, params).await
        });
        let called = called.await.unwrap_or_else(|_| Err(silent()));
        called.inspect_err(|error| {
            if error.kind == ErrorKind::Lost {
                self.connection = None;
            }
        })
    }
}

fn is_in_queue(listed: &Value, id: &str) -> bool {
    let mut queued = listed["data"].as_array().into_iter().flatten();
    queued.any(|item| item["clientUserMessageId"] == id)
}

fn is_in_turns(listed: &Value, id: &str) -> bool {
    let turns = listed["data"].as_array().into_iter().flatten();
    let mut items = turns.flat_map(|turn| turn["items"].as_array().into_iter().flatten());
    items.any(|item| item["clientId"] == id)
}

/// Returns which of Codex's programs began the thread, from the thread's file, if there is one.
fn source_in(home: &Path, thread: &str) -> io::Result<Option<String>> {
    let end = format!("-{thread}.jsonl");
    let mut found = vec![home.join("sessions")];
    let is_no_folder =
        |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    // By year, month and day.
    for _ in 0..4 {
        let mut below = Vec::new();
        for folder in found {
            match fs::read_dir(&folder) {
                Ok(entries) => below.extend(entries.flatten().map(|entry| entry.path())),
                Err(error) if is_no_folder(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        found = below;
    }
    let is_it = |path: &PathBuf| path.to_string_lossy().ends_with(&end);
    let Some(path) = found.into_iter().find(is_it) else {
        return Ok(None);
    };
    let mut line = Vec::new();
    BufReader::new(files::open(&path)?).read_until(b'\n', &mut line)?;
    let meta: Value = serde_json::from_slice(&line)?;
    Ok(meta["payload"]["source"].as_str().map(ToOwned::to_owned))
}

// Codex's app-server: JSON-RPC over a WebSocket on its control socket.

/// How long the app-server may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// The longest message of the app-server, in bytes: a thread's turns may be in it.
const MAX_MESSAGE: usize = 256 << 20;

fn silent() -> Error {
    Error::new(ErrorKind::Lost, "Codex's app-server does not answer")
}

fn lost(error: SocketError) -> Error {
    let why = with_causes(&error);
    let why = format!("the connection to Codex's app-server failed: {why}");
    Error::new(ErrorKind::Lost, why)
}

struct AppServer {
    socket: WebSocketStream<UnixStream>,
    last_id: u64,
}

impl AppServer {
    async fn connect(path: &Path) -> Result<Self, Error> {
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(|error| {
            let why = format!("no app-server listens at {}: {error}", path.display());
            Error::new(ErrorKind::Unreachable, why)
        })?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let connected = client_async_with_config("ws://localhost/", stream, Some(config)).await;
        let (socket, _) = connected.map_err(lost)?;
        let mut server = Self { socket, last_id: 0 };
        let version = env!("CARGO_PKG_VERSION");
        let who = json!({
            "clientInfo": {"name": "tmux-task", "title": "tmux-task", "version": version},
            // The queue is part of it.
            "capabilities": {"experimentalApi": true},
        });
        server.call("initialize", who).await?;
        server.send(json!({"method": "initialized"})).await?;
        Ok(server)
    }

    /// Calls a method and returns its result. Passes over everything else.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value, Error> {
        self.last_id += 1;
        self.send(json!({"id": self.last_id, "method": method, "params": params}))
            .await?;
        let mut answer = loop {
            let value = self.receive().await?;
            if value["id"] == self.last_id && value.get("method").is_none() {
                break value;
            }
        };
        match answer.get("error") {
            Some(error) => {
                let reason = error["message"].as_str().unwrap_or("no reason");
                let why = format!("Codex's app-server refused `{method}`: {reason}");
                Err(Error::failed(why))
            }
            None => Ok(answer["result"].take()),
        }
    }

    /// Returns the next message. Nothing is lost when the future is dropped.
    async fn receive(&mut self) -> Result<Value, Error> {
        loop {
            let message = self.socket.next().await.ok_or_else(silent)?.map_err(lost)?;
            let parsed = message.to_text().ok().map(serde_json::from_str);
            if let Some(Ok(value)) = parsed {
                return Ok(value);
            }
        }
    }

    async fn send(&mut self, value: Value) -> Result<(), Error> {
        let message = Message::text(value.to_string());
        self.socket.send(message).await.map_err(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_the_queue_and_in_turns() {
        let queue = json!({"data": [
            {"id": "1", "clientUserMessageId": null},
            {"id": "2", "clientUserMessageId": "tmux-task:e1:3-7"},
        ]});
        assert!(is_in_queue(&queue, "tmux-task:e1:3-7"));
        assert!(!is_in_queue(&queue, "tmux-task:e1:3-8"));
        let turns = json!({"data": [
            {"items": [{"type": "userMessage", "clientId": null}]},
            {"items": [{"type": "agentMessage"}, {"type": "userMessage", "clientId": "tmux-task:e1:8-8"}]},
        ]});
        assert!(is_in_turns(&turns, "tmux-task:e1:8-8"));
        assert!(!is_in_turns(&json!({}), "tmux-task:e1:8-8"));
    }

    #[test]
    fn a_thread_of_exec_is_known_by_its_file() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(source_in(home.path(), "t1").unwrap(), None);
        for (day, thread, source) in [("21", "t1", "exec"), ("22", "t2", "cli")] {
            let folder = home.path().join("sessions/2026/11").join(day);
            fs::create_dir_all(&folder).unwrap();
            let line = json!({"type": "session_meta", "payload": {"source": source}});
            let name = format!("rollout-2026-11-{day}T09-00-00-{thread}.jsonl");
            fs::write(folder.join(name), format!("{line}\n{{}}\n")).unwrap();
        }
        let source = |thread| source_in(home.path(), thread).unwrap();
        assert_eq!(source("t1").as_deref(), Some("exec"));
        assert_eq!(source("t2").as_deref(), Some("cli"));
        assert_eq!(source("2"), None);
    }
}
