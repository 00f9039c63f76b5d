//! Follows a conversation's tasks on other machines: reads the feeds of their sessions there as a consumer,
//! and forgets a session in which the conversation has nothing left.
//!
//! A launch notes here which machine and session it was, before it asks. The machine keeps the follow-ups
//! until they are acknowledged.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::host_notes::{FarFeed, HostNote, HostNotes};
use super::lookup;
use super::remote_conversation::consumer_of;
use crate::config;
use crate::hosts::{FarCall, FarCaller, FarProcess, Host, Questions, this_machine};
use crate::model::{Backoff, Error, ErrorKind, FarStdin, Record, Seq};
use crate::wire::{Acknowledgement, ConsumerList, LiveRecord, StreamRecord};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// After how long without a change it is asked whether the conversation has tasks, and for how long nothing
/// may come then: events are recorded and delivered in far less time.
const QUIET: Duration = Duration::from_secs(3);

/// How often it is asked while nothing changes, and while another process reads.
const ASK_EVERY: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long a machine may take to answer that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

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

/// A record of a feed was received, with all before it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) epoch: String,
    pub(crate) seq: Seq,
}

impl HostNote {
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
        let run = async { self.execute(words, FarStdin::Nothing).await?.output().await };
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
                // What comes meanwhile is read, and the answer is void then.
                is_forgotten = self.quiet.check(&self.notes, &self.note, is_complete && acked >= last) => {
                    if is_forgotten {
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
            if self.quiet.at <= Instant::now() && self.is_forgotten().await {
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
            if self.is_forgotten().await {
                return Ended::Forgotten;
            }
            pause = match self.quiet.had_none {
                Some(_) => QUIET,
                None => (2 * pause).min(LOOK_EVERY),
            };
        }
    }

    /// Asks now whether the conversation has a task there, where everything is received.
    async fn is_forgotten(&mut self) -> bool {
        self.quiet.ask(&self.notes, &self.note, true).await
    }

    async fn report(&self, news: HostNews) {
        drop(self.reports.send((self.note.feed(), news)).await);
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

/// When to ask whether the conversation has tasks, and the question.
struct QuietCheck {
    at: Instant,
    /// Set if it had none when it was asked last, and nothing has come since: when a launch had held the note
    /// before that.
    had_none: Option<Option<SystemTime>>,
    /// The question that is not answered yet, and when a launch had held the note before it.
    asked: Option<(Option<SystemTime>, Question)>,
}

/// Resolves to whether the conversation has no task there.
type Question = Pin<Box<dyn Future<Output = bool>>>;

impl QuietCheck {
    fn new() -> Self {
        Self {
            at: Instant::now() + QUIET,
            had_none: None,
            asked: None,
        }
    }

    /// Something has changed: an answer that is on its way is void.
    fn restart(&mut self) {
        *self = Self::new();
    }

    /// Asks when it is time.
    ///
    /// # Cancel safety
    ///
    /// The question goes on when the future is dropped.
    async fn check(&mut self, notes: &HostNotes, note: &HostNote, is_received: bool) -> bool {
        if self.asked.is_none() {
            sleep_until(self.at).await;
        }
        self.ask(notes, note, is_received).await
    }

    /// Asks whether the conversation has a task there, if everything `is_received`, and again later whether
    /// nothing has come since. Returns whether the note is removed then.
    async fn ask(&mut self, notes: &HostNotes, note: &HostNote, is_received: bool) -> bool {
        if let Some(held_at) = self.had_none.take()
            && is_received
            && notes.forget(note, held_at)
        {
            return true;
        }
        let (held_at, question) = self.asked.get_or_insert_with(|| {
            let asker = note.clone();
            let question = async move { is_received && asker.has_no_task().await };
            (notes.held_at(note), Box::pin(question))
        });
        let (held_at, has_none) = (*held_at, question.await);
        let pause = if has_none { QUIET } else { ASK_EVERY };
        *self = Self {
            at: Instant::now() + pause,
            had_none: has_none.then_some(held_at),
            asked: None,
        };
        false
    }
}
