//! The protocol for adapters that run inside a client: JSON lines on standard input and output.
//!
//! One process serves all conversations of a client's process. Each conversation has one message
//! under way at a time; what happens until its receipt is merged into the next one.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use super::follower::Incoming;
use super::hand_over::{Client, Ended, Given, HandOver};
use super::ledger::{Ledger, SentMessage};
use super::{AgentClient, Conversation};
use crate::config::{AgentsConfig, Deliver};
use crate::model::{Error, FollowUpOptions, Kind, Level, Message, Millis};
use crate::ops::{self, SessionChoice, TaskSession};
use crate::rules::wire::{ConsumerStatus, parse_object};

/// How many receipts of a conversation, which has one message under way, and lines of the adapter may wait.
const QUEUE: usize = 64;

/// What the adapter says: one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Request {
    /// Follow this conversation.
    Follow(String),
    /// Follow it no longer.
    Unfollow(String),
    /// The conversation `to` has the message with this id.
    Received { to: String, id: String },
}

/// What the adapter gets: one JSON object a line.
#[derive(Debug, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Reply<'a> {
    /// The first line: the task session of the conversations.
    Hello { session_name: &'a str },
    /// The conversation is followed: what its tasks do from here on is delivered.
    Following { to: &'a str, session_name: &'a str },
    /// A message for the model.
    Message {
        to: &'a str,
        id: String,
        /// Whether no adapter had it before.
        is_new: bool,
        message: &'a Message,
        options: FollowUpOptions,
    },
    /// A text for the user.
    Notice {
        to: &'a str,
        level: Level,
        text: &'a str,
    },
    /// The status line.
    Status { to: &'a str, text: Option<&'a str> },
    /// Another process follows the conversation now.
    Replaced { to: &'a str },
    /// The conversation cannot be followed.
    Failed { to: &'a str, why: &'a str },
}

type SayTo = dyn Fn(&Reply<'_>) -> Result<(), Error>;
type Say = fn(&Reply<'_>) -> Result<(), Error>;

/// Serves an adapter until it closes standard input. Follows these conversations from the start and, if
/// `adopts`, those that have pending follow-ups or tasks and that no process follows.
pub(crate) async fn serve(
    choice: SessionChoice,
    client: AgentClient,
    ids: Vec<String>,
    adopts: bool,
    config: AgentsConfig,
    say: Say,
) -> Result<(), Error> {
    let session_name = &TaskSession::named(&choice)?.name;
    say(&Reply::Hello { session_name })?;
    let mut lanes = Lanes {
        client,
        choice,
        config,
        say,
        receipts: BTreeMap::new(),
        followed: FuturesUnordered::new(),
    };
    ids.iter().for_each(|id| lanes.follow(id));
    if adopts {
        let pending = lanes.pending_conversations().await?;
        pending.iter().for_each(|id| lanes.follow(id));
    }
    let mut requests = read_lines();
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(Ok(Request::Follow(id))) => lanes.follow(&id),
                // The lane of a conversation ends when its receipts can no longer come.
                Some(Ok(Request::Unfollow(id))) => drop(lanes.receipts.remove(&id)),
                Some(Ok(Request::Received { to, id })) => {
                    if let Some(receipts) = lanes.receipts.get(&to) {
                        // A full queue has receipts of messages that were never sent: this one is no better.
                        drop(receipts.try_send(id));
                    }
                }
                // It may come from a later version.
                Some(Err(_)) => {}
                // The client has ended.
                None => return Ok(()),
            },
            Some(()) = lanes.followed.next(), if !lanes.followed.is_empty() => {}
        }
    }
}

/// The conversations that are followed, each by a task of its own.
struct Lanes {
    client: AgentClient,
    choice: SessionChoice,
    config: AgentsConfig,
    say: Say,
    /// Where a conversation's receipts go, by its id.
    receipts: BTreeMap<String, mpsc::Sender<String>>,
    followed: FuturesUnordered<LocalBoxFuture<'static, ()>>,
}

impl Lanes {
    /// Follows a conversation, unless it is followed already. Says why it ends if the adapter does not know.
    fn follow(&mut self, id: &str) {
        let Some(conversation) = Conversation::new(self.client, id) else {
            return;
        };
        let lane = self.receipts.get(conversation.id());
        if lane.is_some_and(|receipts| !receipts.is_closed()) {
            return;
        }
        let (sender, receipts) = mpsc::channel(QUEUE);
        self.receipts.insert(conversation.id().to_owned(), sender);
        let notices = (self.client == AgentClient::Pi).then_some(Kind::Notice);
        let kinds = notices.into_iter().chain([Kind::FollowUp]).collect();
        let (choice, config, say) = (self.choice.clone(), self.config, self.say);
        self.followed.push(Box::pin(async move {
            let to = conversation.id();
            let following = async {
                let mut session = TaskSession::named(&choice)?;
                session.resolve_name().await?;
                let adapter = Adapter {
                    to: to.to_owned(),
                    session_name: session.name.clone(),
                    deliver: config.deliver,
                    say: Box::new(say),
                    receipts,
                    received: Vec::new(),
                    given: None,
                };
                let feeds = (kinds, false);
                match HandOver::take_over(
                    adapter,
                    session,
                    &conversation,
                    feeds,
                    config.max_per_minute,
                )
                .await?
                {
                    Some(hand_over) => hand_over.run().await,
                    None => Ok(Ended::Replaced),
                }
            };
            // Where nothing can be printed, the adapter has gone, and that is noticed elsewhere.
            drop(match following.await {
                Ok(Ended::Left | Ended::Woke) => Ok(()),
                Ok(Ended::Replaced) => say(&Reply::Replaced { to }),
                Err(Error { message: why, .. }) => say(&Reply::Failed { to, why: &why }),
            });
        }));
    }

    /// Returns the client's conversations that no process reads, and for which the feed has a followUp
    /// that was not acknowledged, or that have tasks: here, if they were followed here, or on other machines.
    async fn pending_conversations(&self) -> Result<Vec<String>, Error> {
        let mut session = TaskSession::named(&self.choice)?;
        session.resolve_name().await?;
        let prefix = format!("{}:", self.client.name());
        let mut cursors = BTreeMap::new();
        // Listed before the readers, so that who begins to follow meanwhile is seen. The followUp of a task
        // that has ended may not be recorded yet.
        let tasks = ops::list(&mut session).await?.tasks;
        let consumers = match ops::list_consumers(&mut session).await {
            // No daemon has run yet: nothing is pending here.
            Err(error) if error.kind.is_missing() => Vec::new(),
            listed => listed?.consumers,
        };
        let mut with_tasks = ops::owners_with_hosts()?;
        let own = |one: &ConsumerStatus| one.name.starts_with(&prefix);
        for consumer in consumers.into_iter().filter(own) {
            if consumer.reader.is_some() {
                with_tasks.remove(&consumer.name);
                continue;
            }
            let name = Some(consumer.name.as_str());
            if tasks.iter().any(|one| one.task.owner.as_deref() == name) {
                with_tasks.insert(consumer.name.clone());
            }
            if consumer.lag > 0 {
                cursors.insert(consumer.name, consumer.cursor);
            }
        }
        let mut owners = ops::owners_with_pending_follow_ups(&session, &cursors).await?;
        owners.append(&mut with_tasks);
        let id = |owner: &String| owner.strip_prefix(&prefix).map(str::to_owned);
        Ok(owners.iter().filter_map(id).collect())
    }
}

/// The adapter, as the client of one conversation.
pub(super) struct Adapter {
    pub(super) to: String,
    pub(super) session_name: String,
    pub(super) deliver: Deliver,
    pub(super) say: Box<SayTo>,
    /// The ids of messages that the conversation has, from the adapter, and those that were read.
    pub(super) receipts: mpsc::Receiver<String>,
    pub(super) received: Vec<String>,
    /// The message that this process has given last.
    pub(super) given: Option<String>,
}

impl Client for Adapter {
    async fn give(&mut self, messages: &[SentMessage]) -> Given {
        for SentMessage { batch, .. } in messages {
            let mut options = batch.options.clone();
            // Pi's word; the other plugins translate it.
            if self.deliver == Deliver::NextStep {
                "steer".clone_into(&mut options.deliver_as);
            }
            let message = Reply::Message {
                to: &self.to,
                id: batch.id(),
                is_new: batch.is_new,
                message: &batch.message,
                options,
            };
            if (self.say)(&message).is_err() {
                return Given::Ended(Ended::Left);
            }
            self.given = Some(batch.id());
        }
        Given::Sent
    }

    async fn changed(&mut self, _sent: &[SentMessage], _has_new: bool) -> Option<Ended> {
        match self.receipts.recv().await {
            Some(id) => self.received.push(id),
            None => return Some(Ended::Left),
        }
        None
    }

    async fn received(&mut self, _ledger: &mut Ledger) -> Vec<String> {
        std::mem::take(&mut self.received)
    }

    fn is_due(&self, message: &SentMessage, _ledger: &Ledger, _now: Millis) -> bool {
        self.given != Some(message.batch.id())
    }

    fn show(&mut self, incoming: &Incoming) {
        let (to, session_name) = (&self.to, &self.session_name);
        let reply = match incoming {
            Incoming::Began { host: None, .. } => Reply::Following { to, session_name },
            Incoming::Notice { level, text } => Reply::Notice {
                to,
                level: *level,
                text,
            },
            Incoming::Status { text, .. } => Reply::Status {
                to,
                text: text.as_deref(),
            },
            Incoming::Began { .. }
            | Incoming::FollowUp(_)
            | Incoming::Passed
            | Incoming::CaughtUp
            | Incoming::Replaced => return,
        };
        // Where nothing can be printed, the adapter has gone.
        drop((self.say)(&reply));
    }
}

/// Reads lines of JSON from standard input, ahead of the one that is waited for. The channel closes with
/// standard input. The other side may have ended in the middle of a line: half a line is none.
pub(crate) fn read_lines<T>() -> mpsc::Receiver<Result<T, serde_json::Error>>
where
    T: DeserializeOwned + Serialize + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut stdin = BufReader::new(tokio::io::stdin());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = stdin.read_until(b'\n', &mut line).await;
            let parsed = parse_object(&line);
            let is_over = read.is_err() || !line.ends_with(b"\n") && parsed.is_err();
            if is_over || sender.send(parsed).await.is_err() {
                return;
            }
        }
    });
    receiver
}
