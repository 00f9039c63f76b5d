//! Claude Code's hooks.
//!
//! A hook with `asyncRewake` runs beside the conversation; when it exits 2, what it wrote to standard
//! error becomes a message that wakes the model, or that it gets between two tool calls. So one hook
//! process waits for the next follow-ups ([`wait`]), and the session's start, each prompt and each
//! stop begin the next one. Two of them are there: one that waits for follow-ups, and one that takes
//! its place when it ends ([`NextInLine`]), which sees whether the message is answered.
//!
//! The receipt is the conversation's transcript: a follow-up is acknowledged when the model has
//! answered it ([`Place::Answered`]). A message that the client dropped, or added to the conversation
//! without a turn, is handed over again, and given up after an hour.

use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::conversation::{AgentClient, Conversation};
use super::follower::Follower;
use super::incoming::Incoming;
use super::ledger::{Ledger, NextInLine, SentMessage, SettledRecords, Standing};
use super::outbox::{Batch, FollowUp, Next, PendingFollowUps};
use super::transcript::Place;
use super::until;
use crate::clock;
use crate::model::{Backoff, Error, Millis, Seq};
use crate::ops::{self, SessionChoice, TaskSession, lookup};
use crate::paths::Paths;
use crate::process;
use crate::wire::{ConsumeRequest, Filter, Kind};

/// How long to wait before looking for a receipt again.
const CHECK: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// When a message is handed over again that the client has not given to its model, or whose turn ended
/// without an answer, in milliseconds. It counts from the last time.
const AGAIN_AFTER: Millis = 60_000;

/// How often a message is handed over before it is given up: for an hour.
const MAX_ATTEMPTS: u32 = 60;

/// When a turn counts as over without a record of its end, in milliseconds. It counts from the
/// transcript's last record. A running tool holds a queued message back for longer.
const STUCK_AFTER: Millis = 600_000;

/// By how much two processes' readings of the same start may differ, in milliseconds: each computes it
/// from clocks of its own.
const START_DIFFERS: u64 = 1000;

/// What Claude Code writes to a hook's standard input.
#[derive(Debug, Deserialize)]
pub(crate) struct HookInput {
    session_id: String,
    #[serde(default)]
    transcript_path: PathBuf,
    hook_event_name: String,
    /// Why a session starts.
    source: Option<String>,
}

impl HookInput {
    /// Parses a hook's input.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Whether the processes of a client that has ended may still be there.
    fn is_first_of_client(&self) -> bool {
        self.hook_event_name == "SessionStart" && self.source.as_deref() != Some("compact")
    }

    fn conversation(&self) -> Result<Conversation, Error> {
        Conversation::new(AgentClient::Claude, &self.session_id)
            .ok_or_else(|| Error::usage("the hook's input has no session_id".to_owned()))
    }
}

/// How a waiter ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaiterEnd {
    /// A message was printed: the client is to wake the model.
    Woke,
    /// Others wait already, or the conversation has ended.
    Left,
}

/// Handles a hook that does not wait: at the session's start all shells of the conversation get the
/// same task session, and the conversation as owner if they would have another one's; at its end the
/// waiters are ended.
///
/// # Errors
///
/// When the session cannot be determined, or the client's file cannot be written.
pub(crate) async fn hook(choice: &SessionChoice, input: &HookInput) -> Result<(), Error> {
    match input.hook_event_name.as_str() {
        "SessionStart" => set_shell_environment(choice, &input.conversation()?),
        "SessionEnd" => end_waiters(choice, &input.conversation()?).await,
        _ => Ok(()),
    }
}

/// Appends what the conversation's shells need to the file that the client reads for them.
fn set_shell_environment(choice: &SessionChoice, conversation: &Conversation) -> Result<(), Error> {
    let Some(file) = lookup("CLAUDE_ENV_FILE").filter(|file| !file.is_empty()) else {
        return Ok(());
    };
    let is_set = |name| lookup(name).is_some_and(|value| !value.is_empty());
    let mut lines = String::new();
    // Shells may run in other folders than the hooks, so the session that these follow is set,
    // unless the user has set one.
    if !is_set("TMUX_TASK_SESSION") && !is_set("PI_TMUX_SESSION") {
        lines.push_str(&export(
            "TMUX_TASK_SESSION",
            &TaskSession::named(choice)?.name,
        ));
    }
    let owner = lookup("TMUX_TASK_OWNER").unwrap_or_default();
    if is_of_conversation(&owner.to_string_lossy()) {
        lines.push_str(&export("TMUX_TASK_OWNER", &conversation.owner()));
    }
    if lines.is_empty() {
        return Ok(());
    }
    let path = PathBuf::from(file);
    File::options()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()))
        .map_err(|source| Error::folder(&path, &source))
}

/// Whether an owner is a conversation's: a client that was started in another one's shell inherits
/// it. Other owners are the user's choice.
fn is_of_conversation(owner: &str) -> bool {
    AgentClient::ALL.iter().any(|client| {
        let id = owner.strip_prefix(client.name());
        id.is_some_and(|id| id.starts_with(':'))
    })
}

fn export(name: &str, value: &str) -> String {
    format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
}

/// The waiter's stream ends when another reader takes the consumer over.
async fn end_waiters(choice: &SessionChoice, conversation: &Conversation) -> Result<(), Error> {
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    let paths = &session.paths;
    NextInLine::dismiss(paths, conversation).map_err(|source| folder_error(paths, source))?;
    if let Some(mut client) = session.daemon().await? {
        let request = ConsumeRequest {
            name: conversation.consumer(),
            from_now: false,
            take_over: true,
            filter: Filter::new(vec![Kind::FollowUp], Vec::new(), Vec::new())
                .for_owner(Some(conversation.owner())),
        };
        client.consume(request).await?;
    }
    Ok(())
}

/// Waits for the conversation's next follow-ups and prints them as one message. `print` writes to
/// standard error; `gone` resolves when that is not read any more.
///
/// # Errors
///
/// When the feed cannot be read, or the ledger cannot be written.
pub(crate) async fn wait(
    choice: &SessionChoice,
    input: &HookInput,
    max_per_minute: u32,
    print: impl FnOnce(&str) -> io::Result<()>,
    gone: impl Future<Output = ()>,
) -> Result<WaiterEnd, Error> {
    let conversation = input.conversation()?;
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    session.paths.create_state()?;
    tokio::pin!(gone);
    let paths = session.paths.clone();
    let ledger = tokio::select! {
        ledger = get_ledger(&paths, &conversation, input) => {
            ledger.map_err(|source| folder_error(&paths, source))?
        }
        () = &mut gone => None,
    };
    let Some(ledger) = ledger else {
        return Ok(WaiterEnd::Left);
    };
    let outbox = PendingFollowUps::new(&session.name, max_per_minute, ledger.budget());
    let mut waiter = Waiter {
        follower: Follower::new(session, &conversation, vec![Kind::FollowUp]),
        outbox,
        ledger,
        transcript: &input.transcript_path,
        client: client_process(),
        consumer: conversation.consumer(),
        paths,
    };
    let work = tokio::select! {
        work = waiter.next_work() => work?,
        () = gone => None,
    };
    match work {
        Some(work) => waiter.hand_over(work, print),
        None => Ok(WaiterEnd::Left),
    }
}

/// Returns the ledger when it is this process's turn; `None` when it is not needed.
async fn get_ledger(
    paths: &Paths,
    conversation: &Conversation,
    input: &HookInput,
) -> io::Result<Option<Ledger>> {
    if input.is_first_of_client() {
        NextInLine::dismiss(paths, conversation)?;
    }
    if let Some(ledger) = Ledger::open(paths, conversation)? {
        return Ok(Some(ledger));
    }
    match NextInLine::take(paths, conversation)? {
        Some(next_in_line) => next_in_line.wait(paths, conversation).await,
        None => Ok(None),
    }
}

fn folder_error(paths: &Paths, source: io::Error) -> Error {
    let folder = paths.state.clone();
    Error::folder(&folder, &source)
}

/// What a waiter ends with: the messages that are due again, and maybe a new one.
struct Work {
    now: Millis,
    batch: Option<Batch>,
}

struct Waiter<'a> {
    follower: Follower,
    outbox: PendingFollowUps,
    ledger: Ledger,
    transcript: &'a Path,
    client: Option<(u32, Millis)>,
    consumer: String,
    paths: Paths,
}

impl Waiter<'_> {
    /// Returns what to hand over; `None` when another process follows the conversation.
    async fn next_work(&mut self) -> Result<Option<Work>, Error> {
        let (mut is_caught_up, mut resume_at) = (false, None);
        let (mut check_at, mut checks) = (Instant::now(), CHECK);
        self.confirm()?;
        loop {
            let has_new = is_caught_up && !self.outbox.is_empty() && !self.is_under_way();
            let has_unconfirmed = is_caught_up && !self.ledger.handed_over().is_empty();
            tokio::select! {
                // What is there already belongs into the same message.
                biased;
                incoming = self.follower.next() => match incoming? {
                    Incoming::FollowUp(follow_up) => self.receive(*follow_up),
                    Incoming::Began { host, replaced, epoch, cursor, last } => {
                        is_caught_up &= host.is_some();
                        if let Some(replaced) = replaced {
                            self.outbox.forget(&replaced);
                        }
                        let host = host.as_deref();
                        self.ledger.forget_acknowledged(host, &epoch, cursor, last);
                    }
                    Incoming::Forgotten(host) => self.ledger.forget_host(&host),
                    Incoming::CaughtUp => is_caught_up = true,
                    Incoming::Notice { .. } | Incoming::Status { .. } => {}
                    Incoming::Replaced | Incoming::Left => return Ok(None),
                },
                () = sleep_until(check_at), if has_unconfirmed => {
                    check_at = Instant::now() + checks.next_pause();
                    self.confirm()?;
                    let now = clock::now().wall;
                    self.give_up(now)?;
                    let is_due = self.is_due(now);
                    if self.ledger.handed_over().iter().any(is_due) {
                        return Ok(Some(Work { now, batch: None }));
                    }
                }
                () = until(resume_at), if has_new => {
                    let now = clock::now().wall;
                    match self.outbox.next(now) {
                        Next::Hand(batch) => {
                            return Ok(Some(Work { now, batch: Some(*batch) }));
                        }
                        Next::Wait(until) => resume_at = Some(until),
                        Next::Nothing => {}
                    }
                }
            }
        }
    }

    fn receive(&mut self, follow_up: FollowUp) {
        let FollowUp { epoch, seq, .. } = &follow_up;
        match self.ledger.standing(epoch, *seq) {
            Standing::New => self.outbox.push(follow_up),
            Standing::HandedOver => {}
            Standing::Settled => self.follower.settle(epoch, &[*seq]),
        }
    }

    /// Settles what the model has answered.
    fn confirm(&mut self) -> Result<(), Error> {
        if let Err(error) = self.ledger.read(self.transcript) {
            tracing::debug!(%error, "cannot read the transcript");
        }
        let settled = self.ledger.settle_answered();
        let (answered, late) = settled.map_err(|source| self.error(source))?;
        // Those that the stream has not sent yet are settled when it does.
        self.settle(&answered);
        let late = local(&late);
        if !late.is_empty() {
            ops::withdraw_given_up(&self.paths, &self.consumer, &late)?;
        }
        Ok(())
    }

    /// Gives up what was handed over often enough.
    fn give_up(&mut self, now: Millis) -> Result<(), Error> {
        let is_due = self.is_due(now);
        let is_hopeless = |one: &&SentMessage| one.attempts >= MAX_ATTEMPTS && is_due(one);
        let hopeless = self.ledger.handed_over().iter().filter(is_hopeless);
        let hopeless: Vec<_> = hopeless.cloned().map(SettledRecords::of).collect();
        if hopeless.is_empty() {
            return Ok(());
        }
        ops::give_up_messages(&self.paths, &self.consumer, &local(&hopeless))?;
        let given_up = self.ledger.give_up(&hopeless);
        given_up.map_err(|source| self.error(source))?;
        self.settle(&hopeless);
        Ok(())
    }

    fn settle(&mut self, settled: &[SettledRecords]) {
        for SettledRecords { epoch, seqs, .. } in settled {
            self.follower.settle(epoch, seqs);
        }
    }

    /// Whether the client has a message that it has not given to its model yet. Until it has, new ones
    /// wait: if the user interrupts the turn, there must be a process that sees whether it is answered.
    fn is_under_way(&self) -> bool {
        let now = clock::now().wall;
        self.ledger.handed_over().iter().any(|one| match one.place {
            Place::Queued => true,
            Place::Nowhere => age(one, now) < AGAIN_AFTER && self.transcript.exists(),
            Place::Removed | Place::Unanswered | Place::Answered => false,
        })
    }

    /// Returns which messages are to be handed over again now.
    fn is_due(&self, now: Millis) -> impl Fn(&SentMessage) -> bool + use<> {
        let client = self.client;
        let is_turn_running = self.ledger.is_turn_running();
        let quiet = quiet(self.transcript, now);
        move |one| {
            let is_other = one.client.is_some() && one.client != client;
            is_other && !is_alive(one.client)
                || quiet
                    .is_some_and(|quiet| is_due(one.place, is_turn_running, age(one, now), quiet))
        }
    }

    fn hand_over(
        mut self,
        work: Work,
        print: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<WaiterEnd, Error> {
        // What is in the transcript by now is not looked for in what follows.
        self.confirm()?;
        let Work { now, batch } = work;
        let new = batch.map(|batch| {
            let mark = format!("(tmux-task {})", batch.id());
            SentMessage {
                text: format!("{}\n{mark}\n", batch.message.content),
                epoch: batch.epoch,
                seqs: batch.seqs,
                host: batch.host,
                mark,
                client: self.client,
                at: now,
                attempts: 1,
                place: Place::Nowhere,
            }
        });
        let is_due = self.is_due(now);
        let by = (self.client, now);
        let text = self.ledger.hand_over(is_due, new, by, self.outbox.budget);
        let text = text.map_err(|source| self.error(source))?;
        if text.is_empty() {
            return Ok(WaiterEnd::Left);
        }
        if print(&text).is_ok() {
            return Ok(WaiterEnd::Woke);
        }
        let taken_back = self.ledger.take_back();
        taken_back.map_err(|source| self.error(source))?;
        Ok(WaiterEnd::Left)
    }

    fn error(&self, source: io::Error) -> Error {
        folder_error(&self.paths, source)
    }
}

/// Returns the records of this machine's feed.
fn local(settled: &[SettledRecords]) -> Vec<Seq> {
    let local = settled.iter().filter(|one| one.host.is_none());
    local.flat_map(|one| one.seqs.clone()).collect()
}

/// Whether a message of a client that is alive is to be handed over again. `age` is how long ago that
/// was done last, `quiet` how long ago the transcript grew.
fn is_due(place: Place, is_turn_running: bool, age: Millis, quiet: Millis) -> bool {
    match (place, is_turn_running) {
        (Place::Answered, _) | (Place::Queued, true) => false,
        // A client that is idle empties its queue, unless a dialog is open.
        (Place::Queued, false) | (_, true) => age.min(quiet) >= STUCK_AFTER,
        (Place::Nowhere | Place::Removed | Place::Unanswered, false) => age >= AGAIN_AFTER,
    }
}

fn age(message: &SentMessage, now: Millis) -> Millis {
    now.saturating_sub(message.at)
}

/// Returns for how long the transcript has not grown, in milliseconds. `None` when there is none: the
/// client does not write one, and whether messages are answered is not known.
fn quiet(transcript: &Path, now: Millis) -> Option<Millis> {
    let changed = std::fs::metadata(transcript).and_then(|found| found.modified());
    let since = changed.ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(now.saturating_sub(Millis::try_from(since.as_millis()).ok()?))
}

/// Returns the client's process and when it started. Without `CLAUDE_PID` it is not known, and counts
/// as alive.
fn client_process() -> Option<(u32, Millis)> {
    let pid = lookup("CLAUDE_PID")?.to_str()?.parse().ok()?;
    Some((pid, process::started_at(pid)?))
}

fn is_alive(client: Option<(u32, Millis)>) -> bool {
    client.is_some_and(|(pid, started)| {
        process::started_at(pid).is_some_and(|now| now.abs_diff(started) <= START_DIFFERS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_has_not_answered_is_due_again_when_no_turn_runs() {
        let (second, minute, hour) = (1000, 60_000, 3_600_000);
        for (place, is_turn_running, age, quiet, expected) in [
            (Place::Nowhere, false, 59 * second, hour, false),
            (Place::Nowhere, false, minute, second, true),
            (Place::Removed, false, minute, minute, true),
            (Place::Unanswered, false, minute, minute, true),
            (Place::Unanswered, true, hour, minute, false),
            (Place::Removed, true, hour, 9 * minute, false),
            // The turn's end was not recorded.
            (Place::Unanswered, true, hour, 10 * minute, true),
            (Place::Unanswered, true, 9 * minute, hour, false),
            // A tool may run for hours.
            (Place::Queued, true, 9 * hour, 9 * hour, false),
            (Place::Queued, false, hour, 9 * minute, false),
            (Place::Queued, false, hour, hour, true),
            (Place::Answered, false, hour, hour, false),
        ] {
            assert_eq!(
                is_due(place, is_turn_running, age, quiet),
                expected,
                "{place:?} {is_turn_running} {age} {quiet}"
            );
        }
    }

    #[test]
    fn only_the_owner_of_another_conversation_is_replaced() {
        for owner in ["pi:019a", "opencode:ses_1", "codex:x", "claude:y"] {
            assert!(is_of_conversation(owner), "{owner}");
        }
        for owner in ["", "pi", "me", "gemini:api", "pilot:1", "claude"] {
            assert!(!is_of_conversation(owner), "{owner}");
        }
        let line = export("TMUX_TASK_OWNER", "a'b");
        assert_eq!(line, "export TMUX_TASK_OWNER='a'\\''b'\n");
    }

    #[test]
    fn a_client_is_alive_while_its_process_is() {
        let pid = std::process::id();
        let started = process::started_at(pid).unwrap();
        assert!(is_alive(Some((pid, started))));
        assert!(!is_alive(Some((pid, started - 5000))));
        assert!(!is_alive(None));
    }
}
