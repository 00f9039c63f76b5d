//! Qwen Code: puts messages into the inbox of a session, by its protocol for other programs (Qwen Code's
//! documentation, "Cross-Session Protocol").
//!
//! A hook at the session's start begins a follower, which ends with Qwen Code: the token by which the inbox
//! takes its messages as those of the session's own programs is in the hook's environment, and is another one
//! after a restart. Another hook, at each prompt, begins one that is missing.
//!
//! The receipt is the conversation's transcript: there Qwen Code writes a message when it gives it to the
//! model. Its receipts on the socket come before that, and say what will become of a message: one that it
//! has dropped or lost is given again, and one that the user has denied is not.
//!
//! In one life, Qwen Code remembers what became of an id, and says that of a message with the same id without
//! looking at it. So a message that was lost gets another id, and one that may be on its way the same.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use super::hand_over::{Client, Ended, Given, HandOver};
use super::ledger::{Ledger, SentMessage};
use super::transcript::{mark_of, read_lines};
use super::{AgentClient, Conversation};
use crate::config::paths::hex;
use crate::files;
use crate::model::{Backoff, Error, Kind, Millis};
use crate::ops::{SessionChoice, TaskSession, find_consumer, follower_command, lookup};
use crate::process;

/// How often to look whether Qwen Code is still there: then its processes end, and so does the follower.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long the inbox may take to read a message, and a connection to bring a receipt.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait before looking for a message in the transcript again.
const CHECK: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// When a message without any answer, or one that was dropped, is given again, in milliseconds. While Qwen Code
/// runs, it takes a message with the same id once.
const AGAIN_AFTER: Millis = 60_000;

/// When one is given again that has expired, in milliseconds.
const RETRY_AFTER: Millis = 5_000;

/// The most that is read on a connection, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// How the follower's own inbox is called, after its process.
const RECEIPTS: &str = ".qwen";

/// How many receipts may wait.
const QUEUE: usize = 64;

/// What Qwen Code writes to a hook's standard input.
#[derive(Debug, Deserialize)]
pub(crate) struct HookInput {
    session_id: String,
    transcript_path: PathBuf,
    hook_event_name: String,
}

/// Handles a hook: starts the session's follower, in place of an earlier one at the session's start,
/// otherwise if there is none.
pub(crate) async fn hook(choice: &SessionChoice, input: &HookInput) -> Result<(), Error> {
    let conversation = conversation(&input.session_id)?;
    if Inbox::of_environment(&input.session_id).is_err() {
        // Such as `qwen -p`.
        return Ok(());
    }
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    if input.hook_event_name != "SessionStart"
        && let Some(mut daemon) = session.daemon().await?
    {
        let known = find_consumer(&mut daemon, &conversation.consumer()).await?;
        if known.is_some_and(|known| known.reader.is_some()) {
            return Ok(());
        }
    }
    let follower = follower_command(&session, "qwen", &input.session_id);
    let started = follower.and_then(|mut follower| {
        let transcript = [OsStr::new("--transcript"), input.transcript_path.as_ref()];
        follower.args(transcript).spawn()
    });
    started.map(drop).map_err(Error::of)
}

fn conversation(id: &str) -> Result<Conversation, Error> {
    Conversation::new(AgentClient::Qwen, id)
        .ok_or_else(|| Error::usage("the session's id is empty".to_owned()))
}

/// Follows the session until Qwen Code or the session ends, or another process follows it.
pub(crate) async fn follow(
    choice: &SessionChoice,
    id: &str,
    transcript: PathBuf,
    max_per_minute: u32,
) -> Result<(), Error> {
    let conversation = conversation(id)?;
    let mut session = TaskSession::named(choice)?;
    session.resolve_name().await?;
    session.paths.create_state()?;
    session.paths.create_runtime()?;
    let inbox = Inbox::of_environment(id)?;
    let (client, identity) = inbox.process()?;
    let receipts = Receipts::listen(&session.paths.socket())?;
    let follower = SessionFollower {
        inbox,
        receipts,
        transcript: Transcript {
            path: transcript,
            offset: 0,
        },
        given: None,
        is_left: false,
        check_at: Instant::now(),
        checks: CHECK,
    };
    let following = async {
        let feeds = (vec![Kind::FollowUp], false);
        match HandOver::take_over(follower, session, &conversation, feeds, max_per_minute).await? {
            Some(hand_over) => hand_over.run().await.map(drop),
            None => Ok(()),
        }
    };
    let left = async {
        let mut looks = interval(LOOK_EVERY);
        while process::may_run(client, &identity) {
            looks.tick().await;
        }
    };
    tokio::select! {
        followed = following => followed,
        () = left => Ok(()),
    }
}

/// The inbox of a session.
#[derive(Debug)]
struct Inbox {
    path: PathBuf,
    token: String,
    session_id: String,
}

impl Inbox {
    /// Fails where Qwen Code has none, such as `qwen -p`.
    fn of_environment(session_id: &str) -> Result<Self, Error> {
        let variable = |name| lookup(name).filter(|value| !value.is_empty());
        let path = variable("QWEN_CODE_MESSAGING_SOCKET").map(PathBuf::from);
        let token = variable("QWEN_CODE_MESSAGING_TOKEN").and_then(|it| it.into_string().ok());
        let (Some(path), Some(token)) = (path, token) else {
            return Err(Error::failed("this session of Qwen Code takes no messages"));
        };
        Ok(Self {
            path,
            token,
            session_id: session_id.to_owned(),
        })
    }

    /// Returns Qwen Code's process, from which the socket has its name, and its identity.
    fn process(&self) -> Result<(u32, String), Error> {
        let name = self.path.file_stem().and_then(|name| name.to_str());
        let pid = name.and_then(|name| name.split('-').next()?.parse().ok());
        let process = pid.and_then(|pid| Some((pid, process::identity(pid)?)));
        process.ok_or_else(|| Error::failed("no process has the inbox"))
    }

    /// Sends a message. It has been read when this returns, and nothing more is said on this connection.
    async fn send(&self, id: &str, text: &str, receipts: &Receipts) -> io::Result<()> {
        let auth = json!({"msgV": 1, "type": "auth", "token": self.token});
        let frame = json!({
            "msgV": 1, "msgId": id, "type": "user", "from": receipts.path,
            "replyToken": receipts.token, "fromName": "tmux-task", "toSessionId": self.session_id,
            "priority": "next", "message": {"role": "user", "content": text},
        });
        let sent = async {
            let mut stream = UnixStream::connect(&self.path).await?;
            // The token and a task's output are for nobody else.
            if stream.peer_cred()?.uid() != rustix::process::getuid().as_raw() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            stream
                .write_all(format!("{auth}\n{frame}\n").as_bytes())
                .await?;
            stream.shutdown().await?;
            stream.take(MAX_BYTES).read_to_end(&mut Vec::new()).await
        };
        timeout(ANSWERS_WITHIN, sent).await??;
        Ok(())
    }
}

/// What Qwen Code says of a message that it was given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    status: Status,
    orig_msg_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    /// The user has not decided yet.
    Held,
    /// It waits for the end of the turn.
    Delivered,
    Denied,
    /// The session takes none.
    Refused,
    /// It was lost, or not taken.
    Expired,
    Dropped,
    /// Qwen Code works at another session by now.
    Misaddressed,
    /// None yet, or one of a later version.
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Whether the message is on its way no longer, and has not arrived.
    fn is_lost(self) -> bool {
        match self {
            Self::Expired | Self::Dropped | Self::Refused | Self::Misaddressed => true,
            Self::Held | Self::Delivered | Self::Denied | Self::Unknown => false,
        }
    }
}

/// The follower's own inbox, for receipts.
#[derive(Debug)]
struct Receipts {
    path: PathBuf,
    token: String,
    arrived: mpsc::Receiver<Receipt>,
}

impl Receipts {
    /// Listens beside the daemon's socket, in a folder that is this user's only. Sockets of followers that are
    /// gone are removed.
    fn listen(beside: &Path) -> Result<Self, Error> {
        let folder = beside.parent().unwrap_or(beside);
        for entry in std::fs::read_dir(folder).map_err(Error::of)?.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_suffix(RECEIPTS));
            let pid = pid.and_then(|pid| pid.parse().ok());
            if pid.is_some_and(|pid| !process::exists(pid) || pid == std::process::id()) {
                files::if_there(std::fs::remove_file(entry.path())).map_err(Error::of)?;
            }
        }
        let path = folder.join(format!("{}{RECEIPTS}", std::process::id()));
        let listener = UnixListener::bind(&path).map_err(Error::of)?;
        let token = hex(&random()?, 32);
        let (sender, arrived) = mpsc::channel(QUEUE);
        let expected = token.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    sleep(Duration::from_secs(1)).await;
                    continue;
                };
                let (sender, expected) = (sender.clone(), expected.clone());
                tokio::spawn(async move {
                    let read = timeout(ANSWERS_WITHIN, read_receipt(stream, &expected));
                    if let Ok(Some(receipt)) = read.await {
                        drop(sender.send(receipt).await);
                    }
                });
            }
        });
        Ok(Self {
            path,
            token,
            arrived,
        })
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

fn random() -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(Error::of)?;
    Ok(bytes)
}

/// Reads a receipt that begins with our token.
async fn read_receipt(stream: UnixStream, token: &str) -> Option<Receipt> {
    let mut lines = tokio::io::BufReader::new(stream.take(MAX_BYTES)).lines();
    let auth: Value = serde_json::from_str(&lines.next_line().await.ok()??).ok()?;
    if auth["token"] != token {
        return None;
    }
    serde_json::from_str(&lines.next_line().await.ok()??).ok()
}

/// A session's transcript, as far as it was read: a line of JSON for each message.
#[derive(Debug)]
struct Transcript {
    path: PathBuf,
    offset: u64,
}

impl Transcript {
    /// Skips what is there: it cannot have a message that was never given.
    fn skip(&mut self) {
        self.offset = std::fs::metadata(&self.path).map_or(0, |found| found.len());
    }

    /// Returns which of these marks are in messages that the file has got since the last time.
    fn find(&mut self, marks: &[String]) -> io::Result<Vec<bool>> {
        let mut found = vec![false; marks.len()];
        let Some(mut file) = files::if_there(File::open(&self.path))? else {
            return Ok(found);
        };
        if file.metadata()?.size() < self.offset {
            self.offset = 0;
        }
        file.seek(SeekFrom::Start(self.offset))?;
        read_lines(BufReader::new(file), &mut self.offset, |entry| {
            let parts = entry["message"]["parts"].as_array();
            let of_user = parts.filter(|_| entry["type"] == "user");
            let texts = of_user.into_iter().flatten();
            for text in texts.filter_map(|part| part["text"].as_str()) {
                for (mark, found) in marks.iter().zip(&mut found) {
                    *found |= text.lines().any(|line| line == mark);
                }
            }
        })?;
        Ok(found)
    }
}

/// A session of Qwen Code, as the client of the conversation.
struct SessionFollower {
    inbox: Inbox,
    receipts: Receipts,
    transcript: Transcript,
    given: Option<GivenMessage>,
    /// Whether Qwen Code takes no messages for this session now.
    is_left: bool,
    /// When to look into the transcript.
    check_at: Instant,
    checks: Backoff,
}

/// The message that this process has given last.
struct GivenMessage {
    id: String,
    /// The id that Qwen Code knows it by.
    theirs: String,
    /// What Qwen Code says of it.
    status: Status,
}

/// Returns the id that Qwen Code knows a message by: at most 64 letters and digits.
fn their_id(message: &SentMessage) -> String {
    hex(
        format!("{} {}", message.batch.id(), message.n_lost).as_bytes(),
        32,
    )
}

impl Client for SessionFollower {
    async fn give(&mut self, messages: &[SentMessage]) -> Given {
        for message in messages {
            let (batch, theirs) = (&message.batch, their_id(message));
            let text = format!("{}\n{}", batch.message.content, mark_of(&batch.id()));
            if batch.is_new {
                self.transcript.skip();
            }
            let sent = self.inbox.send(&theirs, &text, &self.receipts).await;
            self.given = Some(GivenMessage {
                id: batch.id(),
                theirs,
                status: Status::Unknown,
            });
            (self.check_at, self.checks) = (Instant::now(), CHECK);
            match sent {
                Ok(()) => {}
                Err(error) if is_gone(&error) => return Given::Ended(Ended::Left),
                Err(error) => {
                    tracing::debug!(%error, "the inbox of Qwen Code has not taken a message");
                    return Given::Failed;
                }
            }
        }
        Given::Sent
    }

    async fn changed(&mut self, sent: &[SentMessage], _has_new: bool) -> Option<Ended> {
        if self.is_left {
            return Some(Ended::Left);
        }
        tokio::select! {
            Some(Receipt { status, orig_msg_id }) = self.receipts.arrived.recv() => {
                let given = self.given.iter_mut().find(|given| given.theirs == orig_msg_id);
                // What was said before the end of a message may come after it. A status of a later version changes
                // nothing, as the protocol has it.
                if let Some(given) = given.filter(|given| !given.status.is_lost())
                    && status != Status::Unknown
                {
                    given.status = status;
                }
            }
            () = sleep_until(self.check_at), if !sent.is_empty() => {
                self.check_at = Instant::now() + self.checks.next_pause();
            }
        }
        None
    }

    async fn received(&mut self, ledger: &mut Ledger) -> Vec<String> {
        let sent = ledger.handed_over();
        let marks: Vec<String> = sent.iter().map(|one| mark_of(&one.batch.id())).collect();
        let found = self.transcript.find(&marks).unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot read the transcript");
            Vec::new()
        });
        let found = sent.iter().zip(found).filter(|(_, is_there)| *is_there);
        let mut settled: Vec<String> = found.map(|(one, _)| one.batch.id()).collect();
        match &self.given {
            Some(given) if given.status == Status::Denied => settled.push(given.id.clone()),
            Some(given) if given.status.is_lost() => {
                // Recorded before it is given again.
                ledger.note_lost(&given.id, &given.theirs, their_id);
                self.is_left = matches!(given.status, Status::Misaddressed | Status::Refused);
            }
            Some(_) | None => {}
        }
        settled
    }

    fn is_due(&self, message: &SentMessage, _ledger: &Ledger, now: Millis) -> bool {
        let given = self.given.iter().find(|one| one.id == message.batch.id());
        let age = now - message.at;
        given.is_none_or(|given| match given.status {
            // Its inbox is full, or had too many messages.
            Status::Unknown | Status::Dropped => age >= AGAIN_AFTER,
            Status::Expired => age >= RETRY_AFTER,
            Status::Held
            | Status::Delivered
            | Status::Denied
            | Status::Refused
            | Status::Misaddressed => false,
        })
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_in_the_users_entries_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut transcript = Transcript {
            path: path.clone(),
            offset: 0,
        };
        let marks = ["(tmux-task e:1)", "(tmux-task e:2)"].map(str::to_owned);
        assert_eq!(transcript.find(&marks).unwrap(), [false, false]);
        let entry = |kind: &str, text: &str| {
            json!({"type": kind, "message": {"parts": [{"text": text}]}}).to_string()
        };
        let told = entry(
            "user",
            "<cross_session_message>\na\n(tmux-task e:2)\n</cross_session_message>",
        );
        let quoted = entry("assistant", "(tmux-task e:1)");
        std::fs::write(&path, format!("{quoted}\nno JSON\n{told}")).unwrap();
        assert_eq!(
            transcript.find(&marks).unwrap(),
            [false, false],
            "the line is not complete"
        );
        std::fs::write(&path, format!("{quoted}\nno JSON\n{told}\n")).unwrap();
        assert_eq!(transcript.find(&marks).unwrap(), [false, true]);
        assert_eq!(
            transcript.find(&marks).unwrap(),
            [false, false],
            "it was read"
        );
    }

    #[test]
    fn a_status_of_a_later_version_is_none() {
        let read = |status: &str| {
            let text = json!({"status": status, "origMsgId": "a", "reason": "b"}).to_string();
            serde_json::from_str::<Receipt>(&text).unwrap().status
        };
        assert_eq!(read("delivered"), Status::Delivered);
        assert_eq!(read("expired"), Status::Expired);
        assert_eq!(read("read"), Status::Unknown);
    }
}
