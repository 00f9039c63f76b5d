//! Codex: adds messages to a thread's queue, over the control socket of its app-server.
//!
//! The first `run` of a thread starts a follower, which ends when no task of the session is active and
//! everything is acknowledged. It outlives Codex's TUI, which is a client of the app-server too.
//!
//! The receipt: the thread has the message, or its queue no longer has it because the user removed it.
//! Codex keeps the id of each message. So a follower that comes after a killed one finds out whether
//! that one has delivered its last message.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::codex_thread::{CodexThread, message_id};
use super::hand_over::{Client, Ended, Given, HandOver};
use super::ledger::{Ledger, SentMessage};
use super::{AgentClient, Conversation};
use crate::model::{Backoff, Error, ErrorKind, Kind, Millis};
use crate::ops::{SessionChoice, TaskSession, lookup, needs_codex_follower};

/// How long a follower stays when there is nothing to do.
const LINGERS: Duration = Duration::from_secs(60);

/// How long after that it looks once more whether there is something to do: a launch that has found its
/// stream has recorded its task by then.
const LEAVES_AFTER: Duration = Duration::from_secs(2);

/// How long to wait before looking for a receipt.
const CHECK: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// How long to wait before trying again to deliver.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));

/// Follows the tasks of the thread with this id, by Codex's `program`. `stays` when no task is active.
/// `followed` is called once, when a launch finds that they are. If the thread cannot be woken, nothing is
/// followed, and why is returned.
pub(crate) async fn follow(
    choice: &SessionChoice,
    id: &str,
    program: PathBuf,
    max_per_minute: u32,
    stays: bool,
    followed: impl FnOnce(),
) -> Result<Option<String>, Error> {
    let conversation = Conversation::new(AgentClient::Codex, id)
        .ok_or_else(|| Error::usage("the thread's id is empty".to_owned()))?;
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    let thread = || {
        CodexThread::new(&conversation, program.clone(), &lookup)
            .ok_or_else(|| Error::usage("neither CODEX_HOME nor HOME is set".to_owned()))
    };
    if let Err(why) = thread()?.check_reachable().await {
        return Ok(Some(why));
    }
    let begin = async |thread| {
        let follower = ThreadFollower {
            thread,
            added: None,
            is_unclear: false,
            at: Instant::now(),
            check: CHECK,
            retry: RETRY,
            stays,
            leave_at: None,
        };
        let (feeds, session) = ((vec![Kind::FollowUp], true), session.for_request());
        HandOver::take_over(follower, session, &conversation, feeds, max_per_minute).await
    };
    let mut following = begin(thread()?).await?;
    followed();
    // Until another process follows the thread.
    while let Some(hand_over) = following.take() {
        if hand_over.run().await? == Ended::Left {
            sleep(LEAVES_AFTER).await;
            if needs_codex_follower(&session, &conversation.owner()).await? {
                following = begin(thread()?).await?;
            }
        }
    }
    Ok(None)
}

struct ThreadFollower {
    thread: CodexThread,
    /// The message that was added last.
    added: Option<String>,
    /// Whether the last message may have been added: there was no answer.
    is_unclear: bool,
    /// When to look for the receipt of a message that was added, or to add it.
    at: Instant,
    /// How long the next look is put off when there is no receipt yet.
    check: Backoff,
    /// How long the next step is put off after a failure.
    retry: Backoff,
    stays: bool,
    /// When to leave, if nothing changes until then.
    leave_at: Option<Instant>,
}

impl ThreadFollower {
    /// Adds a message to the thread, unless the thread has it: an earlier process may have added it, and so
    /// may this one if there was no answer.
    async fn add(&mut self, message: &SentMessage) -> Result<Given, Error> {
        let id = message_id(&message.batch);
        if message.attempts > 1 {
            match self.thread.has(&id).await {
                Ok(true) => return Ok(Given::Sent),
                Ok(false) => {}
                // It cannot be found out, and may be so for good.
                Err(error) if error.kind == ErrorKind::Unreachable && !self.is_unclear => {}
                Err(error) => return Err(error),
            }
        }
        let added = self.thread.add(&id, &message.batch.message.content).await;
        let error = added.as_ref().err();
        self.is_unclear = error.is_some_and(|error| error.kind == ErrorKind::Lost);
        added
    }

    fn has_added(&self, message: &SentMessage) -> bool {
        self.added.as_ref() == Some(&message_id(&message.batch))
    }

    fn has_failed(&mut self, error: &Error) {
        tracing::debug!(%error, "could not deliver");
        self.at = Instant::now() + self.retry.next_pause();
    }
}

impl Client for ThreadFollower {
    async fn give(&mut self, messages: &[SentMessage]) -> Given {
        let Some(message) = messages.first() else {
            return Given::Failed;
        };
        match self.add(message).await {
            Ok(given) => {
                self.added = Some(message_id(&message.batch));
                (self.check, self.retry) = (CHECK, RETRY);
                self.at = Instant::now() + self.check.next_pause();
                given
            }
            Err(error) => {
                self.has_failed(&error);
                Given::Failed
            }
        }
    }

    async fn changed(&mut self, sent: &[SentMessage], _has_new: bool) -> Option<Ended> {
        let now = Instant::now();
        // A message that is to be added waits for nothing.
        let step = sent.first();
        let step = step.filter(|one| self.has_added(one) || self.at > now);
        tokio::select! {
            () = sleep_until(self.at), if step.is_some() => {}
            () = self.thread.queue_changed() => {
                if step.is_some_and(|one| self.has_added(one)) {
                    self.at = now;
                }
            }
            () = sleep_until(self.leave_at.unwrap_or(now)), if self.leave_at.is_some() => {
                return Some(Ended::Left);
            }
        }
        None
    }

    async fn received(&mut self, ledger: &mut Ledger) -> Vec<String> {
        // There is one message at most.
        let Some(message) = ledger.handed_over().first() else {
            return Vec::new();
        };
        if !self.has_added(message) || self.at > Instant::now() {
            return Vec::new();
        }
        self.at = Instant::now() + self.check.next_pause();
        match self.thread.is_queued(&message_id(&message.batch)).await {
            // A turn began with it, or the user removed it.
            Ok(false) => return vec![message.batch.id()],
            Ok(true) => {}
            Err(error) => self.has_failed(&error),
        }
        Vec::new()
    }

    fn is_due(&self, message: &SentMessage, _ledger: &Ledger, _now: Millis) -> bool {
        !self.has_added(message) && self.at <= Instant::now()
    }

    fn note_idle(&mut self, is_idle: bool) {
        let leave_at = self.leave_at.unwrap_or_else(|| Instant::now() + LINGERS);
        self.leave_at = (is_idle && !self.stays).then_some(leave_at);
    }
}
