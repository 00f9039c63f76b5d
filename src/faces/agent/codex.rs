//! Codex: adds messages to a thread's queue, over the control socket of its app-server.
//!
//! The first `run` of a thread starts a follower, which ends when no task of the session is active and
//! everything is acknowledged. It outlives Codex's TUI, which is a client of the app-server too.
//!
//! The receipt: the thread has the message, or its queue no longer has it because the user removed it.
//! Codex keeps the id of each message, which names the records that are in it. So a follower that
//! comes after a killed one knows what that one has delivered.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::app_server::AppServerError;
use super::codex_thread::{CodexThread, DeliveryError, MessageId, QueuePlace, Reachable};
use super::conversation::{AgentClient, Conversation};
use super::follower::Follower;
use super::incoming::Incoming;
use super::outbox::{Batch, Budget, FollowUp, Next, PendingFollowUps};
use super::until;
use crate::clock;
use crate::files;
use crate::model::{Backoff, Error, Seq};
use crate::ops::{SessionChoice, TaskSession, lookup};
use crate::wire::Kind;

/// How long to try to get the lock: a launch that checks it holds it for an instant.
const LOCKED_WITHIN: Duration = Duration::from_millis(200);

/// How often to try to get the lock meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// How long a follower stays when there is nothing to do. It is as long as the budget's window, so
/// that the budget need not be kept between followers.
const LINGERS: Duration = Duration::from_secs(60);

/// How long it then stays after it has removed its lock: launches that have found the lock are
/// noticed by then.
const LEAVES_AFTER: Duration = Duration::from_secs(2);

/// How long to wait before looking for a receipt.
const CHECK: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// How long to wait before trying again to deliver.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), LONGEST_RETRY);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// Which thread to follow, and how.
#[derive(Debug)]
pub(crate) struct FollowOptions {
    /// The thread's id.
    pub(crate) thread: String,
    /// Codex's program.
    pub(crate) program: PathBuf,
    pub(crate) max_per_minute: u32,
    /// Whether to stay when no task is active.
    pub(crate) stays: bool,
}

/// Follows a thread's tasks. `report` is called once with whether the thread can be woken; if it
/// cannot, nothing is followed.
///
/// # Errors
///
/// When the feed cannot be read.
pub(crate) async fn follow(
    choice: &SessionChoice,
    options: FollowOptions,
    report: impl FnOnce(&Reachable),
) -> Result<(), Error> {
    let conversation = Conversation::new(AgentClient::Codex, &options.thread)
        .ok_or_else(|| Error::usage("the thread's id is empty".to_owned()))?;
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    session.paths.create_runtime()?;
    let mut thread = CodexThread::new(&conversation, options.program, &lookup)
        .ok_or_else(|| Error::usage("neither CODEX_HOME nor HOME is set".to_owned()))?;
    let reachable = thread.reachable().await;
    let path = session.paths.follower_lock(&conversation.owner());
    let lock = match reachable {
        Reachable::Yes => lock(&path)
            .await
            .map_err(|source| Error::folder(&session.paths.runtime, &source))?,
        Reachable::No(_) => None,
    };
    report(&reachable);
    let Some(lock) = lock else { return Ok(()) };
    let outbox = PendingFollowUps::new(&session.name, options.max_per_minute, Budget::default());
    let deliveries = Deliveries {
        follower: Follower::new(session, &conversation, vec![Kind::FollowUp])
            .without_earlier_of_everybody(),
        outbox,
        thread,
        earlier: Vec::new(),
        under_way: None,
        presence: Presence {
            path,
            _lock: lock,
            stays: options.stays,
            is_leaving: false,
            idle_since: None,
        },
    };
    deliveries.run().await
}

/// Returns the lock; `None` when another process follows the thread.
async fn lock(path: &Path) -> io::Result<Option<File>> {
    let deadline = Instant::now() + LOCKED_WITHIN;
    loop {
        let file = files::open_to_write(path)?;
        // It may have been removed meanwhile by the process that held it.
        if file.try_lock().is_ok() && path.exists() {
            return Ok(Some(file));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(TRY_EVERY).await;
    }
}

/// Whether this process is still wanted.
struct Presence {
    path: PathBuf,
    _lock: File,
    /// Whether it stays when nothing is active.
    stays: bool,
    /// Whether the lock's file has been removed.
    is_leaving: bool,
    idle_since: Option<Instant>,
}

impl Presence {
    /// Notes whether there is something to do. Returns when to call [`Presence::leave`], if nothing
    /// changes until then.
    fn note(&mut self, is_idle: bool) -> Option<Instant> {
        if self.stays || !is_idle {
            self.idle_since = None;
            return None;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        let stays = if self.is_leaving {
            LEAVES_AFTER
        } else {
            LINGERS
        };
        Some(since + stays)
    }

    /// Removes the lock's file at first; returns whether to end, the next time.
    fn leave(&mut self) -> bool {
        if self.is_leaving {
            return true;
        }
        // If it cannot be removed, a launch just before the end may go unnoticed.
        drop(std::fs::remove_file(&self.path));
        self.is_leaving = true;
        self.idle_since = None;
        false
    }
}

/// A message that is to be handed to Codex, or was.
struct UnderWay {
    id: MessageId,
    text: String,
    seqs: Vec<Seq>,
    stage: Stage,
    /// When to do the next step.
    at: Instant,
    /// How long the next step is put off when there is no receipt yet.
    check: Backoff,
    /// How long it is put off after a failure.
    retry: Backoff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Codex does not have it.
    New,
    /// It is not known whether Codex has it: the connection was lost.
    Unknown,
    /// Codex has it; the receipt is awaited.
    Added,
}

struct Deliveries {
    follower: Follower,
    outbox: PendingFollowUps,
    thread: CodexThread,
    /// What was recorded before this process followed the thread, and what came after it, until it is
    /// known how much of that an earlier process has delivered.
    earlier: Vec<FollowUp>,
    under_way: Option<UnderWay>,
    presence: Presence,
}

impl Deliveries {
    async fn run(mut self) -> Result<(), Error> {
        let (mut is_caught_up, mut resume_at, mut n_active) = (false, None, None);
        let mut look_at = Instant::now();
        loop {
            let is_free = self.under_way.is_none();
            let is_empty = self.outbox.is_empty() && self.earlier.is_empty();
            let has_none = n_active == Some(0) && !self.follower.has_hosts();
            let is_idle = is_caught_up && is_free && is_empty && has_none;
            let leave_at = self.presence.note(is_idle);
            self.follower.leave_with_daemon(leave_at.is_some());
            let may_hand_over = is_caught_up && is_free && !self.outbox.is_empty();
            let at = self.under_way.as_ref().map(|one| one.at);
            let never = Instant::now();
            tokio::select! {
                // What is there already belongs into the same message.
                biased;
                incoming = self.follower.next() => match incoming? {
                    Incoming::FollowUp(follow_up) => {
                        if follow_up.is_new && self.earlier.is_empty() {
                            self.outbox.push(*follow_up);
                        } else {
                            self.earlier.push(*follow_up);
                        }
                    }
                    Incoming::Began { host, replaced, .. } => {
                        if host.is_none() {
                            (is_caught_up, n_active) = (false, None);
                        }
                        if let Some(replaced) = replaced {
                            self.forget(&replaced);
                        }
                    }
                    Incoming::Status { active, .. } => n_active = Some(active),
                    Incoming::CaughtUp => is_caught_up = true,
                    Incoming::Notice { .. } | Incoming::Forgotten(_) => {}
                    Incoming::Replaced => return Ok(()),
                    Incoming::Left => {
                        self.presence.leave();
                        return Ok(());
                    }
                },
                () = sleep_until(look_at), if is_caught_up && !self.earlier.is_empty() => {
                    if !self.sort_out_earlier().await {
                        look_at = Instant::now() + LONGEST_RETRY;
                    }
                }
                () = until(resume_at), if may_hand_over => {
                    resume_at = None;
                    match self.outbox.next(clock::now().wall) {
                        Next::Hand(batch) => self.under_way = Some(UnderWay::new(*batch)),
                        Next::Wait(until) => resume_at = Some(until),
                        Next::Nothing => {}
                    }
                }
                () = sleep_until(at.unwrap_or(never)), if at.is_some() => self.advance().await,
                () = self.thread.queue_changed() => {
                    if let Some(one) = &mut self.under_way
                        && one.stage == Stage::Added
                    {
                        one.at = Instant::now();
                    }
                }
                () = sleep_until(leave_at.unwrap_or(never)), if leave_at.is_some() => {
                    if self.presence.leave() {
                        self.follower.send_acknowledgement().await;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Forgets what belongs to a feed that was replaced.
    fn forget(&mut self, epoch: &str) {
        self.outbox.forget(epoch);
        self.earlier.retain(|one| one.epoch != epoch);
        self.under_way.take_if(|one| one.id.epoch() == epoch);
    }

    /// Leaves out what an earlier process has delivered. Returns `false` if that cannot be found out
    /// now.
    async fn sort_out_earlier(&mut self) -> bool {
        let delivered = match self.thread.delivered().await {
            Ok(delivered) => delivered,
            // It cannot be found out, and may be so for good.
            Err(DeliveryError::Server(AppServerError::Missing { .. })) => Vec::new(),
            Err(error) => {
                tracing::debug!(%error, "could not read the thread");
                return false;
            }
        };
        for follow_up in std::mem::take(&mut self.earlier) {
            let FollowUp { epoch, seq, .. } = &follow_up;
            if delivered.iter().any(|id| id.covers(epoch, *seq)) {
                self.follower.settle(epoch, &[*seq]);
            } else {
                self.outbox.push(follow_up);
            }
        }
        true
    }

    /// Hands the message over, or looks for its receipt.
    async fn advance(&mut self) {
        let Some(one) = &mut self.under_way else {
            return;
        };
        match one.advance(&mut self.thread).await {
            Ok(true) => {
                let seqs = std::mem::take(&mut one.seqs);
                let epoch = one.id.epoch().to_owned();
                self.under_way = None;
                self.follower.settle(&epoch, &seqs);
                self.follower.send_acknowledgement().await;
            }
            Ok(false) => one.at = Instant::now() + one.check.next_pause(),
            Err(error) => {
                tracing::debug!(%error, "could not deliver");
                one.at = Instant::now() + one.retry.next_pause();
            }
        }
    }
}

impl UnderWay {
    fn new(batch: Batch) -> Self {
        Self {
            id: MessageId::of(&batch),
            text: batch.message.content,
            seqs: batch.seqs,
            stage: Stage::New,
            at: Instant::now(),
            check: CHECK,
            retry: RETRY,
        }
    }

    /// Does the next step. Returns whether the thread has the message.
    async fn advance(&mut self, thread: &mut CodexThread) -> Result<bool, DeliveryError> {
        if self.stage == Stage::Unknown && thread.has(&self.id).await? {
            self.become_added();
        }
        if self.stage == Stage::Added {
            return thread.has_received(&self.id).await;
        }
        // Until the answer is there.
        self.stage = Stage::Unknown;
        match thread.add(&self.id, &self.text).await {
            Ok(QueuePlace::ToQueue) => self.become_added(),
            Ok(QueuePlace::ForGood) => return Ok(true),
            Err(error) => {
                if error.is_certain() {
                    self.stage = Stage::New;
                }
                return Err(error);
            }
        }
        Ok(false)
    }

    fn become_added(&mut self) {
        self.stage = Stage::Added;
        (self.check, self.retry) = (CHECK, RETRY);
    }
}
