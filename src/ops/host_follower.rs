//! Follows a conversation's tasks on other machines: reads the feeds of their sessions there as a consumer,
//! and forgets a session in which the conversation has nothing left.
//!
//! A launch notes here which machine and session it was, before it asks. The machine keeps the follow-ups
//! until they are acknowledged.
//!
//! The tasks on the machines of a fleet are followed by its wakes, which the fleet's program reads from the broker,
//! and acknowledges when they were handed over.

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::host_notes::{FarFeed, HostNote, HostNotes};
use super::lookup;
use super::remote_conversation::consumer_of;
use crate::client::FleetProcess;
use crate::client::hosts::{FarProcess, Host, this_machine};
use crate::config;
use crate::config::paths::{HOSTS, state_root};
use crate::model::{Backoff, Error, ErrorKind, FarCall, FarStdin, Record, Seq};
use crate::rules::wire::{
    Acknowledgement, LiveRecord, LsTask, LsView, StreamRecord, TaskStateName,
};

const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// After how long without a change it is asked whether the conversation has tasks, and for how long nothing
/// may come then: events are recorded and delivered in far less time.
const QUIET: Duration = Duration::from_secs(3);

/// How often it is asked while nothing changes.
const ASK_EVERY: Duration = Duration::from_secs(600);

/// How long to wait before trying again while another process reads.
const WHILE_READ: Backoff = Backoff::new(QUIET, Duration::from_secs(60));

/// How long a machine may take to answer that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) enum HostNews {
    Began {
        epoch: String,
        /// What is known to be acknowledged: records up to this one.
        cursor: Seq,
        last: Seq,
    },
    Record(Box<Record>),
    /// Retention has removed the records up to this one.
    Gap {
        epoch: String,
        to: Seq,
    },
    /// The conversation has no task and no undelivered message there, and the feed is not followed any more.
    Forgotten(FarFeed),
}

/// A record of a feed was received, with all before it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) epoch: String,
    pub(crate) seq: Seq,
}

impl HostNote {
    async fn execute(&self, words: &[&str], stdin: FarStdin) -> Result<FarProcess, Error> {
        let host = Host::named(&self.host, &lookup)?;
        let words = words.iter().map(|word| (*word).to_owned());
        let args = self.session.iter().cloned().chain(words).collect();
        let call = FarCall {
            stdin,
            cwd: None,
            ..host.call(args, Some(self.owner.clone()))
        };
        FarProcess::start(&host, false, &call).await
    }

    /// Returns the first line that a command there prints, or its exit code; `None` if it does not answer.
    async fn printed(&self, words: &[&str]) -> Option<Result<Vec<u8>, u8>> {
        let run = async { self.execute(words, FarStdin::Nothing).await?.line().await };
        timeout(ANSWERS_WITHIN, run).await.ok()?.ok()
    }

    /// Whether it is known that no task of the conversation is there that has not ended.
    async fn has_no_task(&self) -> bool {
        let has_ended = |task: &LsTask| {
            task.task.owner.as_ref() != Some(&self.owner)
                || matches!(task.state, TaskStateName::Exited | TaskStateName::Killed)
        };
        match self.printed(&["ls", "--json"]).await {
            Some(Ok(line)) => {
                let listed = serde_json::from_slice::<LsView>(&line);
                listed.is_ok_and(|listed| listed.tasks.iter().all(has_ended))
            }
            Some(Err(code)) => code == ErrorKind::Missing.exit_code(),
            None => false,
        }
    }
}

/// Follows the conversation's tasks there until it is forgotten. Acknowledges what is in `received`.
pub(crate) async fn follow_host(
    notes: HostNotes,
    note: HostNote,
    received: mpsc::UnboundedReceiver<Received>,
    reports: mpsc::Sender<(String, HostNews)>,
) {
    let follower = HostFollower {
        notes,
        note,
        reports,
        changed: Notify::new(),
        is_received: Cell::new(false),
    };
    tokio::select! {
        // What has come while this process slept is read before a time is over.
        biased;
        never = follower.follow(received) => match never {},
        () = follower.until_forgotten() => {}
    }
    let forgotten = HostNews::Forgotten(follower.note.feed());
    follower.report(forgotten).await;
}

struct HostFollower {
    notes: HostNotes,
    note: HostNote,
    reports: mpsc::Sender<(String, HostNews)>,
    /// Notified of what has come: an answer that is on its way is void then.
    changed: Notify,
    /// Whether everything that is there for this reader is received and acknowledged on the disk there.
    is_received: Cell<bool>,
}

struct NextStream {
    /// Whether another reader is replaced. One that was replaced itself, by another process or by another name
    /// of the machine, waits until nobody reads.
    takes_over: bool,
    retry: Backoff,
}

const FIRST_STREAM: NextStream = NextStream {
    takes_over: true,
    retry: RETRY,
};

impl HostFollower {
    /// Reads the feed, again whenever a stream has ended.
    async fn follow(&self, mut received: mpsc::UnboundedReceiver<Received>) -> Infallible {
        let mut next = FIRST_STREAM;
        let mut was_missing = false;
        loop {
            let ended = self.read(&mut next, &mut received).await;
            if let Err(error) = &ended {
                tracing::debug!(host = self.note.host, %error, "cannot read a feed now");
            }
            let is_missing = ended.is_ok_and(|code| code == ErrorKind::Missing.exit_code());
            if is_missing {
                // A daemon says what has become of the tasks, or there never were any.
                self.note.printed(&["daemon", "--detach"]).await;
            }
            // What is left there is for the other reader, or nothing is.
            let is_received = !next.takes_over || was_missing && is_missing;
            let is_news = self.is_received.replace(is_received) != is_received;
            if is_received && (is_news || !next.takes_over) {
                self.changed.notify_one();
            }
            was_missing = is_missing;
            sleep(next.retry.next_pause()).await;
        }
    }

    /// Reads a stream of the feed to its end. Returns the code with which the command there has ended.
    async fn read(
        &self,
        next: &mut NextStream,
        received: &mut mpsc::UnboundedReceiver<Received>,
    ) -> Result<u8, Error> {
        let consumer = consumer_of(&this_machine(), &self.note.owner);
        let owner = format!("--owner={}", self.note.owner);
        let mut words = vec![
            "feed",
            "--follow",
            "--consumer",
            &consumer,
            "--kind",
            "followUp",
            &owner,
        ];
        words.extend(next.takes_over.then_some("--take-over"));
        let stdin = FarStdin::Acknowledgements;
        let mut process = self.note.execute(&words, stdin).await?;
        let mut stream_epoch = String::new();
        // The last record, and the last one that is acknowledged on the disk there.
        let (mut last, mut acked) = (0, 0);
        let mut is_complete = false;
        loop {
            // Losing an arm is safe: nothing is taken before it is done.
            let line = tokio::select! {
                line = process.line() => match line? {
                    Ok(line) => line,
                    Err(code) => return Ok(code),
                },
                Some(Received { epoch, seq }) = received.recv() => {
                    if epoch == stream_epoch && seq <= last {
                        let line = serde_json::to_string(&Acknowledgement { ack: seq });
                        // If it is lost, the records come again.
                        process.way.send(&(line.expect("it is a number") + "\n")).await;
                    }
                    continue;
                }
            };
            let Ok(record) = serde_json::from_slice(&line) else {
                // It may come from a later version.
                continue;
            };
            let news = match record {
                StreamRecord::Live(LiveRecord::Hello {
                    epoch, last_seq, ..
                }) => {
                    *next = FIRST_STREAM;
                    stream_epoch.clone_from(&epoch);
                    Some(HostNews::Began {
                        epoch,
                        cursor: 0,
                        last: last_seq,
                    })
                }
                StreamRecord::Durable(record) => {
                    last = record.seq;
                    Some(HostNews::Record(record))
                }
                StreamRecord::Live(LiveRecord::Gap { to, .. }) => {
                    last = to;
                    let epoch = stream_epoch.clone();
                    Some(HostNews::Gap { epoch, to })
                }
                StreamRecord::Live(LiveRecord::Acked { acked: seq }) => {
                    acked = seq;
                    None
                }
                StreamRecord::Live(LiveRecord::Sync) => {
                    is_complete = true;
                    None
                }
                StreamRecord::Live(LiveRecord::Replaced) => {
                    (next.takes_over, next.retry) = (false, WHILE_READ);
                    continue;
                }
                StreamRecord::Live(LiveRecord::Status { .. } | LiveRecord::Tasks { .. }) => {
                    continue;
                }
            };
            self.is_received.set(is_complete && acked >= last);
            self.changed.notify_one();
            if let Some(news) = news {
                self.report(news).await;
            }
        }
    }

    /// Resolves when the conversation has nothing left there and the note is removed.
    async fn until_forgotten(&self) {
        let mut pause = QUIET;
        // Set if there was none: the files of the note.
        let mut had_none: Option<Vec<PathBuf>> = None;
        loop {
            tokio::select! {
                biased;
                () = self.changed.notified() => {
                    (pause, had_none) = (QUIET, None);
                    continue;
                }
                () = sleep(pause) => {}
            }
            if let Some(files) = had_none.take()
                && self.is_received.get()
                && files.iter().all(|file| fs::remove_file(file).is_ok())
            {
                return;
            }
            // Of a launch that is under way it is not known whether it starts one.
            let files = self.notes.settled(&self.note);
            let is_known = files.is_some() && self.is_received.get();
            let has_none = is_known && self.note.has_no_task().await;
            pause = match files.is_none() || has_none {
                true => QUIET,
                false => ASK_EVERY,
            };
            had_none = files.filter(|_| has_none);
        }
    }

    async fn report(&self, news: HostNews) {
        drop(self.reports.send((self.note.host.clone(), news)).await);
    }
}

// The wakes of a conversation on the machines of a fleet.

/// A follow-up of a host, whose epoch names the feed, as a line of the program.
#[derive(Deserialize)]
struct Wake {
    host: String,
    /// The last record of the feed that was acknowledged before.
    cursor: Seq,
    #[serde(flatten)]
    record: Box<Record>,
}

/// Returns the folder in which is noted how far conversations are.
fn folder() -> Result<PathBuf, Error> {
    Ok(state_root(&lookup)?.join(HOSTS).join("wakes"))
}

/// Whether a conversation on this machine has followed its wakes.
pub(super) fn are_followed_here() -> bool {
    folder().is_ok_and(|folder| folder.exists())
}

/// Follows the conversation's wakes; ends at once where the configuration names no broker.
pub(crate) async fn follow_wakes(
    owner: String,
    mut received: mpsc::UnboundedReceiver<Received>,
    reports: mpsc::Sender<(String, HostNews)>,
) {
    let mut retry = RETRY;
    while config::load(&lookup).is_ok_and(|config| config.has_fleet) {
        if let Err(error) = follow(&owner, &mut received, &reports, &mut retry).await {
            tracing::debug!(%error, "wakes cannot be read now");
        }
        if received.is_closed() {
            return;
        }
        sleep(retry.next_pause()).await;
    }
}

/// Follows them on one connection.
async fn follow(
    owner: &str,
    received: &mut mpsc::UnboundedReceiver<Received>,
    reports: &mpsc::Sender<(String, HostNews)>,
    retry: &mut Backoff,
) -> Result<(), Error> {
    let folder = folder()?;
    let words = ["wakes", "--owner", owner, "--notes"].map(OsStr::new);
    let args = words.into_iter().chain([folder.as_os_str()]);
    let (mut stdin, mut process) = FleetProcess::start(args)?;
    loop {
        // Losing an arm is safe: nothing is taken before it is done.
        tokio::select! {
            line = process.line() => match serde_json::from_slice(&line?) {
                Ok(wake) => report(wake, reports).await,
                // It reads now.
                Err(_) => *retry = RETRY,
            },
            order = received.recv() => {
                // Nobody follows any more.
                let Some(Received { epoch, seq }) = order else { return Ok(()) };
                let line = format!("{}\n", json!({ "epoch": epoch, "ack": seq }));
                stdin.write_all(line.as_bytes()).await.map_err(Error::of)?;
                stdin.flush().await.map_err(Error::of)?;
            }
        }
    }
}

/// Each name is a feed of its own: what one has left is delivered also when another has begun.
async fn report(wake: Wake, reports: &mpsc::Sender<(String, HostNews)>) {
    let began = HostNews::Began {
        epoch: wake.record.epoch.clone(),
        cursor: wake.cursor,
        // Whether a process before this one has handed it over is not known.
        last: Seq::MAX,
    };
    for news in [began, HostNews::Record(wake.record)] {
        drop(reports.send((wake.host.clone(), news)).await);
    }
}
