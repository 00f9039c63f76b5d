//! What was handed to a conversation, kept between processes.
//!
//! A client or its adapter may be killed before the receipt of a message, or before its
//! acknowledgement has reached the feed. What was handed over as one message is then handed over again
//! as that message: with the same follow-ups, text and id. So each follow-up is in one message only,
//! and a client recognises one that it has already. The ledger is a file beside the feed, written
//! before a message is printed.
//!
//! One process at a time has the ledger. With the clients that run a process for the whole
//! conversation, a new one takes it over ([`Ledger::take_over`]). Of those that Claude Code runs for
//! its hooks, one more may be the next in line: so there is a process that sees whether a message is
//! answered also when the client runs no hook after it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::Conversation;
use super::outbox::{Batch, Budget};
use super::transcript::{Place, Transcript, mark_of};
use crate::config::paths::Paths;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Millis, Seq};

/// How long a process that is replaced may take to leave: one that was stopped does not leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// How often to try to get the ledger meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SentMessage {
    /// What is handed over again, as it was.
    pub(super) batch: Batch,
    /// The client's process, and when it started: while it lives, the message may be on its way.
    pub(super) client: Option<(u32, Millis)>,
    /// When it was handed over last, in milliseconds since 1970.
    pub(super) at: Millis,
    pub(super) attempts: u32,
    /// How often it is known to be lost.
    #[serde(default)]
    pub(super) n_lost: u32,
    /// Where the transcript has it.
    #[serde(default)]
    pub(super) place: Place,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Contents {
    handed_over: Vec<SentMessage>,
    /// The last follow-up of each feed that was handed over, and with it all before it, by epoch, which no
    /// other feed of any machine has. It stays until the feed's consumer has passed it.
    feeds: BTreeMap<String, Seq>,
    pub(super) budget: Budget,
    pub(super) transcript: Transcript,
}

#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    pub(super) contents: Contents,
    lock: Lock,
}

/// A file that this process has locked, until this is dropped or the process ends.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// `None` when another process has it.
    fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = files::open_to_write(path)?;
        Ok(file.try_lock().is_ok().then_some(Self(file)))
    }

    /// Whether the file has not been removed.
    fn is_linked(&self) -> io::Result<bool> {
        Ok(self.0.metadata()?.nlink() > 0)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that another thread is starting may have the file open for a moment longer.
        self.0.unlock().unwrap_or_default();
    }
}

/// The place of the process that gets the ledger next.
#[derive(Debug)]
pub(super) struct NextInLine(Lock);

impl NextInLine {
    /// Takes the place; `None` when another process has it.
    pub(super) fn take(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        Ok(Lock::take(&file(paths, conversation, "next")?)?.map(Self))
    }

    /// Tells the process that has the place to leave it. The place is free at once.
    pub(super) fn dismiss(paths: &Paths, conversation: &Conversation) -> io::Result<()> {
        files::if_there(fs::remove_file(file(paths, conversation, "next")?)).map(drop)
    }

    /// Waits for the ledger; `None` when this process was dismissed meanwhile. Where the future is dropped, a
    /// thread goes on waiting until the process ends.
    pub(super) async fn wait(
        self,
        paths: &Paths,
        conversation: &Conversation,
    ) -> io::Result<Option<Ledger>> {
        let lock = files::open_to_write(&file(paths, conversation, "lock")?)?;
        let (sender, locked) = oneshot::channel();
        thread::Builder::new()
            .name("next-in-line".to_owned())
            .spawn(move || drop(sender.send(lock.lock().map(|()| lock))))?;
        let lock = Lock(locked.await.map_err(io::Error::other)??);
        if !self.0.is_linked()? {
            return Ok(None);
        }
        Ledger::load(paths, conversation, lock).map(Some)
    }
}

fn file(paths: &Paths, conversation: &Conversation, extension: &str) -> io::Result<PathBuf> {
    let folder = paths.state.join("agents");
    files::make_folder(&folder, OPEN_TO_OTHERS)?;
    Ok(folder.join(format!("{}.{extension}", conversation.consumer())))
}

impl Ledger {
    pub(super) fn open(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        let lock = Lock::take(&file(paths, conversation, "lock")?)?;
        lock.map(|lock| Self::load(paths, conversation, lock))
            .transpose()
    }

    /// Takes the ledger over from the process that has it, and that was told to leave.
    pub(super) async fn take_over(paths: &Paths, conversation: &Conversation) -> io::Result<Self> {
        let path = file(paths, conversation, "lock")?;
        let mut deadline = Instant::now() + LEAVES_WITHIN;
        loop {
            match Lock::take(&path)? {
                Some(lock) if lock.is_linked()? => return Self::load(paths, conversation, lock),
                None if Instant::now() >= deadline => {
                    // When it goes on, it finds that it does not have the ledger any more.
                    files::if_there(fs::remove_file(&path))?;
                    deadline = Instant::now() + LEAVES_WITHIN;
                }
                Some(_) | None => {}
            }
            sleep(TRY_EVERY).await;
        }
    }

    /// A damaged file counts as empty: a message may be delivered twice, but none is lost.
    fn load(paths: &Paths, conversation: &Conversation, lock: Lock) -> io::Result<Self> {
        let path = file(paths, conversation, "json")?;
        let bytes = files::if_there(files::read(&path))?.unwrap_or_default();
        Ok(Self {
            path,
            contents: serde_json::from_slice(&bytes).unwrap_or_default(),
            lock,
        })
    }

    /// What was handed over and not confirmed.
    pub(super) fn handed_over(&self) -> &[SentMessage] {
        &self.contents.handed_over
    }

    /// Notes that a message is lost, if the client knows it by this id still.
    pub(super) fn note_lost(
        &mut self,
        id: &str,
        theirs: &str,
        their_id: fn(&SentMessage) -> String,
    ) {
        let mut sent = self.contents.handed_over.iter_mut();
        if let Some(one) = sent.find(|one| one.batch.id() == id && their_id(one) == theirs) {
            one.n_lost += 1;
            if let Err(error) = self.save_if_held() {
                tracing::warn!(%error, "a lost message was not recorded");
            }
        }
    }

    /// Whether a follow-up was handed over, with or without a receipt.
    pub(super) fn has(&self, epoch: &str, seq: Seq) -> bool {
        let is_in = |one: &SentMessage| one.batch.epoch == epoch && one.batch.seqs.contains(&seq);
        let last = self.contents.feeds.get(epoch);
        last.is_some_and(|last| seq <= *last) || self.handed_over().iter().any(is_in)
    }

    /// Reads what the conversation's transcript has since the last time.
    pub(super) fn read(&mut self, transcript: &Path) -> io::Result<()> {
        let sent = self.contents.handed_over.iter_mut();
        let messages = sent.map(|one| (mark_of(&one.batch.id()), &mut one.place));
        let mut messages: Vec<_> = messages.collect();
        self.contents.transcript.read(transcript, &mut messages)
    }

    /// Forgets messages that need not be handed over any more. Returns whether there were any. Not saved.
    pub(super) fn settle(&mut self, ids: &[String]) -> bool {
        let n_before = self.handed_over().len();
        let sent = &mut self.contents.handed_over;
        sent.retain(|one| !ids.contains(&one.batch.id()));
        self.handed_over().len() < n_before
    }

    /// Forgets how far a feed was handed over, if all of that was acknowledged. Of the feeds of this
    /// machine only the present one counts, up to its record `last`: if it has lost later ones, their
    /// numbers are used again. It is not saved, as it is found again.
    pub(super) fn forget_acknowledged(
        &mut self,
        host: Option<&str>,
        epoch: &str,
        cursor: Seq,
        last: Seq,
    ) {
        let (handed_over, feeds) = (&mut self.contents.handed_over, &mut self.contents.feeds);
        feeds.retain(|of, last| of != epoch || *last > cursor);
        // A feed of another machine may be read in two ways, and one of them may be behind.
        if host.is_some() {
            return;
        }
        handed_over.retain(|one| {
            let is_in = one.batch.seqs.last().is_some_and(|seq| *seq <= last);
            one.batch.host.is_some() || one.batch.epoch == epoch && is_in
        });
        if let Some(mark) = feeds.get_mut(epoch) {
            *mark = last.min(*mark);
        }
    }

    /// Notes that the messages for which `is_due` holds are about to be handed over again by this
    /// process of the client, and then a new one. Returns all of these. It is not saved.
    pub(super) fn hand_over(
        &mut self,
        is_due: impl Fn(&SentMessage) -> bool,
        new: Option<Batch>,
        (client, at): (Option<(u32, Millis)>, Millis),
        budget: Budget,
    ) -> Vec<SentMessage> {
        let (handed_over, feeds) = (&mut self.contents.handed_over, &mut self.contents.feeds);
        let mut all = Vec::new();
        for one in handed_over.iter_mut().filter(|one| is_due(one)) {
            (one.client, one.at) = (client, at);
            one.attempts += 1;
            all.push(one.clone());
        }
        if let Some(batch) = new {
            let last = batch.seqs.last().copied().unwrap_or_default();
            feeds.insert(batch.epoch.clone(), last);
            let mut message = SentMessage {
                batch,
                client,
                at,
                attempts: 1,
                n_lost: 0,
                place: Place::default(),
            };
            all.push(message.clone());
            // The next process that hands it over does not know whether this one has.
            message.batch.is_new = false;
            handed_over.push(message);
        }
        self.contents.budget = budget;
        all
    }

    /// Saves it, unless another process has taken it over. Returns whether it has not.
    pub(super) fn save_if_held(&self) -> io::Result<bool> {
        if !self.lock.is_linked()? {
            return Ok(false);
        }
        let fresh = self.path.with_extension("new");
        files::replace(&self.path, &fresh, &files::json_line(&self.contents)?)?;
        self.lock.is_linked()
    }

    /// Writes what was saved to the disk, on a thread of its own.
    pub(super) async fn sync(&self) {
        let path = self.path.clone();
        let sync = move || {
            files::open(&path)?.sync_data()?;
            path.parent().map_or(Ok(()), files::sync_folder)
        };
        let synced = spawn_blocking(sync).await;
        if let Err(error) = synced.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::warn!(%error, "the ledger was not synced");
        }
    }
}

#[cfg(test)]
mod tests;
