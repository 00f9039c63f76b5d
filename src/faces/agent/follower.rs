//! Reads the feed as the consumer of one conversation, across restarts of the daemon, and the feeds of
//! its tasks on other machines.

use std::time::Duration;

use tokio::time::Instant;

use super::conversation::Conversation;
use super::feed_reading::{FeedReading, Feeds, Incoming, StreamStart};
use super::host_streams::HostStreams;
use crate::clock;
use crate::model::{Error, ErrorKind, Kind, Millis, Seq};
use crate::ops::{ConsumerFollower, FeedNews, TaskSession};
use crate::wire::{LiveRecord, StreamRecord};

/// How long to wait for another daemon before leaving with one: a command that starts a daemon may
/// count on this process.
const LEAVES_AFTER: Duration = Duration::from_secs(3);

/// A new consumer gets the follow-ups of its own tasks that were recorded within this time before
/// it: a task may have been started before its conversation was followed.
const EARLIER: Millis = 3_600_000;

/// The consumer of a conversation, and its tasks on other machines.
pub(super) struct Follower {
    /// The feed of this machine.
    feed: ConsumerFollower,
    reading: FeedReading,
    /// The feed's epoch, once a stream has begun.
    epoch: Option<String>,
    /// When the last stream ended; `None` while there is one.
    lost_at: Option<Instant>,
    /// Whether the first stream leaves out what was recorded before it for everybody.
    skips_everybody: bool,
    hosts: Option<HostStreams>,
}

impl Follower {
    /// Returns the follower of this conversation's tasks in this session and on other machines. It has
    /// read nothing yet. `skips_everybody` leaves out what was recorded for everybody before the first
    /// stream: a conversation that is not followed all the time gets only what it has missed of its own
    /// tasks.
    pub(super) fn new(
        session: TaskSession,
        conversation: &Conversation,
        kinds: Vec<Kind>,
        skips_everybody: bool,
    ) -> Self {
        Self {
            feed: ConsumerFollower::new(session, conversation.consume_request(kinds)),
            reading: FeedReading::default(),
            epoch: None,
            lost_at: None,
            skips_everybody,
            hosts: HostStreams::of(&conversation.owner()),
        }
    }

    fn receive(&mut self, news: Result<FeedNews, Error>) -> Result<Incoming, Error> {
        let record = match news {
            Ok(FeedNews::Line(record)) => record,
            Ok(FeedNews::Began {
                epoch,
                cursor,
                last_seq,
            }) => return Ok(self.begin(epoch, cursor, last_seq)),
            Ok(FeedNews::Unknown(seq)) => {
                seq.map(|seq| self.reading.pass(seq));
                return Ok(Incoming::Passed);
            }
            Ok(FeedNews::Ended) => {
                self.lost_at.get_or_insert_with(Instant::now);
                return Ok(Incoming::Passed);
            }
            Err(error) if self.epoch.is_none() || error.kind == ErrorKind::Version => {
                return Err(error);
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read the feed now");
                let is_over = |lost_at: Instant| lost_at.elapsed() >= LEAVES_AFTER;
                let leaves = !self.feed.starts_daemon && self.lost_at.is_some_and(is_over);
                return Ok(if leaves {
                    Incoming::Left
                } else {
                    Incoming::Passed
                });
            }
        };
        let incoming = match record {
            StreamRecord::Durable(record) => self.reading.receive(*record),
            StreamRecord::Live(LiveRecord::Status {
                text,
                running,
                waiting,
                ..
            }) => Some(Incoming::Status {
                text,
                active: running + waiting,
            }),
            StreamRecord::Live(LiveRecord::Sync) => Some(Incoming::CaughtUp),
            StreamRecord::Live(LiveRecord::Replaced) => Some(Incoming::Replaced),
            StreamRecord::Live(LiveRecord::Gap { to, .. }) => {
                self.reading.pass(to);
                None
            }
            StreamRecord::Live(
                LiveRecord::Hello { .. } | LiveRecord::Tasks { .. } | LiveRecord::Acked { .. },
            ) => None,
        };
        Ok(incoming.unwrap_or(Incoming::Passed))
    }

    fn begin(&mut self, epoch: String, cursor: Option<Seq>, last: Seq) -> Incoming {
        let is_new = cursor.is_none();
        let start = StreamStart {
            last_before: last,
            own_since: is_new.then(|| clock::now().wall.saturating_sub(EARLIER)),
            skips_everybody: self.skips_everybody && self.epoch.is_none(),
        };
        self.lost_at = None;
        self.reading.begin(&epoch, start);
        let before = self.epoch.replace(epoch.clone());
        Incoming::Began {
            host: None,
            replaced: before.filter(|before| *before != epoch),
            epoch,
            cursor: cursor.unwrap_or_default(),
            last,
        }
    }
}

impl Feeds for Follower {
    /// Returns what comes next, first that the stream of this machine has begun: a process that followed
    /// the conversation before is told to leave then. Starts a daemon if none runs, and connects again
    /// when it ends. Fails when the first stream cannot begin, or no later one ever can.
    async fn next(&mut self) -> Result<Incoming, Error> {
        let hosts = self.hosts.as_mut().filter(|_| self.epoch.is_some());
        let from_hosts = async {
            match hosts {
                Some(hosts) => hosts.next().await,
                None => std::future::pending().await,
            }
        };
        let news = tokio::select! {
            news = self.feed.next() => news,
            incoming = from_hosts => return Ok(incoming),
        };
        self.receive(news)
    }

    async fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>) {
        if let Some(hosts) = &mut self.hosts {
            hosts.acknowledge(&first_open);
        }
        if let Some(epoch) = &self.epoch
            && self.feed.is_reading()
            && let Some(seq) = self.reading.acknowledgement(first_open(epoch))
        {
            self.feed.acknowledge(seq).await;
        }
    }

    fn has_hosts(&self) -> bool {
        self.hosts
            .as_ref()
            .is_some_and(HostStreams::is_any_followed)
    }

    /// Unless another daemon is there soon. Otherwise the follower starts one.
    fn leave_with_daemon(&mut self, leaves: bool) {
        self.feed.starts_daemon = !leaves;
    }
}
