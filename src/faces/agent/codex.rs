//! Codex: adds messages to a thread's queue, over the control socket of its app-server.
//!
//! The first `run` of a thread starts a follower, which ends when no task of the session is active and
//! everything is acknowledged. It outlives Codex's TUI, which is a client of the app-server too.
//!
//! The receipt: the thread has the message, or its queue no longer has it because the user removed it.
//! Codex keeps the id of each message. So a follower that comes after a killed one finds out whether
//! that one has delivered its last message.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::codex_thread::{Certainty, CodexThread, NotDone, QueuePlace, message_id};
use super::hand_over::{Client, Ended, Given, HandOver};
use super::ledger::{Ledger, SentMessage};
use super::{AgentClient, Conversation};
use crate::files;
use crate::model::{Backoff, Error, Kind, Millis};
use crate::ops::{SessionChoice, TaskSession, lookup};

/// How long to try to get the lock: a launch that checks it holds it for an instant.
const LOCKED_WITHIN: Duration = Duration::from_millis(200);

/// How often to try to get the lock meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// How long a follower stays when there is nothing to do.
const LINGERS: Duration = Duration::from_secs(60);

/// How long it then stays after it has removed its lock: launches that have found the lock are
/// noticed by then.
const LEAVES_AFTER: Duration = Duration::from_secs(2);

/// How long to wait before looking for a receipt.
const CHECK: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// How long to wait before trying again to deliver.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));

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
/// cannot, the error says why, and nothing is followed.
///
/// # Errors
///
/// When the feed cannot be read.
pub(crate) async fn follow(
    choice: &SessionChoice,
    options: FollowOptions,
    report: impl FnOnce(&Result<(), String>),
) -> Result<(), Error> {
    let conversation = Conversation::new(AgentClient::Codex, &options.thread)
        .ok_or_else(|| Error::usage("the thread's id is empty".to_owned()))?;
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    session.paths.create_runtime()?;
    let mut thread = CodexThread::new(&conversation, options.program, &lookup)
        .ok_or_else(|| Error::usage("neither CODEX_HOME nor HOME is set".to_owned()))?;
    let reachable = thread.check_reachable().await;
    let path = session.paths.follower_lock(&conversation.owner());
    let lock = match reachable {
        Ok(()) => lock(&path)
            .await
            .map_err(|source| Error::folder(&session.paths.runtime, &source))?,
        Err(_) => None,
    };
    report(&reachable);
    let Some(lock) = lock else { return Ok(()) };
    let follower = ThreadFollower {
        thread,
        under_way: None,
        presence: Presence {
            path,
            _lock: lock,
            stays: options.stays,
            is_leaving: false,
            idle_since: None,
        },
        leave_at: None,
    };
    let (feeds, max) = ((vec![Kind::FollowUp], true), options.max_per_minute);
    let hand_over = HandOver::take_over(follower, session, &conversation, feeds, max).await?;
    if let Some(hand_over) = hand_over {
        hand_over.run().await?;
    }
    Ok(())
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

impl Drop for Presence {
    fn drop(&mut self) {
        if !self.is_leaving {
            self.leave();
        }
    }
}

/// A message that is to be handed to Codex, or was.
struct UnderWay {
    id: String,
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
    /// It is not known whether an earlier process has handed it over.
    Recalled,
    /// Codex has it; the receipt is awaited.
    Added,
}

impl UnderWay {
    fn new(id: String, stage: Stage) -> Self {
        Self {
            id,
            stage,
            at: Instant::now(),
            check: CHECK,
            retry: RETRY,
        }
    }

    fn become_added(&mut self) {
        self.stage = Stage::Added;
        (self.check, self.retry) = (CHECK, RETRY);
        self.at = Instant::now() + self.check.next_pause();
    }

    fn has_failed(&mut self, error: &NotDone) {
        tracing::debug!(error.why, "could not deliver");
        self.at = Instant::now() + self.retry.next_pause();
    }

    /// Looks for the receipt. Returns whether it is there.
    async fn look(&mut self, thread: &mut CodexThread) -> Result<bool, NotDone> {
        if matches!(self.stage, Stage::Unknown | Stage::Recalled) {
            match thread.has(&self.id).await {
                Ok(true) => self.become_added(),
                Ok(false) => self.stage = Stage::New,
                // It cannot be found out, and may be so for good.
                Err(error)
                    if error.certainty == Certainty::NoServer && self.stage == Stage::Recalled =>
                {
                    self.stage = Stage::New;
                }
                Err(error) => return Err(error),
            }
        }
        if self.stage != Stage::Added {
            return Ok(false);
        }
        let is_received = thread.has_received(&self.id).await?;
        self.at = Instant::now() + self.check.next_pause();
        Ok(is_received)
    }
}

/// The process that follows a thread.
struct ThreadFollower {
    thread: CodexThread,
    under_way: Option<UnderWay>,
    presence: Presence,
    /// When to leave, if nothing changes until then.
    leave_at: Option<Instant>,
}

impl Client for ThreadFollower {
    async fn give(&mut self, messages: &[SentMessage]) -> Given {
        let Some(SentMessage { batch, .. }) = messages.first() else {
            return Given::Failed;
        };
        let id = message_id(batch);
        let known = self.under_way.take().filter(|one| one.id == id);
        let mut one = known.unwrap_or_else(|| UnderWay::new(id, Stage::New));
        let given = match self.thread.add(&one.id, &batch.message.content).await {
            Ok(QueuePlace::ToQueue) => {
                one.become_added();
                Given::Sent
            }
            Ok(QueuePlace::ForGood) => return Given::Received,
            Err(error) => {
                one.stage = match error.certainty {
                    Certainty::NoServer | Certainty::Refused => Stage::New,
                    Certainty::Unclear => Stage::Unknown,
                };
                one.has_failed(&error);
                Given::Failed
            }
        };
        self.under_way = Some(one);
        given
    }

    async fn changed(&mut self, sent: &[SentMessage]) -> Option<Ended> {
        match sent.first().map(|one| message_id(&one.batch)) {
            None => self.under_way = None,
            Some(id) if self.under_way.as_ref().is_none_or(|one| one.id != id) => {
                self.under_way = Some(UnderWay::new(id, Stage::Recalled));
            }
            Some(_) => {}
        }
        let (now, never) = (Instant::now(), Instant::now());
        let step = self.under_way.as_ref();
        // A message that is to be handed over waits for nothing.
        let step_at = step
            .filter(|one| one.stage != Stage::New || one.at > now)
            .map(|one| one.at);
        tokio::select! {
            () = sleep_until(step_at.unwrap_or(never)), if step_at.is_some() => {}
            () = self.thread.queue_changed() => {
                if let Some(one) = &mut self.under_way
                    && one.stage == Stage::Added
                {
                    one.at = Instant::now();
                }
            }
            () = sleep_until(self.leave_at.unwrap_or(never)), if self.leave_at.is_some() => {
                return self.presence.leave().then_some(Ended::Left);
            }
        }
        None
    }

    async fn received(&mut self, ledger: &mut Ledger) -> Vec<String> {
        let now = Instant::now();
        let Some(one) = self.under_way.as_mut().filter(|one| one.at <= now) else {
            return Vec::new();
        };
        match one.look(&mut self.thread).await {
            // There is no other one.
            Ok(true) => {
                return ledger
                    .handed_over()
                    .iter()
                    .map(|sent| sent.batch.id())
                    .collect();
            }
            Ok(false) => {}
            Err(error) => one.has_failed(&error),
        }
        Vec::new()
    }

    fn is_due(&self, message: &SentMessage, _ledger: &Ledger, _now: Millis) -> bool {
        self.under_way.as_ref().is_some_and(|one| {
            one.id == message_id(&message.batch)
                && one.stage == Stage::New
                && one.at <= Instant::now()
        })
    }

    fn may_leave(&mut self, is_idle: bool) -> bool {
        self.leave_at = self.presence.note(is_idle);
        self.leave_at.is_some()
    }
}
