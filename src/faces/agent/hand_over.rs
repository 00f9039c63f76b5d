//! Hands a conversation's follow-ups over to its client: one loop for all clients.
//!
//! The loop collects what waits into one message, keeps to the budget, and records a message before it
//! is given: if its receipt never came, the next process gives it again, as it was. What the client has
//! received is acknowledged. What is a client's own is its [`Client`].

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use super::Conversation;
use super::follower::{Feeds, Follower, Incoming};
use super::ledger::{Ledger, SentMessage};
use super::outbox::{Batch, PendingFollowUps};
use crate::clock;
use crate::model::{Error, Kind, Millis, Seq};
use crate::ops::TaskSession;

/// When what could not be recorded is tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

/// A client, for one conversation: how it gets messages, and how it is known what it has received.
pub(super) trait Client {
    /// Gives it these messages, which are recorded.
    async fn give(&mut self, messages: &[SentMessage]) -> Given;

    /// Resolves when the client may have received a message, may have to get one again or, with `has_new`, may
    /// take a new one. Returns how the conversation ends, if it does. Nothing may be lost when the future is
    /// dropped.
    async fn changed(&mut self, sent: &[SentMessage], has_new: bool) -> Option<Ended>;

    /// Returns the ids of the messages in the ledger that the client has received, or that are not given
    /// again for another reason.
    async fn received(&mut self, ledger: &mut Ledger) -> Vec<String>;

    /// Whether a message without a receipt, or whose giving has failed, is to be given again now.
    fn is_due(&self, message: &SentMessage, ledger: &Ledger, now: Millis) -> bool;

    /// Whether a new message may be given beside those without a receipt.
    fn takes_new(&self, ledger: &Ledger, _now: Millis) -> bool {
        ledger.handed_over().is_empty()
    }

    /// Returns the client's process, and when it started, if a message is lost with it.
    fn process(&self) -> Option<(u32, Millis)> {
        None
    }

    /// Shows the user what is no message.
    fn show(&mut self, _incoming: &Incoming) {}

    /// Notes whether no message waits and no task is active.
    fn note_idle(&mut self, _is_idle: bool) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    /// The client has them, or will; the receipts come later.
    Sent,
    /// The client has them, and reports nothing later.
    Received,
    /// It is not known whether the client has them, or it has not.
    Failed,
    /// The client takes them when this process ends, or nobody reads what this process says.
    Ended(Ended),
}

/// Why a conversation is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// A message was given that the client takes when this process ends.
    Woke,
    /// The client wants it so, or nothing is left to do.
    Left,
    /// Another process follows the conversation.
    Replaced,
}

pub(super) struct HandOver<C, F = Follower> {
    client: C,
    feeds: F,
    messages: Messages,
    /// Until then everything that is pending is collected into one message.
    is_caught_up: bool,
    n_active: Option<usize>,
}

impl<C: Client> HandOver<C> {
    /// Follows the conversation in place of the process that did so before; `None` when a third one does by
    /// then. Fails when the feed cannot be read, or the ledger cannot be had.
    pub(super) async fn take_over(
        client: C,
        session: TaskSession,
        conversation: &Conversation,
        (kinds, skips_everybody): (Vec<Kind>, bool),
        max_per_minute: u32,
    ) -> Result<Option<Self>, Error> {
        let (name, paths) = (session.name.clone(), session.paths.clone());
        let mut feeds = Follower::new(session, conversation, kinds, skips_everybody);
        // This tells the process that followed the conversation before to leave the ledger.
        let mut earlier = vec![feeds.next().await?];
        let mut taking = pin!(Ledger::take_over(&paths, conversation));
        let ledger = loop {
            tokio::select! {
                biased;
                incoming = feeds.next() => {
                    let incoming = incoming?;
                    if matches!(incoming, Incoming::Replaced) {
                        return Ok(None);
                    }
                    earlier.push(incoming);
                }
                taken = &mut taking => break taken,
            }
        };
        let ledger = ledger.map_err(|source| Error::folder(&paths.state, &source))?;
        let mut this = Self::new(client, feeds, Messages::new(ledger, &name, max_per_minute));
        for incoming in earlier {
            this.receive(incoming);
        }
        Ok(Some(this))
    }
}

impl<C: Client, F: Feeds> HandOver<C, F> {
    pub(super) fn new(client: C, feeds: F, messages: Messages) -> Self {
        Self {
            client,
            feeds,
            messages,
            is_caught_up: false,
            n_active: None,
        }
    }

    /// Hands messages over until the conversation ends, or another process does it.
    pub(super) async fn run(mut self) -> Result<Ended, Error> {
        loop {
            let messages = &self.messages;
            let first_open = |epoch: &str| messages.first_open(epoch);
            self.feeds.acknowledge(first_open).await;
            let has_task = self.n_active != Some(0) || self.feeds.has_hosts();
            self.client
                .note_idle(self.is_caught_up && messages.is_empty() && !has_task);
            let has_new = self.is_caught_up && !messages.outbox.pending.is_empty();
            let at = messages.next_at(&self.client, clock::now().wall);
            let left = at.filter(|_| self.is_caught_up).map(|at| {
                let left = at.saturating_sub(clock::now().wall).try_into();
                Duration::from_millis(left.unwrap_or_default())
            });
            tokio::select! {
                // What is there already belongs into the same message.
                biased;
                incoming = self.feeds.next() => {
                    if let Some(ended) = self.receive(incoming?) {
                        return Ok(ended);
                    }
                }
                ended = self.client.changed(messages.ledger.handed_over(), has_new) => {
                    if let Some(ended) = ended {
                        return Ok(ended);
                    }
                    self.messages.settle(&mut self.client).await;
                }
                () = sleep(left.unwrap_or_default()), if left.is_some() => {
                    // What it has by now is not given again.
                    self.messages.settle(&mut self.client).await;
                    let messages = self.messages.next(&self.client, clock::now().wall);
                    if let Some(ended) = self.give(&messages).await {
                        return Ok(ended);
                    }
                }
            }
        }
    }

    /// Gives these messages to the client when they are recorded. Returns how following ends, if it does.
    async fn give(&mut self, messages: &[SentMessage]) -> Option<Ended> {
        if messages.is_empty() {
            return None;
        }
        loop {
            match self.messages.ledger.save_if_held() {
                Ok(true) => break,
                Ok(false) => return Some(Ended::Replaced),
                Err(error) => tracing::warn!(%error, "a message cannot be recorded now"),
            }
            sleep(RECORD_AGAIN).await;
        }
        match self.client.give(messages).await {
            // The client does not wait for the disk.
            Given::Sent => self.messages.ledger.sync().await,
            Given::Received => {
                let ids: Vec<_> = messages.iter().map(|one| one.batch.id()).collect();
                self.messages.settle_ids(&ids);
            }
            Given::Failed => {}
            Given::Ended(ended) => return Some(ended),
        }
        None
    }

    fn receive(&mut self, incoming: Incoming) -> Option<Ended> {
        self.client.show(&incoming);
        match incoming {
            Incoming::FollowUp(follow_up) => self.messages.receive(*follow_up),
            Incoming::Began {
                host,
                epoch,
                cursor,
                last,
            } => {
                let ledger = &mut self.messages.ledger;
                ledger.forget_acknowledged(host.as_deref(), &epoch, cursor, last);
                if host.is_none() {
                    (self.is_caught_up, self.n_active) = (false, None);
                }
            }
            Incoming::CaughtUp => self.is_caught_up = true,
            Incoming::Status { active, .. } => self.n_active = Some(active),
            Incoming::Notice { .. } | Incoming::Passed => {}
            Incoming::Replaced => return Some(Ended::Replaced),
        }
        None
    }
}

/// The messages that wait, and those without a receipt.
#[derive(Debug)]
pub(super) struct Messages {
    outbox: PendingFollowUps,
    ledger: Ledger,
}

impl Messages {
    pub(super) fn new(ledger: Ledger, session_name: &str, max_per_minute: u32) -> Self {
        Self {
            outbox: PendingFollowUps::new(session_name, max_per_minute, ledger.contents.budget),
            ledger,
        }
    }

    fn is_empty(&self) -> bool {
        self.outbox.pending.is_empty() && self.ledger.handed_over().is_empty()
    }

    /// Returns the first record of this feed that has no receipt.
    fn first_open(&self, epoch: &str) -> Option<Seq> {
        let sent = self.ledger.handed_over().iter().map(|one| &one.batch);
        let open = self.outbox.pending.iter().chain(sent);
        let of_feed = open.filter(|one| one.epoch == epoch);
        of_feed.flat_map(|one| one.seqs.iter().copied()).min()
    }

    /// Receives a follow-up, unless it was handed over.
    fn receive(&mut self, follow_up: Batch) {
        let seq = follow_up.seqs.first().copied().unwrap_or_default();
        if !self.ledger.has(&follow_up.epoch, seq) {
            self.outbox.push(follow_up);
        }
    }

    /// Returns when there is something to give, in milliseconds since 1970.
    fn next_at(&self, client: &impl Client, now: Millis) -> Option<Millis> {
        let is_due = |one: &SentMessage| client.is_due(one, &self.ledger, now);
        if self.ledger.handed_over().iter().any(is_due) {
            return Some(now);
        }
        let new = self.outbox.ready_at(now);
        new.filter(|_| client.takes_new(&self.ledger, now))
    }

    async fn settle(&mut self, client: &mut impl Client) {
        let ids = client.received(&mut self.ledger).await;
        self.settle_ids(&ids);
    }

    fn settle_ids(&mut self, ids: &[String]) {
        if self.ledger.settle(ids)
            && let Err(error) = self.ledger.save_if_held()
        {
            tracing::warn!(%error, "a receipt was not recorded");
        }
    }

    /// Returns what is to be recorded and given now: what is due again, and a new message.
    fn next(&mut self, client: &impl Client, now: Millis) -> Vec<SentMessage> {
        let sent = self.ledger.handed_over().iter();
        let due = sent.filter(|one| client.is_due(one, &self.ledger, now));
        let due: Vec<_> = due.map(|one| one.batch.id()).collect();
        let takes_new = client.takes_new(&self.ledger, now);
        let new = takes_new.then(|| self.outbox.next(now)).flatten();
        let is_due = |one: &SentMessage| due.contains(&one.batch.id());
        let (by, budget) = ((client.process(), now), self.outbox.budget);
        self.ledger.hand_over(is_due, new, by, budget)
    }
}

#[cfg(test)]
mod tests;
