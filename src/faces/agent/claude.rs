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
use std::future::{Future, pending};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::follower::Follower;
use super::hand_over::{Client, Ended, Given, HandOver, Messages};
use super::ledger::{Ledger, NextInLine, SentMessage};
use super::transcript::{Place, mark_of};
use super::{AgentClient, Conversation};
use crate::clock;
use crate::config::paths::Paths;
use crate::config::{AgentsConfig, Deliver};
use crate::model::{Backoff, Error, Kind, Millis};
use crate::ops::{SessionChoice, TaskSession, lookup};
use crate::process;
use crate::rules::wire::{Request, client_of};

/// How long to wait before looking for a receipt again.
const CHECK: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// How often to look whether the present turn has ended, while a message waits for that.
const TURN_CHECK: Duration = Duration::from_millis(250);

/// When a message is handed over again that the client has not given to its model, or whose turn ended
/// without an answer, in milliseconds. It counts from the last time.
const AGAIN_AFTER: Millis = 60_000;

/// How often a message is handed over before it is given up: for an hour.
const MAX_ATTEMPTS: u32 = 60;

/// When a turn counts as over without a record of its end, in milliseconds. It counts from the
/// transcript's last record. A running tool holds a queued message back for longer.
const STUCK_AFTER: Millis = 600_000;

/// By how many milliseconds two processes' readings of the same start may differ: each has clocks of its own.
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
    /// Whether the processes of a client that has ended may still be there.
    fn is_first_of_client(&self) -> bool {
        self.hook_event_name == "SessionStart" && self.source.as_deref() != Some("compact")
    }

    fn conversation(&self) -> Result<Conversation, Error> {
        Conversation::new(AgentClient::Claude, &self.session_id)
            .ok_or_else(|| Error::usage("the hook's input has no session_id".to_owned()))
    }
}

/// Handles a hook that does not wait: at the session's start all shells of the conversation get the
/// same task session, and the conversation as owner if they would have another one's; at its end the
/// waiters are ended.
pub(crate) async fn hook(choice: &SessionChoice, input: &HookInput) -> Result<(), Error> {
    match input.hook_event_name.as_str() {
        "SessionStart" => set_shell_environment(choice, &input.conversation()?),
        "SessionEnd" => end_waiters(choice, &input.conversation()?).await,
        _ => Ok(()),
    }
}

/// Appends what the conversation's shells need to the file that the client reads for them.
fn set_shell_environment(choice: &SessionChoice, conversation: &Conversation) -> Result<(), Error> {
    let set = |name| lookup(name).filter(|value| !value.is_empty());
    let Some(path) = set("CLAUDE_ENV_FILE").map(PathBuf::from) else {
        return Ok(());
    };
    let mut lines = String::new();
    // Shells may run in other folders than the hooks, so the session that these follow is set,
    // unless the user has set one.
    let session = set("TMUX_TASK_SESSION").or_else(|| set("PI_TMUX_SESSION"));
    if session.is_none() {
        lines += &export("TMUX_TASK_SESSION", &TaskSession::named(choice)?.name);
    }
    // A client that was started in another one's shell inherits its owner. Owners that are no
    // conversations are the user's choice.
    let owner = lookup("TMUX_TASK_OWNER").unwrap_or_default();
    if client_of(&owner.to_string_lossy()).is_some() {
        lines += &export("TMUX_TASK_OWNER", &conversation.owner());
    }
    if lines.is_empty() {
        return Ok(());
    }
    let opened = File::options().append(true).create(true).open(&path);
    let written = opened.and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(|source| Error::folder(&path, &source))
}

fn export(name: &str, value: &str) -> String {
    format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
}

/// The waiter's stream ends when another reader takes the consumer over.
async fn end_waiters(choice: &SessionChoice, conversation: &Conversation) -> Result<(), Error> {
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    let dismissed = NextInLine::dismiss(&session.paths, conversation);
    dismissed.map_err(|source| Error::folder(&session.paths.state, &source))?;
    if let Some(mut client) = session.daemon().await? {
        let request = conversation.consume_request(vec![Kind::FollowUp]);
        client.stream(&Request::Consume(request)).await?;
    }
    Ok(())
}

/// Waits for the conversation's next follow-ups and prints them as one message. `print` writes to
/// standard error; `gone` resolves when that is not read any more. When others wait already, this ends at
/// once.
pub(crate) async fn wait(
    choice: &SessionChoice,
    input: &HookInput,
    config: AgentsConfig,
    print: impl FnOnce(&str) -> io::Result<()>,
    gone: impl Future<Output = ()>,
) -> Result<Ended, Error> {
    let conversation = input.conversation()?;
    if is_for_one_prompt() {
        return Ok(Ended::Left);
    }
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    session.paths.create_state()?;
    let work = async {
        let paths = &session.paths;
        let ledger = get_ledger(paths, &conversation, input).await;
        let ledger = ledger.map_err(|source| Error::folder(&paths.state, &source));
        let Some(mut ledger) = ledger? else {
            return Ok(Ended::Left);
        };
        if input.is_first_of_client() {
            // A turn that the transcript shows is that of a client which was killed in it.
            let read = ledger.read(&input.transcript_path);
            read.unwrap_or_else(|error| tracing::debug!(%error, "cannot read the transcript"));
            ledger.contents.transcript.is_turn_running = false;
        }
        // Without it, the client counts as alive.
        let client = client_pid().and_then(|pid| Some((pid, process::started_at(pid)?)));
        let waiter = Waiter {
            print: Some(print),
            transcript: &input.transcript_path,
            client,
            check_at: Instant::now(),
            checks: CHECK,
            deliver: config.deliver,
        };
        let messages = Messages::new(ledger, &session.name, config.max_per_minute);
        let feeds = Follower::new(session, &conversation, vec![Kind::FollowUp], false);
        HandOver::new(waiter, feeds, messages).run().await
    };
    tokio::select! {
        ended = work => ended,
        () = gone => Ok(Ended::Left),
    }
}

fn client_pid() -> Option<u32> {
    lookup("CLAUDE_PID")?.to_str()?.parse().ok()
}

/// Whether the client runs for one prompt (`claude -p`). Then it runs hooks with `asyncRewake` as all others: it
/// would do nothing before they end.
fn is_for_one_prompt() -> bool {
    // A client that was started by another one may have its entry point.
    let is_attended = lookup("CLAUDE_CODE_SESSION_ATTENDED").is_some_and(|value| value == "1");
    let is_in_terminal = lookup("CLAUDE_CODE_ENTRYPOINT").is_none_or(|name| name == "cli");
    let line = client_pid().and_then(process::command_line);
    !is_attended && !is_in_terminal && line.is_some_and(|line| !gets_prompts(&line))
}

/// Whether a client that was started with these words, which [`process::WORD_END`] ends, gets its prompts one
/// after the other.
fn gets_prompts(line: &[u8]) -> bool {
    let words = line.split(|byte| *byte == process::WORD_END);
    let words: Vec<&[u8]> = words.collect();
    let is_stream = |words: &[&[u8]]| words == [&b"--input-format"[..], b"stream-json"];
    let is_option =
        |word: &&[u8]| *word == b"--input-format=stream-json" || word.starts_with(b"--sdk-url");
    words.windows(2).any(is_stream) || words.iter().any(is_option)
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

/// A hook that waits, as the client of the conversation. It gives messages once.
struct Waiter<'a, P> {
    print: Option<P>,
    transcript: &'a Path,
    client: Option<(u32, Millis)>,
    /// When to look for receipts in the transcript.
    check_at: Instant,
    checks: Backoff,
    deliver: Deliver,
}

impl<P: FnOnce(&str) -> io::Result<()>> Client for Waiter<'_, P> {
    async fn give(&mut self, messages: &[SentMessage]) -> Given {
        let text = messages.iter().map(|SentMessage { batch, .. }| {
            let mark = mark_of(&batch.id());
            format!("{}\n{mark}\n", batch.message.content)
        });
        let text: String = text.collect();
        match self.print.take().map(|print| print(&text)) {
            Some(Ok(())) => Given::Ended(Ended::Woke),
            Some(Err(_)) | None => Given::Ended(Ended::Left),
        }
    }

    async fn changed(&mut self, sent: &[SentMessage], has_new: bool) -> Option<Ended> {
        if sent.is_empty() && !has_new {
            return pending().await;
        }
        sleep_until(self.check_at).await;
        let pause = match sent.is_empty() {
            true => TURN_CHECK,
            false => self.checks.next_pause(),
        };
        self.check_at = Instant::now() + pause;
        None
    }

    /// Returns what the model has answered, and what was given often enough.
    async fn received(&mut self, ledger: &mut Ledger) -> Vec<String> {
        if let Err(error) = ledger.read(self.transcript) {
            tracing::debug!(%error, "cannot read the transcript");
        }
        let now = clock::now().wall;
        let is_settled = |one: &&SentMessage| {
            let is_hopeless = one.attempts >= MAX_ATTEMPTS && self.is_due(one, ledger, now);
            one.place == Place::Answered || is_hopeless
        };
        let settled = ledger.handed_over().iter().filter(is_settled);
        settled.map(|one| one.batch.id()).collect()
    }

    fn is_due(&self, message: &SentMessage, ledger: &Ledger, now: Millis) -> bool {
        let is_other = message.client.is_some() && message.client != self.client;
        if is_other && !is_alive(message.client) {
            return true;
        }
        let (age, is_running) = (now - message.at, ledger.contents.transcript.is_turn_running);
        let quiet = quiet(self.transcript, now);
        quiet.is_some_and(|quiet| is_due(message.place, is_running, age, quiet))
    }

    /// While the client has a message that it has not given to its model yet, new ones wait: if the user
    /// interrupts the turn, there must be a process that sees whether it is answered.
    fn takes_new(&self, ledger: &Ledger, now: Millis) -> bool {
        let waits_for_turn = || {
            let quiet = quiet(self.transcript, now);
            let is_at_work = quiet.is_some_and(|quiet| (0..STUCK_AFTER).contains(&quiet));
            ledger.contents.transcript.is_turn_running && is_at_work
        };
        if self.deliver == Deliver::AfterTurn && waits_for_turn() {
            return false;
        }
        !ledger.handed_over().iter().any(|one| match one.place {
            Place::Queued => true,
            Place::Nowhere => now - one.at < AGAIN_AFTER && self.transcript.exists(),
            Place::Removed | Place::Unanswered | Place::Answered => false,
        })
    }

    fn process(&self) -> Option<(u32, Millis)> {
        self.client
    }
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

/// Returns for how long the transcript has not grown, in milliseconds. `None` when there is none: the
/// client does not write one, and whether messages are answered is not known.
fn quiet(transcript: &Path, now: Millis) -> Option<Millis> {
    let changed = std::fs::metadata(transcript).and_then(|found| found.modified());
    let since = changed.ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(now.saturating_sub(Millis::try_from(since.as_millis()).ok()?))
}

fn is_alive(client: Option<(u32, Millis)>) -> bool {
    let differs = client.and_then(|(pid, at)| Some(process::started_at(pid)?.abs_diff(at)));
    differs.is_some_and(|millis| millis <= START_DIFFERS)
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
    fn values_are_quoted_for_the_shell() {
        let line = export("TMUX_TASK_OWNER", "a'b");
        assert_eq!(line, "export TMUX_TASK_OWNER='a'\\''b'\n");
    }

    #[test]
    fn a_client_gets_one_prompt_or_a_stream_of_them() {
        let gets = |words: &str| {
            let end = char::from(process::WORD_END).to_string();
            gets_prompts(words.replace(' ', &end).as_bytes())
        };
        assert!(!gets("claude -p --model a --output-format stream-json hi"));
        assert!(gets("claude -p --input-format stream-json --verbose"));
        assert!(gets("claude -p --input-format=stream-json"));
        assert!(gets("claude --sdk-url http://a -p"));
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
