//! Serves a conversation of another machine: the follow-ups of its tasks in all sessions here, for as
//! long as it has tasks or undelivered messages in one of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::consumer_follower::{ConsumerFollower, FeedNews, find_consumer};
use super::lookup;
use super::notes::Notes;
use super::remote_conversation::{
    Conversation, SessionNote, calling_conversation, consume_request, consumer_of,
};
use super::session::{SessionChoice, TaskSession};
use crate::model::{Error, ErrorKind, Seq};
use crate::process;
use crate::tmux::ServerChoice;
use crate::wire::{FollowOrder, FollowReply, LiveRecord, Request, Response, StreamRecord};

/// How long to wait before a session whose files cannot be used is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// After how long without a change it is asked whether the conversation has tasks, twice before it has
/// none: events are recorded and delivered in far less time.
const QUIET: Duration = Duration::from_secs(5);

/// How often it is asked while nothing changes.
const ASK_EVERY: Duration = Duration::from_secs(600);

/// How long a daemon may take to answer that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How many reports of sessions may wait until they are sent.
const QUEUE: usize = 16;

/// How often a consumer whose reader leaves is tried to be removed, and the pause before each.
const REMOVALS: u32 = 50;
const REMOVED_EVERY: Duration = Duration::from_millis(10);

/// What a session's stream reports, with the session's key.
type Report = (String, Change);

enum Change {
    Reply(FollowReply),
    /// Whether the conversation has neither a task nor an undelivered message in the session.
    Idle(bool),
    /// Another process has forgotten the conversation.
    Forgotten,
}

/// Follows all sessions in which the calling conversation has launched tasks, until `orders` is closed.
///
/// # Errors
///
/// When the caller is no conversation of another machine, or the notes of the sessions cannot be found.
pub(crate) async fn serve_follow(
    orders: mpsc::Receiver<Result<FollowOrder, serde_json::Error>>,
    replies: mpsc::Sender<FollowReply>,
) -> Result<(), Error> {
    LocalSet::new().run_until(serve(orders, replies)).await
}

async fn serve(
    mut orders: mpsc::Receiver<Result<FollowOrder, serde_json::Error>>,
    replies: mpsc::Sender<FollowReply>,
) -> Result<(), Error> {
    let by = calling_conversation()
        .ok_or_else(|| Error::usage("no conversation of another machine calls".to_owned()))?;
    let notes = Notes::of_sessions(&lookup)?;
    let watched = notes
        .watch()
        .map_err(|source| Error::folder(&notes.folder, &source));
    let mut watch = watched?;
    let (reporter, mut reports) = mpsc::channel(QUEUE);
    let mut served = Served {
        by,
        notes,
        sessions: BTreeMap::new(),
        reporter,
    };
    served.find_sessions();
    let mut is_idle = false;
    loop {
        let is_now_idle = served.sessions.values().all(|session| session.is_idle);
        let reply = if is_now_idle && !is_idle {
            Some(FollowReply::Idle)
        } else {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return Ok(()),
                    // It may come from a later version.
                    Some(Err(_)) => None,
                    Some(Ok(FollowOrder::Ack { epoch, seq })) => {
                        served.acknowledge(&epoch, seq);
                        None
                    }
                    Some(Ok(FollowOrder::Forget)) => Some(FollowReply::Forgotten { done: served.forget().await }),
                },
                Some((key, change)) = reports.recv() => served.note(&key, change),
                () = watch.changed() => {
                    served.find_sessions();
                    None
                }
            }
        };
        is_idle = is_now_idle;
        if let Some(reply) = reply {
            // Another process follows the conversation now, in all sessions.
            let is_last = matches!(reply, FollowReply::Replaced { .. });
            if replies.send(reply).await.is_err() || is_last {
                return Ok(());
            }
        }
    }
}

struct Served {
    by: Conversation,
    notes: Notes,
    sessions: BTreeMap<String, ServedSession>,
    reporter: mpsc::Sender<Report>,
}

struct ServedSession {
    note: SessionNote,
    /// The epoch of the present stream.
    epoch: String,
    /// What was acknowledged last: epoch and sequence number.
    acknowledged: watch::Sender<(String, Seq)>,
    is_idle: bool,
    /// Ends with this.
    _stream: JoinSet<()>,
}

impl Served {
    /// Follows the sessions that were noted since the last time.
    fn find_sessions(&mut self) {
        for note in self.notes.list::<SessionNote>() {
            if note.by == self.by && !self.sessions.contains_key(&note.key) {
                self.follow(note);
            }
        }
    }

    fn follow(&mut self, note: SessionNote) {
        let (acknowledged, received) = watch::channel((String::new(), 0));
        let stream = SessionStream {
            note: note.clone(),
            notes: self.notes.clone(),
            reporter: self.reporter.clone(),
            acknowledged: received,
            epoch: String::new(),
            last: 0,
            acked: 0,
            quiet: QuietCheck::new(),
        };
        let mut streams = JoinSet::new();
        streams.spawn_local(stream.run());
        let session = ServedSession {
            epoch: String::new(),
            acknowledged,
            is_idle: false,
            _stream: streams,
            note: note.clone(),
        };
        self.sessions.insert(note.key, session);
    }

    /// Notes what a session reports. Returns what is to be sent.
    fn note(&mut self, key: &str, change: Change) -> Option<FollowReply> {
        let session = self.sessions.get_mut(key)?;
        match change {
            Change::Idle(is_idle) => {
                session.is_idle = is_idle;
                None
            }
            Change::Forgotten => {
                self.sessions.remove(key);
                // A launch may have noted it again.
                self.find_sessions();
                None
            }
            Change::Reply(reply) => {
                if let FollowReply::Began { epoch, .. } = &reply {
                    session.epoch.clone_from(epoch);
                }
                Some(reply)
            }
        }
    }

    fn acknowledge(&mut self, epoch: &str, seq: Seq) {
        for session in self.sessions.values() {
            if session.epoch == epoch {
                session.acknowledged.send_replace((epoch.to_owned(), seq));
            }
        }
    }

    /// Forgets the conversation, unless it has tasks or undelivered messages, or a launch is under way.
    /// Returns whether it did.
    async fn forget(&mut self) -> bool {
        self.find_sessions();
        if self.sessions.values().any(|session| !session.is_idle) {
            return false;
        }
        let consumer = consumer_of(&self.by);
        while let Some((key, session)) = self.sessions.pop_first() {
            let ServedSession {
                note,
                _stream: stream,
                ..
            } = session;
            let Ok(Some(taken)) = self.notes.take(&consumer, &key) else {
                self.follow(note);
                return false;
            };
            drop(stream);
            if !remove_consumer(&note, &consumer).await {
                drop(taken);
                self.follow(note);
                return false;
            }
            if let Err(error) = taken.remove() {
                tracing::warn!(%error, "a note cannot be removed");
            }
        }
        true
    }
}

/// Returns a noted session, whose files have the key that was noted.
fn locate(note: &SessionNote) -> Result<TaskSession, Error> {
    let choice = SessionChoice {
        session: Some(note.session.clone()),
        server: ServerChoice {
            socket_path: Some(note.server.clone()),
            ..ServerChoice::default()
        },
    };
    let mut session = TaskSession::named(&choice)?;
    session.use_files(session.paths.with_key(&note.key));
    // It is gone after a reboot.
    session.server.create_socket_folder()?;
    Ok(session)
}

/// Removes the consumer, whose reader leaves. Returns whether there is none any more.
async fn remove_consumer(note: &SessionNote, consumer: &str) -> bool {
    let Ok(session) = locate(note) else {
        return false;
    };
    for _ in 0..REMOVALS {
        let Ok(Some(mut daemon)) = session.daemon().await else {
            return false;
        };
        let request = Request::RemoveConsumer {
            name: consumer.to_owned(),
        };
        match daemon.ask(&request).await {
            Ok(_) => return true,
            Err(error) if error.kind == ErrorKind::Missing => {
                return true;
            }
            Err(_) => sleep(REMOVED_EVERY).await,
        }
    }
    false
}

/// The stream of one session's follow-ups.
struct SessionStream {
    note: SessionNote,
    notes: Notes,
    reporter: mpsc::Sender<Report>,
    acknowledged: watch::Receiver<(String, Seq)>,
    /// The epoch of the present stream.
    epoch: String,
    /// The last record that was sent, and the last one that is acknowledged on the disk.
    last: Seq,
    acked: Seq,
    quiet: QuietCheck,
}

impl SessionStream {
    /// Follows the session, across restarts of its daemon, until it is not needed any more.
    async fn run(mut self) {
        let session = loop {
            match locate(&self.note) {
                Ok(session) => break session,
                Err(error) => tracing::debug!(%error, "cannot use a session now"),
            }
            sleep(AGAIN_AFTER).await;
        };
        let request = consume_request(&self.note.by, false);
        let mut follower = ConsumerFollower::new(session, request);
        loop {
            // Until the consumer is read, so that no other process forgets it meanwhile.
            let held = match follower.is_reading() {
                true => None,
                false => {
                    let consumer = consumer_of(&self.note.by);
                    match self.notes.hold_existing(&consumer, &self.note.key) {
                        Ok(Some(held)) => Some(held),
                        Ok(None) => {
                            let report = (self.note.key.clone(), Change::Forgotten);
                            drop(self.reporter.send(report).await);
                            return;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "a note cannot be held now");
                            sleep(AGAIN_AFTER).await;
                            continue;
                        }
                    }
                }
            };
            let ask_at = self.quiet.at;
            // Losing any of them is safe: nothing is taken before it is done.
            let is_left = tokio::select! {
                news = follower.next() => {
                    drop(held);
                    self.receive(news, &follower.session).await
                }
                changed = self.acknowledged.changed() => {
                    let (of, seq) = self.acknowledged.borrow_and_update().clone();
                    if of == self.epoch && seq <= self.last {
                        follower.acknowledge(seq).await;
                    }
                    changed.is_err()
                }
                () = sleep_until(ask_at), if follower.is_reading() => {
                    let has_none = self.acked >= self.last && self.has_no_task(&follower.session).await;
                    if self.quiet.asked(has_none) {
                        self.report_idle(true).await;
                    }
                    false
                }
            };
            if is_left {
                return;
            }
        }
    }

    /// Returns whether another process reads now, or nobody needs the stream.
    async fn receive(&mut self, news: Result<FeedNews, Error>, session: &TaskSession) -> bool {
        let reply = match news {
            Ok(FeedNews::Began {
                epoch,
                cursor,
                last_seq,
            }) => {
                self.quiet = QuietCheck::new();
                epoch.clone_into(&mut self.epoch);
                (self.last, self.acked) = (cursor.unwrap_or_default(), cursor.unwrap_or_default());
                // What was acknowledged before this stream began is sent again, and acknowledged again.
                self.acknowledged.mark_unchanged();
                Some(FollowReply::Began {
                    feed: self.note.key.clone(),
                    epoch,
                    cursor: cursor.unwrap_or_default(),
                    last_seq,
                    own_since: cursor.is_none().then_some(self.note.since),
                })
            }
            Ok(FeedNews::Line(record)) => {
                self.quiet.restart();
                self.report_idle(false).await;
                self.reply_to(record)
            }
            Ok(FeedNews::Unknown(_)) => None,
            Ok(FeedNews::Ended) => {
                self.report_idle(false).await;
                None
            }
            Err(error) => {
                tracing::debug!(session = self.note.session, %error, "cannot read the feed now");
                self.report_idle(false).await;
                None
            }
        };
        let Some(reply) = reply else { return false };
        let is_last = matches!(reply, FollowReply::Replaced { .. });
        if is_last && self.is_newest(session).await {
            // An older process had taken the stream, which ends now.
            return false;
        }
        let report = (self.note.key.clone(), Change::Reply(reply));
        self.reporter.send(report).await.is_err() || is_last
    }

    /// Returns what is to be sent of a line of the stream, if anything.
    fn reply_to(&mut self, record: StreamRecord) -> Option<FollowReply> {
        let feed = self.note.key.clone();
        match record {
            StreamRecord::Durable(record) => {
                self.last = record.seq;
                Some(FollowReply::Record { feed, record })
            }
            StreamRecord::Live(LiveRecord::Gap { to, .. }) => {
                self.last = to;
                Some(FollowReply::Gap { feed, to })
            }
            StreamRecord::Live(LiveRecord::Acked { acked }) => {
                self.acked = acked;
                Some(FollowReply::Acked { feed, seq: acked })
            }
            StreamRecord::Live(LiveRecord::Replaced) => Some(FollowReply::Replaced { feed }),
            StreamRecord::Live(
                LiveRecord::Hello { .. }
                | LiveRecord::Status { .. }
                | LiveRecord::Sync
                | LiveRecord::Tasks { .. },
            ) => None,
        }
    }

    /// Whether it is known that no task of the conversation is alive or will be restarted.
    async fn has_no_task(&self, session: &TaskSession) -> bool {
        let ask = async {
            let mut daemon = session.daemon().await.ok()??;
            let Response::List(view) = daemon.ask(&Request::List).await.ok()? else {
                return None;
            };
            Some(view.tasks)
        };
        let Ok(Some(tasks)) = timeout(ANSWERS_WITHIN, ask).await else {
            return false;
        };
        let is_own = |owner: &Option<String>| owner.as_deref() == Some(&*self.note.by.owner);
        !tasks
            .iter()
            .filter(|one| is_own(&one.task.owner))
            .any(|one| one.task.is_alive() || one.next_restart.is_some())
    }

    /// Whether this process was started after the present reader, if there is one. An older one serves a
    /// connection that is lost, which this machine may not know for hours.
    async fn is_newest(&self, session: &TaskSession) -> bool {
        let reader = async {
            let mut daemon = session.daemon().await.ok()??;
            let consumer = find_consumer(&mut daemon, &consumer_of(&self.note.by)).await;
            consumer.ok()??.reader
        };
        let started = |pid: u32| (process::started_at(pid), pid);
        let ours = started(std::process::id());
        reader.await.is_none_or(|reader| started(reader) < ours)
    }

    async fn report_idle(&mut self, is_idle: bool) {
        if self.quiet.is_idle != is_idle {
            self.quiet.is_idle = is_idle;
            let report = (self.note.key.clone(), Change::Idle(is_idle));
            drop(self.reporter.send(report).await);
        }
    }
}

/// When to ask whether the conversation has tasks.
struct QuietCheck {
    at: Instant,
    /// Whether it had none when it was asked last, and nothing has changed since.
    had_none: bool,
    /// What was reported.
    is_idle: bool,
}

impl QuietCheck {
    fn new() -> Self {
        Self {
            at: Instant::now() + QUIET,
            had_none: false,
            is_idle: false,
        }
    }

    /// Something has changed.
    fn restart(&mut self) {
        self.at = Instant::now() + QUIET;
        self.had_none = false;
    }

    /// Notes the answer. Returns whether it is certain now that there is none.
    fn asked(&mut self, has_none: bool) -> bool {
        let is_certain = has_none && self.had_none;
        let pause = if has_none && !is_certain {
            QUIET
        } else {
            ASK_EVERY
        };
        self.at = Instant::now() + pause;
        self.had_none = has_none;
        is_certain
    }
}
