//! The protocol for adapters that run inside a client: JSON lines on standard input and output.
//!
//! One process serves all conversations of a client's process. Each conversation has one message
//! under way at a time; what happens until its receipt is merged into the next one.

use std::collections::BTreeMap;
use std::pin::pin;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::conversation::{AgentClient, Conversation};
use super::follower::Follower;
use super::hand_over::{HandOver, Step};
use super::incoming::Incoming;
use super::ledger::Ledger;
use super::outbox::Batch;
use super::until;
use crate::clock;
use crate::model::{Error, Level, with_causes};
use crate::ops::{self, SessionChoice, TaskSession};
use crate::wire::{FollowUpOptions, Kind, Message, parse_object};

/// The longest line on standard input, in bytes.
const MAX_LINE: u64 = 4096;

/// How many receipts of a conversation, and lines for the adapter, may wait. Each conversation has
/// one message under way, so they wait only while the other side is slow.
const QUEUE: usize = 64;

/// What the adapter says: one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Request {
    /// Follow this conversation, or follow it no longer.
    Follow(String),
    Unfollow(String),
    /// The conversation `to` has the message with this id.
    Received {
        to: String,
        id: String,
    },
}

/// What the adapter gets: one JSON object a line.
#[derive(Debug, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum Reply {
    /// The first line: the task session of the conversations.
    Hello { session_name: String },
    /// The conversation is followed: what its tasks do from here on is delivered.
    Following { to: String, session_name: String },
    /// A message for the model.
    Message {
        to: String,
        id: String,
        /// Whether no adapter had it before.
        is_new: bool,
        message: Box<Message>,
        options: FollowUpOptions,
    },
    /// A text for the user.
    Notice {
        to: String,
        level: Level,
        text: String,
    },
    /// The status line.
    Status { to: String, text: Option<String> },
    /// Another process follows the conversation now.
    Replaced { to: String },
    /// The conversation cannot be followed.
    Failed { to: String, why: String },
}

/// What a client's adapter wants.
#[derive(Debug)]
pub(crate) struct ServeOptions {
    pub(crate) client: AgentClient,
    /// The conversations to follow from the start.
    pub(crate) ids: Vec<String>,
    /// Whether to follow the conversations that have pending follow-ups and that no process follows.
    pub(crate) adopt: bool,
    pub(crate) max_per_minute: u32,
}

/// Why an adapter is no longer served.
#[derive(Debug)]
pub(crate) enum ServeError<E> {
    /// The session or its feed cannot be used.
    Ops(Error),
    /// Standard output cannot be written.
    Print(E),
}

/// Serves an adapter until it closes standard input. `print` writes a line to standard output.
///
/// # Errors
///
/// When the session cannot be determined, or `print` fails.
pub(crate) async fn serve<E>(
    choice: SessionChoice,
    options: ServeOptions,
    mut print: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), ServeError<E>> {
    let session = TaskSession::named(&choice).map_err(ServeError::Ops)?;
    let hello = Reply::Hello {
        session_name: session.name,
    };
    print(&line_of(&hello)).map_err(ServeError::Print)?;
    let (replies, mut to_print) = mpsc::channel(QUEUE);
    let mut lanes = Lanes {
        client: options.client,
        choice,
        max_per_minute: options.max_per_minute,
        replies,
        receipts: BTreeMap::new(),
        local: LocalSet::new(),
        is_busy: false,
    };
    for id in &options.ids {
        lanes.follow(id);
    }
    if options.adopt {
        for id in lanes
            .pending_conversations()
            .await
            .map_err(ServeError::Ops)?
        {
            lanes.follow(&id);
        }
    }
    let mut requests = read_lines();
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(Request::Follow(id)) => lanes.follow(&id),
                Some(Request::Unfollow(id)) => lanes.unfollow(&id),
                Some(Request::Received { to, id }) => lanes.received(&to, id),
                // The client has ended.
                None => return Ok(()),
            },
            Some(reply) = to_print.recv() => {
                print(&reply).map_err(ServeError::Print)?;
            }
            () = &mut lanes.local, if lanes.is_busy => lanes.is_busy = false,
        }
    }
}

fn line_of(reply: &Reply) -> String {
    serde_json::to_string(reply).unwrap_or_default()
}

/// The conversations that are followed, each by a task of its own.
struct Lanes {
    client: AgentClient,
    choice: SessionChoice,
    max_per_minute: u32,
    /// Lines to print.
    replies: mpsc::Sender<String>,
    /// Where a conversation's receipts go, by its id.
    receipts: BTreeMap<String, mpsc::Sender<String>>,
    local: LocalSet,
    /// Whether `local` has tasks. It ends at once when it has none.
    is_busy: bool,
}

impl Lanes {
    /// Follows a conversation, unless it is followed already.
    fn follow(&mut self, id: &str) {
        let Some(conversation) = Conversation::new(self.client, id) else {
            return;
        };
        let lane = self.receipts.get(conversation.id());
        if lane.is_some_and(|receipts| !receipts.is_closed()) {
            return;
        }
        let (receipts, received) = mpsc::channel(QUEUE);
        self.receipts.insert(conversation.id().to_owned(), receipts);
        let (to, replies) = (conversation.id().to_owned(), self.replies.clone());
        let (choice, max) = (self.choice.clone(), self.max_per_minute);
        let kinds = match self.client {
            AgentClient::Pi => vec![Kind::Notice, Kind::FollowUp],
            AgentClient::Claude | AgentClient::Codex | AgentClient::Opencode => {
                vec![Kind::FollowUp]
            }
        };
        self.is_busy = true;
        self.local.spawn_local(async move {
            let followed = match Lane::begin(&choice, &conversation, kinds, max).await {
                Ok(Some(lane)) => lane.run(received, &replies).await,
                Ok(None) => Ok(Ended::Replaced),
                Err(error) => Err(error),
            };
            let last = match followed {
                Ok(Ended::Left) => return,
                Ok(Ended::Replaced) => Reply::Replaced { to },
                Err(error) => Reply::Failed {
                    to,
                    why: with_causes(&error),
                },
            };
            drop(replies.send(line_of(&last)).await);
        });
    }

    /// The lane of a conversation ends when its receipts can no longer come.
    fn unfollow(&mut self, id: &str) {
        self.receipts.remove(id);
    }

    fn received(&mut self, to: &str, id: String) {
        if let Some(receipts) = self.receipts.get(to) {
            // A full queue has receipts of messages that were never sent: this one is no better.
            drop(receipts.try_send(id));
        }
    }

    /// Returns the client's conversations that no process reads, and for which the feed has a followUp
    /// that was not acknowledged, or that have tasks on other machines.
    async fn pending_conversations(&self) -> Result<Vec<String>, Error> {
        let mut session = TaskSession::named(&self.choice)?;
        session.resolve_name().await?;
        let prefix = format!("{}:", self.client.name());
        let mut cursors = BTreeMap::new();
        let consumers = match ops::list_consumers(&session).await {
            // No daemon has run yet: nothing is pending here.
            Err(error) if error.kind.is_missing() => Vec::new(),
            listed => listed?.consumers,
        };
        let mut elsewhere = ops::owners_with_hosts()?;
        for consumer in consumers {
            if consumer.reader.is_some() {
                elsewhere.remove(&consumer.name);
            } else if consumer.lag > 0 && consumer.name.starts_with(&prefix) {
                cursors.insert(consumer.name, consumer.cursor);
            }
        }
        let mut owners = ops::owners_with_pending_follow_ups(&session, &cursors)?;
        owners.append(&mut elsewhere);
        let ids = owners
            .iter()
            .filter_map(|owner| owner.strip_prefix(&prefix));
        Ok(ids.map(ToOwned::to_owned).collect())
    }
}

/// Why a conversation is not followed any more.
enum Ended {
    /// The client wants it so.
    Left,
    /// Another process follows it.
    Replaced,
}

/// One conversation.
struct Lane {
    to: String,
    session_name: String,
    follower: Follower,
    /// What the follower has reported before the ledger was free.
    earlier: Vec<Incoming>,
    messages: HandOver,
    /// Until then everything that is pending is collected into one message.
    is_caught_up: bool,
}

impl Lane {
    /// Returns `None` when another process follows the conversation by then.
    async fn begin(
        choice: &SessionChoice,
        conversation: &Conversation,
        kinds: Vec<Kind>,
        max_per_minute: u32,
    ) -> Result<Option<Self>, Error> {
        let mut session = TaskSession::named(choice)?;
        session.resolve_name().await?;
        let (session_name, paths) = (session.name.clone(), session.paths.clone());
        let mut follower = Follower::new(session, conversation, kinds);
        // This tells the process that followed the conversation before to leave the ledger.
        let mut earlier = vec![follower.next().await?];
        let mut taking = pin!(Ledger::take_over(&paths, conversation));
        let ledger = loop {
            tokio::select! {
                biased;
                incoming = follower.next() => {
                    let incoming = incoming?;
                    if incoming.is_last() {
                        return Ok(None);
                    }
                    earlier.push(incoming);
                }
                taken = &mut taking => break taken,
            }
        };
        let ledger = ledger.map_err(|source| Error::folder(&paths.state, &source))?;
        Ok(Some(Self {
            to: conversation.id().to_owned(),
            messages: HandOver::new(ledger, &session_name, max_per_minute),
            session_name,
            follower,
            earlier,
            is_caught_up: false,
        }))
    }

    async fn run(
        mut self,
        mut received: mpsc::Receiver<String>,
        replies: &mpsc::Sender<String>,
    ) -> Result<Ended, Error> {
        for incoming in std::mem::take(&mut self.earlier) {
            if let Some(reply) = self.receive(incoming) {
                drop(replies.send(line_of(&reply)).await);
            }
        }
        let mut resume_at = None;
        loop {
            let mut is_message = false;
            let may_hand_over = self.is_caught_up && self.messages.is_ready();
            let line = tokio::select! {
                // What is there already belongs into the same message.
                biased;
                incoming = self.follower.next() => {
                    let incoming = incoming?;
                    if incoming.is_last() {
                        return Ok(Ended::Replaced);
                    }
                    self.receive(incoming).as_ref().map(line_of)
                }
                id = received.recv() => {
                    let Some(id) = id else { return Ok(Ended::Left) };
                    if let Some(settled) = self.messages.confirm(&id) {
                        self.follower.settle(&settled.epoch, &settled.seqs);
                    }
                    None
                }
                () = until(resume_at), if may_hand_over => {
                    resume_at = None;
                    let line = |batch: &Batch, is_new| message_line(&self.to, batch, is_new);
                    match self.messages.next(clock::now().wall, line) {
                        Step::Print(line) => {
                            is_message = true;
                            Some(line)
                        }
                        Step::Wait(until) => {
                            resume_at = Some(until);
                            None
                        }
                        Step::Nothing => None,
                        Step::Replaced => return Ok(Ended::Replaced),
                    }
                }
            };
            if let Some(line) = line {
                drop(replies.send(line).await);
            }
            // The client does not wait for the disk.
            if is_message {
                self.messages.ledger.sync().await;
            }
        }
    }

    /// Receives what the follower reports. Returns what the client is told, if anything.
    fn receive(&mut self, incoming: Incoming) -> Option<Reply> {
        let to = self.to.clone();
        match incoming {
            Incoming::FollowUp(follow_up) => {
                if let Some((epoch, seq)) = self.messages.receive(*follow_up) {
                    self.follower.settle(&epoch, &[seq]);
                }
                None
            }
            Incoming::Began {
                host,
                replaced,
                epoch,
                cursor,
                last,
            } => {
                if let Some(replaced) = replaced {
                    self.messages.forget(&replaced);
                }
                let ledger = &mut self.messages.ledger;
                ledger.forget_acknowledged(host.as_deref(), &epoch, cursor, last);
                let is_local = host.is_none();
                self.is_caught_up &= !is_local;
                let session_name = self.session_name.clone();
                is_local.then_some(Reply::Following { to, session_name })
            }
            Incoming::Forgotten(host) => {
                self.messages.ledger.forget_host(&host);
                None
            }
            Incoming::CaughtUp => {
                self.is_caught_up = true;
                None
            }
            Incoming::Notice { level, text } => Some(Reply::Notice { to, level, text }),
            Incoming::Status { text, .. } => Some(Reply::Status { to, text }),
            Incoming::Replaced | Incoming::Left => None,
        }
    }
}

fn message_line(to: &str, batch: &Batch, is_new: bool) -> String {
    line_of(&Reply::Message {
        to: to.to_owned(),
        id: batch.id(),
        is_new,
        message: Box::new(batch.message.clone()),
        options: batch.options.clone(),
    })
}

/// Reads what the other side says. The channel closes with standard input. Lines that cannot be read
/// are passed over: they may come from a later version.
pub(crate) fn read_lines<T>() -> mpsc::Receiver<T>
where
    T: DeserializeOwned + Serialize + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut stdin = BufReader::new(tokio::io::stdin());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut stdin)
                .take(MAX_LINE)
                .read_until(b'\n', &mut line)
                .await;
            if !matches!(read, Ok(n) if n > 0) {
                return;
            }
            if let Ok(request) = parse_object(&line)
                && sender.send(request).await.is_err()
            {
                return;
            }
        }
    });
    receiver
}
