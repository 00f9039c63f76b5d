//! Follows a conversation's tasks on other machines: reads the feeds of their sessions there as a consumer,
//! and forgets a session in which the conversation has nothing left.
//!
//! A launch notes here which machine and session it was, before it asks. The machine keeps the follow-ups
//! until they are acknowledged.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::lookup;
use super::notes::{HeldNote, NoteWatch, Notes};
use super::remote_conversation::consumer_of;
use super::session::SessionChoice;
use crate::config;
use crate::hosts::{
    FarCall, FarCaller, FarOutput, FarProcess, FarStdin, Host, Questions, this_machine,
};
use crate::model::{Backoff, Error, ErrorKind, Record, Seq};
use crate::wire::{Acknowledgement, ConsumerList, LiveRecord, StreamRecord, client_of};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// After how long without a change it is asked whether the conversation has tasks, twice before it has
/// none: events are recorded and delivered in far less time.
const QUIET: Duration = Duration::from_secs(5);

/// How often it is asked while nothing changes, and while another process reads.
const ASK_EVERY: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long a machine may take to answer that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// A session on another machine in which a conversation has launched tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HostNote {
    owner: String,
    host: String,
    /// What chooses the session and its server there, as words of a command.
    session: Vec<String>,
}

/// What is reported of a feed on another machine.
#[derive(Debug)]
pub(crate) enum HostNews {
    /// A stream of the feed has begun.
    Began {
        epoch: String,
        /// What was acknowledged before, as far as that is known.
        cursor: Seq,
        /// The feed's last record.
        last_seq: Seq,
    },
    /// A follow-up.
    Record(Box<Record>),
    /// The records up to this one are missing.
    Gap(Seq),
    /// The conversation has no task and no undelivered message there, and the feed is not followed any more.
    Forgotten,
}

/// A feed on another machine: the machine, and what names the feed there.
pub(crate) type FarFeed = (String, String);

/// A record of a feed was received, with all before it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) epoch: String,
    pub(crate) seq: Seq,
}

#[derive(Debug, Clone)]
pub(crate) struct HostNotes {
    notes: Notes,
    owner: String,
}

/// Returns what chooses a session and its server, as words of a command.
pub(crate) fn session_words(choice: &SessionChoice) -> Vec<String> {
    let server = &choice.server;
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let name = server.socket_name.as_ref();
    let given = [
        ("-L", name.map(|name| name.to_string_lossy().into_owned())),
        ("-S", path(&server.socket_path)),
        ("--tmux", path(&server.program)),
        ("-s", choice.session.clone()),
    ];
    let given = given
        .into_iter()
        .filter_map(|(option, value)| Some([option.to_owned(), value?]));
    given.flatten().collect()
}

/// Notes that a conversation is about to launch tasks in this session on this machine. The note is to be
/// held until the command has ended. `None` if the owner is no conversation whose client has an adapter.
pub(crate) async fn note_host(
    owner: &str,
    host: &str,
    choice: &SessionChoice,
) -> Result<Option<HeldNote>, Error> {
    if client_of(owner).is_none() {
        return Ok(None);
    }
    let notes = Notes::of_conversations(&lookup)?;
    let note = HostNote {
        owner: owner.to_owned(),
        host: host.to_owned(),
        session: session_words(choice),
    };
    match notes.hold(owner, &note.place(), &note).await {
        Ok(held) => Ok(Some(held)),
        Err(source) => Err(Error::folder(&notes.folder, &source)),
    }
}

/// Returns the owners that have tasks on other machines.
pub(crate) fn owners_with_hosts() -> Result<BTreeSet<String>, Error> {
    let notes = Notes::of_conversations(&lookup)?.list::<HostNote>();
    Ok(notes.into_iter().map(|note| note.owner).collect())
}

impl HostNote {
    /// Returns what names its feed.
    pub(crate) fn feed(&self) -> FarFeed {
        (self.host.clone(), self.session.join("\0"))
    }

    fn place(&self) -> String {
        format!("{}\0{}", self.host, self.session.join("\0"))
    }

    /// Executes a command in the session there, for the conversation.
    async fn execute(&self, words: &[&str], stdin: FarStdin) -> Result<FarProcess, Error> {
        let host = Host::named(&self.host, &config::load(&lookup)?)?;
        let words = words.iter().map(|word| (*word).to_owned());
        let call = FarCall {
            args: self.session.iter().cloned().chain(words).collect(),
            caller: FarCaller {
                host: host.name.clone(),
                machine: this_machine(),
                ..FarCaller::default()
            },
            owner: Some(self.owner.clone()),
            stdin,
            ..FarCall::default()
        };
        FarProcess::start(&host, &lookup, Questions::Never, call).await
    }

    /// Returns what a command there prints, and its exit code; `None` if it does not answer.
    async fn printed(&self, words: &[&str]) -> Option<(Vec<u8>, u8)> {
        let run = async {
            let mut process = self.execute(words, FarStdin::Nothing).await?;
            let mut printed = Vec::new();
            loop {
                match process.next().await? {
                    FarOutput::Stdout(bytes) => printed.extend(bytes),
                    FarOutput::Stderr(_) => {}
                    FarOutput::Exit(code) => return Ok::<_, Error>((printed, code)),
                }
            }
        };
        timeout(ANSWERS_WITHIN, run).await.ok()?.ok()
    }

    /// Whether it is known that no task of the conversation is there that has not ended.
    async fn has_no_task(&self) -> bool {
        #[derive(Deserialize)]
        struct Listed {
            tasks: Vec<Task>,
        }
        #[derive(Deserialize)]
        struct Task {
            owner: Option<String>,
            state: String,
        }
        let Some((printed, code)) = self.printed(&["ls", "--json"]).await else {
            return false;
        };
        if code == ErrorKind::Missing.exit_code() {
            return true;
        }
        let listed = serde_json::from_slice::<Listed>(&printed);
        listed.is_ok_and(|listed| {
            let own = listed
                .tasks
                .iter()
                .filter(|task| task.owner.as_ref() == Some(&self.owner));
            own.into_iter()
                .all(|task| ["exited", "killed"].contains(&&*task.state))
        })
    }

    /// Whether it is known that no process reads as the conversation there.
    async fn has_no_reader(&self) -> bool {
        let consumer = consumer_of(&this_machine(), &self.owner);
        let printed = self.printed(&["consumer", "ls", "--json"]).await;
        let list =
            printed.and_then(|(printed, _)| serde_json::from_slice::<ConsumerList>(&printed).ok());
        list.is_some_and(|list| {
            let mut own = list.consumers.iter().filter(|one| one.name == consumer);
            own.all(|one| one.reader.is_none())
        })
    }
}

impl HostNotes {
    pub(crate) fn of(owner: &str) -> io::Result<Self> {
        Ok(Self {
            notes: Notes::of_conversations(&lookup).map_err(io::Error::other)?,
            owner: owner.to_owned(),
        })
    }

    /// Returns what resolves when notes have changed.
    pub(crate) fn watch(&self) -> io::Result<NoteWatch> {
        self.notes.watch()
    }

    /// Returns the conversation's notes.
    pub(crate) fn list(&self) -> Vec<HostNote> {
        let mut notes = self.notes.list::<HostNote>();
        notes.retain(|note| note.owner == self.owner);
        notes
    }

    /// Returns when a launch held the note last.
    fn held_at(&self, note: &HostNote) -> Option<SystemTime> {
        self.notes.held_at(&self.owner, &note.place())
    }

    /// Removes the note, unless a launch holds it or has held it since then. Returns whether it did.
    fn forget(&self, note: &HostNote, since: Option<SystemTime>) -> bool {
        let taken = self.notes.take(&self.owner, &note.place());
        let Some(taken) = taken.ok().flatten() else {
            return false;
        };
        self.held_at(note) == since && taken.remove().is_ok()
    }
}

/// Follows the conversation's tasks in this session there until it is forgotten. Acknowledges what is in
/// `received`.
pub(crate) async fn follow_host(
    notes: HostNotes,
    note: HostNote,
    mut received: mpsc::UnboundedReceiver<Received>,
    reports: mpsc::Sender<(FarFeed, HostNews)>,
) {
    let mut stream = FeedStream {
        notes,
        note,
        reports,
        quiet: QuietCheck::new(),
        retry: RETRY,
    };
    loop {
        let ended = match stream.follow(&mut received).await {
            Ok(Ended::Replaced) => stream.wait_for_reader().await,
            Ok(ended) => ended,
            Err(error) => {
                tracing::debug!(host = stream.note.host, %error, "cannot read a feed now");
                Ended::Over
            }
        };
        if let Ended::Forgotten = ended {
            return stream.report(HostNews::Forgotten).await;
        }
        sleep(stream.retry.next_pause()).await;
    }
}

/// Why a stream has ended.
enum Ended {
    Forgotten,
    /// By another name of the machine, or by another process.
    Replaced,
    /// The daemon there has ended, or the connection.
    Over,
}

/// A stream of the feed there.
struct FeedStream {
    notes: HostNotes,
    note: HostNote,
    reports: mpsc::Sender<(FarFeed, HostNews)>,
    quiet: QuietCheck,
    retry: Backoff,
}

impl FeedStream {
    async fn follow(
        &mut self,
        received: &mut mpsc::UnboundedReceiver<Received>,
    ) -> Result<Ended, Error> {
        let consumer = consumer_of(&this_machine(), &self.note.owner);
        let owner = format!("--owner={}", self.note.owner);
        let words = [
            "feed",
            "--follow",
            "--consumer",
            &consumer,
            "--take-over",
            "--kind",
            "followUp",
            &owner,
        ];
        let mut process = self
            .note
            .execute(&words, FarStdin::Acknowledgements)
            .await?;
        let mut stdin = process.take_stdin();
        let mut stream_epoch = String::new();
        // The last record, and the last one that is acknowledged on the disk there.
        let (mut last, mut acked) = (0, 0);
        let mut is_complete = false;
        loop {
            // Losing an arm is safe: nothing is taken before it is done.
            tokio::select! {
                line = process.line() => {
                    let line = match line? {
                        Ok(line) => line,
                        Err(code) => return Ok(self.without_session(code).await),
                    };
                    let news = match serde_json::from_slice(&line) {
                        Ok(StreamRecord::Live(LiveRecord::Hello { epoch, last_seq, .. })) => {
                            self.retry = RETRY;
                            self.quiet.restart();
                            stream_epoch.clone_from(&epoch);
                            Some(HostNews::Began { epoch, cursor: 0, last_seq })
                        }
                        Ok(StreamRecord::Durable(record)) => {
                            self.quiet.restart();
                            last = record.seq;
                            Some(HostNews::Record(record))
                        }
                        Ok(StreamRecord::Live(LiveRecord::Gap { to, .. })) => {
                            last = to;
                            Some(HostNews::Gap(to))
                        }
                        Ok(StreamRecord::Live(LiveRecord::Acked { acked: seq })) => {
                            acked = seq;
                            None
                        }
                        Ok(StreamRecord::Live(LiveRecord::Replaced)) => return Ok(Ended::Replaced),
                        // It may come from a later version.
                        Ok(StreamRecord::Live(LiveRecord::Sync)) => {
                            is_complete = true;
                            None
                        }
                        Ok(StreamRecord::Live(
                            LiveRecord::Status { .. } | LiveRecord::Tasks { .. },
                        ))
                        | Err(_) => None,
                    };
                    if let Some(news) = news {
                        self.report(news).await;
                    }
                }
                Some(Received { epoch, seq }) = received.recv() => {
                    if epoch == stream_epoch && seq <= last {
                        acknowledge(&mut stdin, seq).await;
                    }
                }
                () = sleep_until(self.quiet.at) => {
                    if self.is_forgotten(is_complete && acked >= last).await {
                        return Ok(Ended::Forgotten);
                    }
                }
            }
        }
    }

    /// The stream has ended with this code. Where there is no session, a daemon says what has become of its
    /// tasks, or there never were any.
    async fn without_session(&mut self, code: u8) -> Ended {
        if code == ErrorKind::Missing.exit_code() {
            if self.quiet.at <= Instant::now() && self.is_forgotten(true).await {
                return Ended::Forgotten;
            }
            self.note.printed(&["daemon", "--detach"]).await;
        }
        Ended::Over
    }

    /// Waits until no other process reads. One that was late, on a connection that is lost, is gone soon.
    async fn wait_for_reader(&mut self) -> Ended {
        let mut pause = QUIET;
        loop {
            sleep(pause).await;
            if self.note.has_no_reader().await {
                return Ended::Over;
            }
            // What is left there is for the other one.
            if self.is_forgotten(true).await {
                return Ended::Forgotten;
            }
            pause = match self.quiet.had_none {
                true => QUIET,
                false => (2 * pause).min(LOOK_EVERY),
            };
        }
    }

    async fn report(&self, news: HostNews) {
        drop(self.reports.send((self.note.feed(), news)).await);
    }

    /// Asks whether the conversation has a task there, if everything `is_received`. Returns whether the note
    /// is removed.
    async fn is_forgotten(&mut self, is_received: bool) -> bool {
        let held_at = self.notes.held_at(&self.note);
        let has_none = is_received && self.note.has_no_task().await;
        self.quiet.asked(has_none) && self.notes.forget(&self.note, held_at)
    }
}

async fn acknowledge(stdin: &mut Option<ChildStdin>, seq: Seq) {
    if let Some(to) = stdin {
        let line = serde_json::to_string(&Acknowledgement { ack: seq });
        let line = line.expect("it is a number") + "\n";
        // If it is lost, the records come again.
        let written = to.write_all(line.as_bytes()).await;
        written.and(to.flush().await).ok();
    }
}

/// When to ask whether the conversation has tasks.
struct QuietCheck {
    at: Instant,
    /// Whether it had none when it was asked last, and nothing has changed since.
    had_none: bool,
}

impl QuietCheck {
    fn new() -> Self {
        Self {
            at: Instant::now() + QUIET,
            had_none: false,
        }
    }

    /// Something has changed.
    fn restart(&mut self) {
        *self = Self::new();
    }

    /// Notes the answer. Returns whether it is certain now that there is none.
    fn asked(&mut self, has_none: bool) -> bool {
        let is_certain = has_none && self.had_none;
        let pause = if has_none { QUIET } else { ASK_EVERY };
        self.at = Instant::now() + pause;
        self.had_none = has_none;
        is_certain
    }
}
