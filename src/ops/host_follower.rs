//! Follows a conversation's tasks on another machine, and forgets the machine when it has none.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::lookup;
use super::notes::{HeldNote, NoteWatch, Notes, TakenNote};
use crate::config;
use crate::hosts::{
    Channel, ChannelInput, FarCall, FarCaller, FarStdin, Host, Questions, Ssh, connect,
    this_machine,
};
use crate::model::{Backoff, Error};
use crate::wire::{FollowOrder, FollowReply, client_of};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// How long to wait before trying again to take the note of a machine that has nothing left.
const TAKE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));

/// How long the machine may take to forget the conversation: launches wait for it.
const FORGETS_WITHIN: Duration = Duration::from_secs(5);

/// A machine on which a conversation has launched tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HostNote {
    owner: String,
    host: String,
}

/// What is reported of a machine.
#[derive(Debug)]
pub(crate) enum HostNews {
    /// It has said this.
    Reply(FollowReply),
    /// It has no task and no undelivered message of the conversation, and is not followed any more.
    Forgotten,
}

#[derive(Debug, Clone)]
pub(crate) struct HostNotes {
    notes: Notes,
    owner: String,
}

/// Notes that a conversation is about to launch tasks on this machine. The note is to be held until
/// the command has ended. `None` if the owner is no conversation whose client has an adapter.
pub(crate) async fn note_host(owner: &str, host: &str) -> Result<Option<HeldNote>, Error> {
    if client_of(owner).is_none() {
        return Ok(None);
    }
    let notes = Notes::of_conversations(&lookup)?;
    let note = HostNote {
        owner: owner.to_owned(),
        host: host.to_owned(),
    };
    match notes.hold(owner, host, &note).await {
        Ok(held) => Ok(Some(held)),
        Err(source) => Err(Error::folder(&notes.folder, &source)),
    }
}

/// Returns the owners that have tasks on other machines.
pub(crate) fn owners_with_hosts() -> Result<BTreeSet<String>, Error> {
    let notes = Notes::of_conversations(&lookup)?.list::<HostNote>();
    Ok(notes.into_iter().map(|note| note.owner).collect())
}

impl HostNotes {
    pub(crate) fn of(owner: &str) -> io::Result<Self> {
        Ok(Self {
            notes: Notes::of_conversations(&lookup).map_err(io::Error::other)?,
            owner: owner.to_owned(),
        })
    }

    /// Returns what resolves when notes have changed.
    pub(crate) fn watch(&self) -> io::Result<NoteWatch> {
        self.notes.watch()
    }

    /// Returns the machines.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let notes = self.notes.list::<HostNote>().into_iter();
        let own = notes.filter(|note| note.owner == self.owner);
        own.map(|note| note.host).collect()
    }

    fn take(&self, host: &str) -> Option<TakenNote> {
        self.notes.take(&self.owner, host).ok().flatten()
    }
}

/// Follows the conversation's tasks on this machine until it is forgotten, or another process follows
/// them. Sends what is in `orders`.
pub(crate) async fn follow_host(
    notes: HostNotes,
    host: String,
    mut orders: mpsc::UnboundedReceiver<FollowOrder>,
    reports: mpsc::Sender<(String, HostNews)>,
) {
    let mut retry = RETRY;
    loop {
        match HostChannel::open(&host, &notes.owner).await {
            Ok(channel) => {
                retry = RETRY;
                let mut stream = HostStream {
                    channel,
                    notes: &notes,
                    host: &host,
                    reports: &reports,
                    taken: None,
                };
                match stream.follow(&mut orders).await {
                    Ok(Ended::Forgotten) => {
                        drop(reports.send((host, HostNews::Forgotten)).await);
                        return;
                    }
                    Ok(Ended::Replaced) => return,
                    Err(error) => tracing::debug!(host, %error, "the connection was lost"),
                }
            }
            Err(error) => tracing::debug!(host, %error, "cannot connect now"),
        }
        sleep(retry.next_pause()).await;
    }
}

/// Why a machine is not followed any more.
enum Ended {
    Forgotten,
    Replaced,
}

/// A connection to the machine.
struct HostStream<'a> {
    channel: HostChannel,
    notes: &'a HostNotes,
    host: &'a str,
    reports: &'a mpsc::Sender<(String, HostNews)>,
    /// The note, while the machine is asked to forget the conversation.
    taken: Option<TakenNote>,
}

impl HostStream<'_> {
    async fn follow(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<FollowOrder>,
    ) -> io::Result<Ended> {
        // When to ask the machine to forget the conversation, and until when it may answer.
        let (mut at, mut take) = (None, TAKE);
        let never = Instant::now();
        loop {
            let is_taken = self.taken.is_some();
            tokio::select! {
                reply = self.channel.next() => match reply? {
                    FollowReply::Idle => (at, take) = (Some(Instant::now()), TAKE),
                    FollowReply::Forgotten { done: true } => {
                        if let Some(taken) = self.taken.take() {
                            taken.remove()?;
                        }
                        return Ok(Ended::Forgotten);
                    }
                    FollowReply::Forgotten { done: false } => (at, self.taken) = (None, None),
                    reply @ FollowReply::Replaced { .. } => {
                        self.report(reply).await;
                        return Ok(Ended::Replaced);
                    }
                    reply @ (FollowReply::Began { .. }
                    | FollowReply::Record { .. }
                    | FollowReply::Gap { .. }
                    | FollowReply::Acked { .. }) => {
                        if !is_taken {
                            at = None;
                        }
                        self.report(reply).await;
                    }
                },
                Some(order) = orders.recv() => self.channel.send(&order)?,
                () = sleep_until(at.unwrap_or(never)), if at.is_some() => {
                    if is_taken {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    // A launch may hold it.
                    self.taken = self.notes.take(self.host);
                    let pause = if self.taken.is_some() {
                        self.channel.send(&FollowOrder::Forget)?;
                        FORGETS_WITHIN
                    } else {
                        take.next_pause()
                    };
                    at = Some(Instant::now() + pause);
                }
            }
        }
    }

    async fn report(&self, reply: FollowReply) {
        let report = (self.host.to_owned(), HostNews::Reply(reply));
        drop(self.reports.send(report).await);
    }
}

/// A channel to the machine's follow-ups.
struct HostChannel {
    channel: Channel,
    input: ChannelInput,
    /// Lines that the machine has no room for yet.
    to_send: VecDeque<String>,
}

impl HostChannel {
    async fn open(name: &str, owner: &str) -> Result<Self, Error> {
        let host = Host::named(name, &config::load(&lookup)?)?;
        let ssh = Ssh::prepare(&lookup)?;
        let channel = connect(&host, &ssh, Questions::Never).await?;
        channel.open(FarCall {
            args: ["agent", "follow"].map(str::to_owned).to_vec(),
            caller: FarCaller {
                host: host.name,
                machine: this_machine(),
                ..FarCaller::default()
            },
            owner: Some(owner.to_owned()),
            stdin: FarStdin::Follows,
            ..FarCall::default()
        });
        Ok(Self {
            input: channel.input(),
            channel,
            to_send: VecDeque::new(),
        })
    }

    /// Returns what the machine says next. Sends what waits.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    async fn next(&mut self) -> io::Result<FollowReply> {
        let Self {
            channel,
            input,
            to_send,
        } = self;
        let write = async {
            while let Some(line) = to_send.front() {
                // One chunk, which is sent or not.
                input.write(line.as_bytes()).await;
                to_send.pop_front();
            }
            std::future::pending().await
        };
        let line = tokio::select! {
            line = channel.line() => line.map_err(io::Error::other)?,
            never = write => never,
        };
        let line = line.ok_or(io::ErrorKind::UnexpectedEof)?;
        serde_json::from_slice(&line).map_err(io::Error::from)
    }

    fn send(&mut self, order: &FollowOrder) -> io::Result<()> {
        let line = serde_json::to_string(order)?;
        self.to_send.push_back(line + "\n");
        Ok(())
    }
}
