//! A thread of Codex: whether messages reach its model, handing them over, and which of them it has.

use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::future::pending;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use super::app_server::{AppServer, AppServerError};
use super::conversation::Conversation;
use super::outbox::Batch;

use crate::files;
use crate::model::{Seq, with_causes};
use crate::paths::Env;

/// How many of a thread's last turns are searched for a message.
const TURNS: u32 = 50;

/// How many messages of the queue are listed.
const QUEUED: u32 = 100;

/// How long `codex queue` may take.
const QUEUES_WITHIN: Duration = Duration::from_secs(30);

/// The most of a thread's file that is read for its first line, in bytes.
const MAX_LINE: u64 = 4 << 20;

/// Why `codex exec` is of no use here.
const IS_EXEC: &str = "`codex exec` takes no messages";

/// Whether messages reach a thread's model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reachable {
    /// They do.
    Yes,
    /// They do not; the text says why.
    No(String),
}

/// The delivery state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueuePlace {
    /// The thread's queue has it.
    ToQueue,
    /// Codex has it, and does not say later what happened to it.
    ForGood,
}

/// Why a message was not handed over, or the thread could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryError {
    /// The app-server did not do it.
    #[error(transparent)]
    Server(#[from] AppServerError),
    /// `codex queue` did not do it.
    #[error("`codex queue` failed: {0}")]
    Queue(String),
}

impl DeliveryError {
    /// Whether it is certain that Codex does not have the message.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            Self::Server(error) => match error {
                AppServerError::Missing { .. } | AppServerError::Refused { .. } => true,
                AppServerError::Socket(_) | AppServerError::Silent => false,
            },
            Self::Queue(_) => true,
        }
    }
}

/// The id of a message, which Codex keeps: which records are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageId {
    epoch: String,
    first: Seq,
    last: Seq,
}

impl MessageId {
    /// Returns the id of the message with these follow-ups.
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            epoch: batch.epoch.clone(),
            first: batch.seqs.first().copied().unwrap_or_default(),
            last: batch.seqs.last().copied().unwrap_or_default(),
        }
    }

    /// Returns the epoch of the feed of its follow-ups.
    pub(super) fn epoch(&self) -> &str {
        &self.epoch
    }

    fn parse(text: &str) -> Option<Self> {
        let (epoch, range) = text.strip_prefix("tmux-task:")?.rsplit_once(':')?;
        let (first, last) = range.split_once('-')?;
        Some(Self {
            epoch: epoch.to_owned(),
            first: first.parse().ok()?,
            last: last.parse().ok()?,
        })
    }

    /// Whether the follow-up with this number is in the message, if it is of this conversation.
    pub(super) fn covers(&self, epoch: &str, seq: Seq) -> bool {
        self.epoch == epoch && (self.first..=self.last).contains(&seq)
    }
}

impl Display for MessageId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { epoch, first, last } = self;
        write!(formatter, "tmux-task:{epoch}:{first}-{last}")
    }
}

/// A thread, and the connection to the app-server that runs it.
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
        let set = |name: &str| {
            env(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Some(Self {
            home: set("CODEX_HOME").or_else(|| Some(set("HOME")?.join(".codex")))?,
            id: conversation.id().to_owned(),
            program,
            connection: None,
        })
    }

    /// Returns whether messages reach the thread's model.
    pub(super) async fn reachable(&mut self) -> Reachable {
        match self.call("thread/read", json!({})).await {
            Ok(read) => {
                let thread = &read["thread"];
                if thread["source"] == "exec" {
                    // The app-server accepts messages for it, and never delivers them.
                    Reachable::No(IS_EXEC.to_owned())
                } else if thread["canAcceptDirectInput"] == false {
                    Reachable::No("a subagent of Codex takes no messages".to_owned())
                } else {
                    Reachable::Yes
                }
            }
            Err(AppServerError::Missing { .. }) => match source_in(&self.home, &self.id) {
                Ok(Some(source)) if source == "exec" => Reachable::No(IS_EXEC.to_owned()),
                Ok(_) => Reachable::Yes,
                Err(error) => Reachable::No(format!(
                    "the thread's file cannot be read: {}",
                    with_causes(&error)
                )),
            },
            Err(error) => Reachable::No(with_causes(&error)),
        }
    }

    /// Hands a message over.
    pub(super) async fn add(
        &mut self,
        id: &MessageId,
        text: &str,
    ) -> Result<QueuePlace, DeliveryError> {
        let input = json!([{"type": "text", "text": text, "text_elements": []}]);
        let params = json!({"input": input, "clientUserMessageId": id.to_string()});
        match self.call("thread/queue/add", params).await {
            Ok(_) => Ok(QueuePlace::ToQueue),
            Err(AppServerError::Missing { .. }) => {
                queue(&self.program, &self.id, text).await?;
                Ok(QueuePlace::ForGood)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the queue or the thread has the message.
    pub(super) async fn has(&mut self, id: &MessageId) -> Result<bool, DeliveryError> {
        Ok(self.delivered().await?.contains(id))
    }

    /// Returns whether a message that was added to the queue has left it: a turn began with it, or the
    /// user removed it.
    pub(super) async fn has_received(&mut self, id: &MessageId) -> Result<bool, DeliveryError> {
        Ok(!self.queued().await?.contains(id))
    }

    /// Returns the messages that the queue and the last turns have.
    pub(super) async fn delivered(&mut self) -> Result<Vec<MessageId>, DeliveryError> {
        // A message goes from the queue to the thread.
        let mut delivered = self.queued().await?;
        let params = json!({"limit": TURNS, "sortDirection": "desc"});
        let listed = self.call("thread/turns/list", params).await?;
        delivered.extend(ids_in_turns(&listed));
        Ok(delivered)
    }

    /// Resolves when Codex reports that the thread's queue has changed. Reads what else Codex reports.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn queue_changed(&mut self) {
        loop {
            let Some(connection) = &mut self.connection else {
                return pending().await;
            };
            match connection.notification().await {
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

    async fn queued(&mut self) -> Result<Vec<MessageId>, DeliveryError> {
        let listed = self
            .call("thread/queue/list", json!({"limit": QUEUED}))
            .await?;
        Ok(ids_in_queue(&listed))
    }

    async fn call(&mut self, method: &'static str, more: Value) -> Result<Value, AppServerError> {
        let mut params = more;
        params["threadId"] = self.id.clone().into();
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let socket = self.home.join("app-server-control/app-server-control.sock");
                self.connection.insert(AppServer::connect(&socket).await?)
            }
        };
        let called = connection.call(method, params).await;
        if matches!(
            &called,
            Err(AppServerError::Socket(_) | AppServerError::Silent)
        ) {
            self.connection = None;
        }
        called
    }
}

fn ids_in_queue(listed: &Value) -> Vec<MessageId> {
    let queued = listed["data"].as_array().into_iter().flatten();
    let id = |item: &Value| MessageId::parse(item["clientUserMessageId"].as_str()?);
    queued.filter_map(id).collect()
}

fn ids_in_turns(listed: &Value) -> Vec<MessageId> {
    let turns = listed["data"].as_array().into_iter().flatten();
    let items = turns.flat_map(|turn| turn["items"].as_array().into_iter().flatten());
    let id = |item: &Value| MessageId::parse(item["clientId"].as_str()?);
    items.filter_map(id).collect()
}

/// Hands a message over without an app-server. Codex keeps it until the thread's process reads it.
async fn queue(program: &Path, thread: &str, text: &str) -> Result<(), DeliveryError> {
    let failed = |error: &dyn Display| DeliveryError::Queue(error.to_string());
    let queueing = Command::new(program)
        .args(["queue", "--thread", thread, "--message", text])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match timeout(QUEUES_WITHIN, queueing).await {
        Ok(output) => output.map_err(|error| failed(&error))?,
        Err(_) => return Err(failed(&"it does not end")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(failed(&last.unwrap_or("it said nothing")))
}

/// Returns which of Codex's programs began the thread, from the thread's file; `None` when there is no
/// such file.
fn source_in(home: &Path, thread: &str) -> io::Result<Option<String>> {
    let end = format!("-{thread}.jsonl");
    let is_it = |name: &OsStr| name.to_string_lossy().ends_with(&end);
    let Some(path) = find(&home.join("sessions"), 3, &is_it)? else {
        return Ok(None);
    };
    let mut line = Vec::new();
    BufReader::new(files::open(&path)?.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    let meta: Value = serde_json::from_slice(&line)?;
    Ok(meta["payload"]["source"].as_str().map(ToOwned::to_owned))
}

/// Returns a file whose name is wanted, `depth` folders below; the newest folders, by name, are
/// searched first.
fn find(folder: &Path, depth: u32, is_it: &dyn Fn(&OsStr) -> bool) -> io::Result<Option<PathBuf>> {
    let mut entries: Vec<_> = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    entries.sort_unstable_by(|a, b| b.cmp(a));
    for path in entries {
        let found = if depth > 0 && path.is_dir() {
            find(&path, depth - 1, is_it)?
        } else {
            path.file_name().is_some_and(is_it).then_some(path)
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(first: Seq, last: Seq) -> MessageId {
        MessageId {
            epoch: "e1".to_owned(),
            first,
            last,
        }
    }

    #[test]
    fn an_id_says_which_records_are_in_a_message() {
        assert_eq!(id(3, 7).to_string(), "tmux-task:e1:3-7");
        assert_eq!(MessageId::parse("tmux-task:e1:3-7"), Some(id(3, 7)));
        for other in ["", "tmux-task:e1:7", "tmux-task:e1:x-7", "other:e1:3-7"] {
            assert_eq!(MessageId::parse(other), None, "{other}");
        }
        for (epoch, seq, covered) in [
            ("e1", 3, true),
            ("e1", 7, true),
            ("e1", 8, false),
            ("e2", 3, false),
        ] {
            assert_eq!(id(3, 7).covers(epoch, seq), covered, "{epoch}:{seq}");
        }
    }

    #[test]
    fn messages_are_found_in_the_queue_and_in_turns() {
        let queue = json!({"data": [
            {"id": "1", "clientUserMessageId": null},
            {"id": "2", "clientUserMessageId": "tmux-task:e1:3-7"},
        ]});
        assert_eq!(ids_in_queue(&queue), [id(3, 7)]);
        let turns = json!({"data": [
            {"items": [{"type": "userMessage", "clientId": null}]},
            {"items": [{"type": "agentMessage"}, {"type": "userMessage", "clientId": "tmux-task:e1:8-8"}]},
        ]});
        assert_eq!(ids_in_turns(&turns), [id(8, 8)]);
        assert_eq!(ids_in_turns(&json!({})), []);
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
