//! Claude Code's hooks.
//!
//! A hook with `asyncRewake` runs beside the conversation; when it exits 2, what it wrote to standard
//! error becomes a message that wakes the model, or that it gets between two tool calls. So one hook
//! process waits for the next follow-ups ([`wait`]), and the session's start, each prompt and each
//! stop begin the next one.
//!
//! The receipt is the conversation's transcript: a follow-up is acknowledged when a waiter finds its
//! message there. A message that was enqueued and never reached the model is delivered again when the
//! client's process has ended.

use std::fs::File;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};

use super::conversation::{AgentClient, Conversation};
use super::follower::{Follower, Incoming};
use super::ledger::{Fate, Ledger, SentMessage};
use super::outbox::{Batch, FollowUp, Next, Outbox};
use super::until;
use crate::clock;
use crate::model::{Backoff, Millis};
use crate::ops::{OpsError, Session, SessionChoice, lookup};
use crate::process;
use crate::wire::{ConsumeRequest, Filter, Kind};

/// How long a waiter waits for the one before it to end, at the session's start: after a crash of the
/// client, that one ends as soon as it notices.
const LEAVING_TAKES: Duration = Duration::from_secs(3);

/// How often to try to get the ledger meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// How long to wait before looking for a receipt again.
const CHECK: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// By how much two processes' readings of the same start may differ, in milliseconds: each computes it
/// from clocks of its own.
const START_DIFFERS: u64 = 1000;

/// The longest line of a transcript that is examined, in bytes.
const MAX_LINE: usize = 16 << 20;

/// What Claude Code writes to a hook's standard input.
#[derive(Debug, Deserialize)]
pub(crate) struct HookInput {
    session_id: String,
    #[serde(default)]
    transcript_path: PathBuf,
    hook_event_name: String,
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

    fn conversation(&self) -> Result<Conversation, OpsError> {
        Conversation::new(AgentClient::Claude, &self.session_id)
            .ok_or_else(|| OpsError::Usage("the hook's input has no session_id".to_owned()))
    }
}

/// How a waiter ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaiterEnd {
    /// A message was printed: the client is to wake the model.
    Woke,
    /// Another waiter is there, or the conversation has ended.
    Left,
}

/// Handles a hook that does not wait: at the session's start all shells of the conversation get the
/// same task session, and the conversation as owner if they would have another one's; at its end the
/// waiter is ended.
///
/// # Errors
///
/// When the session cannot be determined, or the client's file cannot be written.
pub(crate) async fn hook(choice: &SessionChoice, input: &HookInput) -> Result<(), OpsError> {
    match input.hook_event_name.as_str() {
        "SessionStart" => set_shell_environment(choice, &input.conversation()?),
        "SessionEnd" => end_waiter(choice, &input.conversation()?).await,
        _ => Ok(()),
    }
}

/// Appends what the conversation's shells need to the file that the client reads for them.
fn set_shell_environment(
    choice: &SessionChoice,
    conversation: &Conversation,
) -> Result<(), OpsError> {
    let Some(file) = lookup("CLAUDE_ENV_FILE").filter(|file| !file.is_empty()) else {
        return Ok(());
    };
    let is_set = |name| lookup(name).is_some_and(|value| !value.is_empty());
    let mut lines = String::new();
    // Shells may run in other folders than the hooks, so the session that these follow is set,
    // unless the user has set one.
    if !is_set("TMUX_TASK_SESSION") && !is_set("PI_TMUX_SESSION") {
        lines.push_str(&export("TMUX_TASK_SESSION", &Session::named(choice)?.name));
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
        .map_err(|source| OpsError::Folder {
            folder: path,
            source,
        })
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
async fn end_waiter(choice: &SessionChoice, conversation: &Conversation) -> Result<(), OpsError> {
    let mut session = Session::named(choice)?;
    session.resolve_name().await?;
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
) -> Result<WaiterEnd, OpsError> {
    let conversation = input.conversation()?;
    let mut session = Session::named(choice)?;
    session.resolve_name().await?;
    session.paths.create_state()?;
    let Some(ledger) = open_ledger(&session, &conversation, input).await? else {
        return Ok(WaiterEnd::Left);
    };
    let outbox = Outbox::new(&session.name, max_per_minute, ledger.budget());
    let folder = session.paths.state.clone();
    let mut waiter = Waiter {
        follower: Follower::new(session, &conversation, vec![Kind::FollowUp]),
        outbox,
        ledger,
        transcript: &input.transcript_path,
        client: client_process(),
        folder,
    };
    let batch = tokio::select! {
        batch = waiter.next_batch() => batch?,
        () = gone => None,
    };
    match batch {
        Some(batch) => waiter.hand_over(&batch, print),
        None => Ok(WaiterEnd::Left),
    }
}

/// Returns the ledger; `None` when a waiter has it.
async fn open_ledger(
    session: &Session,
    conversation: &Conversation,
    input: &HookInput,
) -> Result<Option<Ledger>, OpsError> {
    let deadline = Instant::now() + LEAVING_TAKES;
    loop {
        let opened = Ledger::open(&session.paths, conversation);
        let opened = opened.map_err(|source| OpsError::Folder {
            folder: session.paths.state.clone(),
            source,
        })?;
        let may_come = input.hook_event_name == "SessionStart" && Instant::now() < deadline;
        if opened.is_some() || !may_come {
            return Ok(opened);
        }
        sleep(TRY_EVERY).await;
    }
}

struct Waiter<'a> {
    follower: Follower,
    outbox: Outbox,
    ledger: Ledger,
    transcript: &'a Path,
    client: Option<(u32, Millis)>,
    /// Where the ledger is, for errors.
    folder: PathBuf,
}

impl Waiter<'_> {
    /// Returns what to hand over; `None` when another process follows the conversation.
    async fn next_batch(&mut self) -> Result<Option<Batch>, OpsError> {
        let (mut is_caught_up, mut resume_at) = (false, None);
        let mut checks = CHECK;
        let mut check_after = checks.next_pause();
        self.confirm()?;
        loop {
            let may_hand_over = is_caught_up && !self.outbox.is_empty();
            let has_unconfirmed = !self.ledger.handed_over().is_empty();
            let check_at = Instant::now() + check_after;
            tokio::select! {
                // What is there already belongs into the same message.
                biased;
                incoming = self.follower.next() => match incoming? {
                    Incoming::FollowUp(follow_up) => {
                        self.receive(*follow_up);
                    }
                    Incoming::Began { is_other_feed, epoch, cursor } => {
                        is_caught_up = false;
                        if is_other_feed {
                            self.outbox.clear();
                        }
                        let forgotten = self.ledger.forget_acknowledged(&epoch, cursor);
                        forgotten.map_err(|source| self.error(source))?;
                    }
                    Incoming::CaughtUp => {
                        is_caught_up = true;
                        self.confirm()?;
                    }
                    Incoming::Notice { .. } | Incoming::Status { .. } => {}
                    Incoming::Replaced | Incoming::Left => return Ok(None),
                },
                () = until(resume_at), if may_hand_over => {
                    match self.outbox.next(clock::now().wall) {
                        Next::Hand(batch) => return Ok(Some(*batch)),
                        Next::Wait(until) => resume_at = Some(until),
                        Next::Nothing => {}
                    }
                }
                () = sleep_until(check_at), if has_unconfirmed => {
                    check_after = checks.next_pause();
                    self.confirm()?;
                }
            }
        }
    }

    fn receive(&mut self, follow_up: FollowUp) {
        let FollowUp { epoch, seq, .. } = &follow_up;
        if self.ledger.is_received(epoch, *seq) {
            self.follower.settle(&[*seq]);
        } else if !self.ledger.has(epoch, *seq) {
            self.outbox.push(follow_up);
        }
    }

    /// Settles what the transcript has. What it does not have, and can no longer get because the
    /// client's process has ended, is forgotten: the feed's stream has it again.
    fn confirm(&mut self) -> Result<(), OpsError> {
        let transcript = self.transcript;
        let closed = self.ledger.close(|one| {
            if is_in(one, transcript) {
                Fate::Received
            } else if is_alive(one.client) {
                Fate::Open
            } else {
                Fate::Lost
            }
        });
        let received = closed.map_err(|source| self.error(source))?;
        // Those that the stream has not sent yet are settled when it does.
        self.follower.settle(&received);
        Ok(())
    }

    fn hand_over(
        mut self,
        batch: &Batch,
        print: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<WaiterEnd, OpsError> {
        let mark = format!("(tmux-task {})", batch.id());
        let text = format!("{}\n{mark}\n", batch.message.content);
        let now = clock::now().wall;
        let note = SentMessage {
            epoch: batch.epoch.clone(),
            seqs: batch.seqs.clone(),
            mark,
            client: self.client,
            at: now,
            transcript: self.transcript.to_owned(),
            offset: std::fs::metadata(self.transcript).map_or(0, |found| found.len()),
        };
        let noted = self.ledger.note(note, self.outbox.budget);
        noted.map_err(|source| self.error(source))?;
        if print(&text).is_ok() {
            return Ok(WaiterEnd::Woke);
        }
        let taken_back = self.ledger.take_back();
        taken_back.map_err(|source| self.error(source))?;
        Ok(WaiterEnd::Left)
    }

    fn error(&self, source: io::Error) -> OpsError {
        let folder = self.folder.clone();
        OpsError::Folder { folder, source }
    }
}

/// Returns the client's process and when it started. Without `CLAUDE_PID` it is not known, and what
/// is handed over counts as lost when the next waiter does not find it in the transcript.
fn client_process() -> Option<(u32, Millis)> {
    let pid = lookup("CLAUDE_PID")?.to_str()?.parse().ok()?;
    Some((pid, process::started_at(pid)?))
}

fn is_alive(client: Option<(u32, Millis)>) -> bool {
    client.is_some_and(|(pid, started)| {
        process::started_at(pid).is_some_and(|now| now.abs_diff(started) <= START_DIFFERS)
    })
}

/// Whether the transcript shows that the model got the message. Lines about the client's queue do
/// not: they are written before that.
fn is_in(handed_over: &SentMessage, transcript: &Path) -> bool {
    let offset = if transcript == handed_over.transcript {
        handed_over.offset
    } else {
        0
    };
    let found = File::open(transcript).and_then(|mut file| {
        let length = file.metadata()?.len();
        // A file that was replaced by a shorter one is searched as a whole.
        file.seek(SeekFrom::Start(if length < offset { 0 } else { offset }))?;
        has_line_with(BufReader::new(file), handed_over.mark.as_bytes())
    });
    found.unwrap_or(false)
}

fn has_line_with(mut from: impl BufRead, mark: &[u8]) -> io::Result<bool> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut from, MAX_LINE as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(false);
        }
        let is_of_queue = line.starts_with(br#"{"type":"queue-operation""#);
        if !is_of_queue && line.windows(mark.len()).any(|part| part == mark) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "(tmux-task e:7)";

    fn handed_over(transcript: &Path) -> SentMessage {
        SentMessage {
            epoch: "e".to_owned(),
            seqs: vec![7],
            mark: MARK.to_owned(),
            client: None,
            at: 0,
            transcript: transcript.to_owned(),
            offset: std::fs::metadata(transcript).map_or(0, |found| found.len()),
        }
    }

    #[track_caller]
    fn check(transcript: &str, is_receipt: bool) {
        let found = has_line_with(transcript.as_bytes(), MARK.as_bytes()).unwrap();
        assert_eq!(found, is_receipt, "{transcript}");
    }

    #[test]
    fn only_what_the_model_got_is_a_receipt() {
        let queued = format!("{{\"type\":\"queue-operation\",\"content\":\"x\\n{MARK}\\n\"}}\n");
        let message =
            format!("{{\"type\":\"user\",\"message\":{{\"content\":\"x\\n{MARK}\\n\"}}}}\n");
        check("", false);
        check(&queued, false);
        check(&message, true);
        check(&format!("{queued}{message}"), true);
        check(&message.replace("e:7", "e:77"), false);
        // The client may be in the middle of a line.
        check(message.trim_end(), true);
    }

    #[test]
    fn a_receipt_is_behind_what_the_transcript_had() {
        let dir = tempfile::tempdir().unwrap();
        let transcript = dir.path().join("t.jsonl");
        std::fs::write(&transcript, format!("earlier {MARK}\n")).unwrap();
        let handed_over = handed_over(&transcript);
        assert!(!is_in(&handed_over, &transcript));
        std::fs::write(&transcript, format!("earlier {MARK}\nnow {MARK}\n")).unwrap();
        assert!(is_in(&handed_over, &transcript));
        // Another file, or one that was cut, is searched from its beginning.
        std::fs::write(&transcript, format!("{MARK}\n")).unwrap();
        assert!(is_in(&handed_over, &transcript));
        let other = dir.path().join("other.jsonl");
        assert!(!is_in(&handed_over, &other));
        std::fs::write(&other, format!("{MARK}\n")).unwrap();
        assert!(is_in(&handed_over, &other));
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
