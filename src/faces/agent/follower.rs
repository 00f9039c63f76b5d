//! Reads the feed as the consumer of one conversation, across restarts of the daemon, and the feeds of
//! its tasks on other machines.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::conversation::Conversation;
use super::feed_reading::{FeedReading, StreamStart};
use super::host_streams::HostStreams;
use super::incoming::Incoming;
use crate::client::{DaemonClient, unexpected, unreadable};
use crate::clock;
use crate::model::{Backoff, Error, ErrorKind, Millis, Seq};
use crate::ops::TaskSession;
use crate::wire::{ConsumeRequest, Filter, Kind, LiveRecord, Request, Response, StreamRecord};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// How long to wait for another daemon before leaving with one: a command that starts a daemon may
/// count on this process.
const LEAVES_AFTER: Duration = Duration::from_secs(3);

/// A new consumer gets the follow-ups of its own tasks that were recorded within this time before
/// it: a task may have been started before its conversation was followed.
const EARLIER: Millis = 3_600_000;

/// The consumer of a conversation, and its tasks on other machines.
pub(crate) struct Follower {
    local: LocalFollower,
    hosts: Option<HostStreams>,
}

/// The consumer of a conversation on this machine.
struct LocalFollower {
    session: TaskSession,
    owner: String,
    name: String,
    kinds: Vec<Kind>,
    stream: Option<DaemonClient>,
    reading: FeedReading,
    /// The feed's epoch, once a stream has begun.
    epoch: Option<String>,
    retry: Backoff,
    retry_at: Option<Instant>,
    /// Whether to end with the daemon.
    leaves_with_daemon: bool,
    /// When the last stream ended; `None` while there is one.
    lost_at: Option<Instant>,
    /// Whether the first stream leaves out what was recorded before it for everybody.
    skips_everybody: bool,
}

impl Follower {
    /// Returns the follower of this conversation's tasks in this session and on other machines. It has
    /// read nothing yet.
    pub(crate) fn new(session: TaskSession, conversation: &Conversation, kinds: Vec<Kind>) -> Self {
        let owner = conversation.owner();
        Self {
            hosts: HostStreams::of(&owner),
            local: LocalFollower {
                session,
                owner,
                name: conversation.consumer(),
                kinds,
                stream: None,
                reading: FeedReading::default(),
                epoch: None,
                retry: RETRY,
                retry_at: None,
                leaves_with_daemon: false,
                lost_at: None,
                skips_everybody: false,
            },
        }
    }

    /// Leaves out what was recorded for everybody before the first stream: a conversation that is not
    /// followed all the time gets only what it has missed of its own tasks.
    pub(crate) fn without_earlier_of_everybody(mut self) -> Self {
        self.local.skips_everybody = true;
        self
    }

    /// Sets whether the end of the daemon is the follower's end too, unless another one is there soon.
    /// Otherwise the follower starts one.
    pub(crate) fn leave_with_daemon(&mut self, leaves: bool) {
        self.local.leaves_with_daemon = leaves;
    }

    /// Whether tasks on other machines are followed.
    pub(crate) fn has_hosts(&self) -> bool {
        self.hosts
            .as_ref()
            .is_some_and(HostStreams::is_any_followed)
    }

    /// Returns what comes next, first that the stream of this machine has begun: a process that followed
    /// the conversation before is told to leave then. Starts a daemon if none runs, and connects again
    /// when it ends.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the first stream cannot begin, or no later one ever can.
    pub(crate) async fn next(&mut self) -> Result<Incoming, Error> {
        let hosts = self.hosts.as_mut();
        let has_begun = self.local.epoch.is_some();
        let from_hosts = async {
            match hosts.filter(|_| has_begun) {
                Some(hosts) => hosts.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            incoming = self.local.next() => incoming,
            incoming = from_hosts => Ok(incoming),
        }
    }

    /// Marks these records of the feed with this epoch as dealt with. The acknowledgement is sent by the
    /// next call of [`Follower::next`] or [`Follower::send_acknowledgement`].
    pub(crate) fn settle(&mut self, epoch: &str, seqs: &[Seq]) {
        if self.local.epoch.as_deref() == Some(epoch) {
            self.local.reading.settle(seqs);
        } else if let Some(hosts) = &mut self.hosts {
            hosts.settle(epoch, seqs);
        }
    }

    /// Sends what [`Follower::settle`] found to be acknowledged. If that fails, the records come
    /// again on the next stream.
    pub(crate) async fn send_acknowledgement(&mut self) {
        self.local.send_acknowledgement().await;
    }
}

impl LocalFollower {
    async fn next(&mut self) -> Result<Incoming, Error> {
        loop {
            self.send_acknowledgement().await;
            let Some(stream) = &mut self.stream else {
                if let Some(began) = self.begin_or_wait().await? {
                    return Ok(began);
                }
                continue;
            };
            match stream.line().await {
                Ok(Some(line)) => {
                    if let Some(incoming) = self.receive(&line) {
                        return Ok(incoming);
                    }
                }
                // The daemon has ended or cannot be reached.
                Ok(None) | Err(_) => self.try_later(),
            }
        }
    }

    async fn send_acknowledgement(&mut self) {
        if let (Some(seq), Some(stream)) = (self.reading.unsent(), &mut self.stream) {
            drop(stream.acknowledge(seq).await);
            self.reading.take_unsent();
        }
    }

    async fn begin_or_wait(&mut self) -> Result<Option<Incoming>, Error> {
        if let Some(at) = self.retry_at {
            sleep_until(at).await;
        }
        match self.begin().await {
            Ok(began) => {
                self.retry = RETRY;
                self.retry_at = None;
                self.lost_at = None;
                Ok(Some(began))
            }
            Err(error) if self.epoch.is_some() && error.kind != ErrorKind::Version => {
                tracing::debug!(%error, "cannot read the feed now");
                let is_over = |lost_at: Instant| lost_at.elapsed() >= LEAVES_AFTER;
                if self.leaves_with_daemon && self.lost_at.is_some_and(is_over) {
                    return Ok(Some(Incoming::Left));
                }
                self.try_later();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn try_later(&mut self) {
        self.stream = None;
        self.lost_at.get_or_insert_with(Instant::now);
        self.retry_at = Some(Instant::now() + self.retry.next_pause());
    }

    async fn begin(&mut self) -> Result<Incoming, Error> {
        let daemon = if self.leaves_with_daemon {
            self.session.daemon().await
        } else {
            self.session.daemon_or_start().await
        };
        let daemon = daemon?;
        let mut client = daemon.ok_or_else(|| self.session.no_daemon())?;
        let known = client.ask(&Request::Consumers).await;
        let Response::Consumers(known) = known? else {
            return Err(unexpected());
        };
        let this = known.consumers.iter().find(|one| one.name == self.name);
        let (is_new, cursor) = (this.is_none(), this.map_or(0, |one| one.cursor));
        let request = ConsumeRequest {
            name: self.name.clone(),
            from_now: false,
            // The process that was started last is the one that the client talks to.
            take_over: true,
            filter: Filter::new(self.kinds.clone(), Vec::new(), Vec::new())
                .for_owner(Some(self.owner.clone())),
        };
        let hello = client.consume(request).await?;
        let hello = serde_json::from_str(&hello).map_err(unreadable)?;
        let LiveRecord::Hello {
            epoch, last_seq, ..
        } = hello
        else {
            return Err(unexpected());
        };
        let start = StreamStart {
            last_before: last_seq,
            own_since: is_new.then(|| clock::now().wall.saturating_sub(EARLIER)),
            skips_everybody: self.skips_everybody && self.epoch.is_none(),
        };
        self.reading.begin(&epoch, start);
        self.stream = Some(client);
        let before = self.epoch.replace(epoch.clone());
        Ok(Incoming::Began {
            host: None,
            replaced: before.filter(|before| *before != epoch),
            epoch,
            cursor,
            last: last_seq,
        })
    }

    /// Returns what a line reports, if anything.
    fn receive(&mut self, line: &str) -> Option<Incoming> {
        let record = match serde_json::from_str::<StreamRecord>(line) {
            Ok(record) => record,
            Err(_) => {
                // A kind of a later version, or the daemon's refusal.
                if let Some(seq) = serde_json::from_str::<UnknownSeq>(line).ok()?.seq {
                    self.reading.pass_over(seq);
                }
                return None;
            }
        };
        match record {
            StreamRecord::Durable(record) => self.reading.receive(*record),
            StreamRecord::Live(LiveRecord::Status {
                text,
                running,
                waiting,
                stalled,
                ..
            }) => Some(Incoming::Status {
                text,
                active: running + waiting + stalled,
            }),
            StreamRecord::Live(LiveRecord::Sync) => Some(Incoming::CaughtUp),
            StreamRecord::Live(LiveRecord::Replaced) => Some(Incoming::Replaced),
            StreamRecord::Live(LiveRecord::Gap { to, .. }) => {
                self.reading.pass_over(to);
                None
            }
            StreamRecord::Live(
                LiveRecord::Hello { .. } | LiveRecord::Tasks { .. } | LiveRecord::Acked { .. },
            ) => None,
        }
    }
}

/// The number of a record of unknown kind.
#[derive(Deserialize)]
struct UnknownSeq {
    seq: Option<Seq>,
}
