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
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::conversation::Conversation;
use super::outbox::Budget;
use super::transcript::{Message, Place, Reading};
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Millis, Seq};
use crate::paths::Paths;

/// How much of a transcript's end is read to find out whether a turn runs, in bytes, while no message
/// is looked for.
const TAIL: u64 = 1 << 20;

/// How long a process that is replaced may take to leave: one that was stopped does not leave.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// How often to try to get the ledger meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// How long it is kept how far a feed was handed over, in milliseconds, if the feed never says that
/// this was acknowledged.
const KEPT: Millis = 30 * 24 * 3_600_000;

/// How many messages that were given up are remembered.
const MAX_GIVEN_UP: usize = 20;

/// A message that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SentMessage {
    pub(super) epoch: String,
    pub(super) seqs: Vec<Seq>,
    /// The machine that it comes from; `None` for this one.
    #[serde(default)]
    pub(super) host: Option<String>,
    /// What no other message has: its id, or the line of its text with the id.
    pub(super) mark: String,
    /// What is printed to hand it over again.
    pub(super) text: String,
    /// The client's process, and when it started: while it lives, the message may be on its way.
    pub(super) client: Option<(u32, Millis)>,
    /// When it was handed over last, in milliseconds since 1970.
    pub(super) at: Millis,
    /// How often it was handed over.
    pub(super) attempts: u32,
    /// Where the transcript has it.
    pub(super) place: Place,
}

/// Records that need not be handed over any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettledRecords {
    pub(super) epoch: String,
    pub(super) seqs: Vec<Seq>,
    /// The machine that they come from; `None` for this one.
    pub(super) host: Option<String>,
}

/// How far a feed was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FeedMark {
    /// The last follow-up that was handed over, and with it all before it.
    last: Seq,
    /// The machine that the feed is on; `None` for this one.
    host: Option<String>,
    /// When it was handed over, in milliseconds since 1970.
    at: Millis,
}

/// What is known of a follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was never handed over.
    New,
    /// It is in a message that is not confirmed.
    HandedOver,
    /// It need not be handed over any more.
    Settled,
}

/// The file's contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Contents {
    handed_over: Vec<SentMessage>,
    /// Messages that are not handed over again. The conversation may get them after all.
    given_up: Vec<SentMessage>,
    /// By epoch, which no other feed of any machine has. A mark stays until the feed's consumer has
    /// passed it.
    feeds: BTreeMap<String, FeedMark>,
    budget: Budget,
    transcript: PathBuf,
    reading: Reading,
}

/// The ledger of a conversation. One process at a time has it.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    contents: Contents,
    /// The contents before the last hand-over.
    before: Contents,
    /// Held until this is dropped or the process ends.
    lock: File,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // A child that another thread is starting may have the file open for a moment longer.
        self.lock.unlock().unwrap_or_default();
    }
}

/// The place of the process that gets the ledger next.
#[derive(Debug)]
pub(super) struct NextInLine {
    lock: File,
}

impl Drop for NextInLine {
    fn drop(&mut self) {
        self.lock.unlock().unwrap_or_default();
    }
}

impl NextInLine {
    /// Takes the place; `None` when another process has it.
    pub(super) fn take(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        let lock = files::open_to_write(&file(paths, conversation, "next")?)?;
        Ok(lock.try_lock().is_ok().then_some(Self { lock }))
    }

    /// Tells the process that has the place to leave it. The place is free at once.
    pub(super) fn dismiss(paths: &Paths, conversation: &Conversation) -> io::Result<()> {
        match fs::remove_file(file(paths, conversation, "next")?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the ledger; `None` when this process was dismissed meanwhile.
    ///
    /// # Cancel safety
    ///
    /// A thread goes on waiting. It ends with the process.
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
        let lock = locked.await.map_err(io::Error::other)??;
        if !is_linked(&self.lock)? {
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
    /// Opens the ledger; `None` when another process has it.
    pub(super) fn open(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        let lock = files::open_to_write(&file(paths, conversation, "lock")?)?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        Self::load(paths, conversation, lock).map(Some)
    }

    /// Takes the ledger over from the process that has it, and that was told to leave.
    pub(super) async fn take_over(paths: &Paths, conversation: &Conversation) -> io::Result<Self> {
        let path = file(paths, conversation, "lock")?;
        let mut deadline = Instant::now() + LEAVES_WITHIN;
        loop {
            let lock = files::open_to_write(&path)?;
            if lock.try_lock().is_ok() && is_linked(&lock)? {
                return Self::load(paths, conversation, lock);
            }
            if Instant::now() >= deadline && is_linked(&lock)? {
                // When it goes on, it finds that it does not have the ledger any more.
                fs::remove_file(&path)?;
                deadline = Instant::now() + LEAVES_WITHIN;
            }
            sleep(TRY_EVERY).await;
        }
    }

    /// A file that cannot be parsed counts as empty: then a message may be delivered twice, but none is
    /// lost.
    fn load(paths: &Paths, conversation: &Conversation, lock: File) -> io::Result<Self> {
        let path = file(paths, conversation, "json")?;
        let contents = match files::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            path,
            contents,
            before: Contents::default(),
            lock,
        })
    }

    /// Returns how much of its budget the conversation has used.
    pub(super) fn budget(&self) -> Budget {
        self.contents.budget
    }

    /// Returns what was handed over and not confirmed.
    pub(super) fn handed_over(&self) -> &[SentMessage] {
        &self.contents.handed_over
    }

    /// Whether the client's model is answering, or a tool runs for it, as far as the transcript was
    /// read.
    pub(super) fn is_turn_running(&self) -> bool {
        self.contents.reading.is_turn_running
    }

    /// Returns what is known of a follow-up.
    pub(super) fn standing(&self, epoch: &str, seq: Seq) -> Standing {
        let is_in = |one: &SentMessage| one.epoch == epoch && one.seqs.contains(&seq);
        let is_passed = |feed: &FeedMark| seq <= feed.last;
        if self.contents.handed_over.iter().any(is_in) {
            Standing::HandedOver
        } else if self.contents.feeds.get(epoch).is_some_and(is_passed) {
            Standing::Settled
        } else {
            Standing::New
        }
    }

    /// Reads what the conversation's transcript has since the last time. Of another transcript than
    /// before, everything is read: it may begin with a copy.
    pub(super) fn read(&mut self, transcript: &Path) -> io::Result<()> {
        let contents = &mut self.contents;
        let all = contents.handed_over.iter_mut();
        let mut messages: Vec<Message<'_>> = all
            .chain(&mut contents.given_up)
            .map(|one| (one.mark.as_str(), &mut one.place))
            .collect();
        if contents.transcript != transcript {
            if !messages.is_empty() {
                read_file(&contents.transcript, &mut contents.reading, &mut messages)?;
            }
            transcript.clone_into(&mut contents.transcript);
            contents.reading = Reading::default();
        }
        read_file(transcript, &mut contents.reading, &mut messages)
    }

    /// Settles what the model has answered. Returns these records, and those that had been given up.
    pub(super) fn settle_answered(
        &mut self,
    ) -> io::Result<(Vec<SettledRecords>, Vec<SettledRecords>)> {
        let is_answered = |one: &mut SentMessage| one.place == Place::Answered;
        let settled = |list: &mut Vec<SentMessage>| -> Vec<_> {
            let answered = list.extract_if(.., is_answered);
            answered.map(SettledRecords::of).collect()
        };
        let late = settled(&mut self.contents.given_up);
        let answered = settled(&mut self.contents.handed_over);
        if !answered.is_empty() || !late.is_empty() {
            self.save()?;
        }
        Ok((answered, late))
    }

    /// Gives up these messages, which count as settled from now on.
    pub(super) fn give_up(&mut self, messages: &[SettledRecords]) -> io::Result<()> {
        let is_in = |one: &mut SentMessage| {
            let is_it = |other: &SettledRecords| one.epoch == other.epoch && one.seqs == other.seqs;
            messages.iter().any(is_it)
        };
        let hopeless = self.contents.handed_over.extract_if(.., is_in);
        for mut one in hopeless {
            one.text.clear();
            self.contents.given_up.push(one);
        }
        let n = self.contents.given_up.len();
        self.contents
            .given_up
            .drain(..n.saturating_sub(MAX_GIVEN_UP));
        self.save()
    }

    /// Settles a message; `None` if it is not known, or settled already. It is not saved.
    pub(super) fn settle(&mut self, mark: &str) -> Option<SettledRecords> {
        let is_it = |one: &mut SentMessage| one.mark == mark;
        let found = self.contents.handed_over.extract_if(.., is_it).next();
        found.map(SettledRecords::of)
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
        let Contents {
            handed_over,
            given_up,
            feeds,
            ..
        } = &mut self.contents;
        feeds.retain(|of, feed| of != epoch || feed.last > cursor);
        // A feed of another machine may be read in two ways, and one of them may be behind.
        if host.is_some() {
            return;
        }
        let is_there = |one: &SentMessage| {
            let is_in = one.seqs.last().is_some_and(|seq| *seq <= last);
            one.host.is_some() || one.epoch == epoch && is_in
        };
        handed_over.retain(is_there);
        given_up.retain(is_there);
        feeds.retain(|of, feed| feed.host.is_some() || of == epoch);
        if let Some(feed) = feeds.get_mut(epoch) {
            feed.last = feed.last.min(last);
        }
    }

    /// Forgets how far the feeds of another machine were handed over, which has forgotten the
    /// conversation.
    pub(super) fn forget_host(&mut self, host: &str) {
        let is_of_host = |feed: &FeedMark| feed.host.as_deref() == Some(host);
        self.contents.feeds.retain(|_, feed| !is_of_host(feed));
    }

    /// Adds a message that is to be handed over. It is not saved.
    pub(super) fn add(&mut self, message: SentMessage, budget: Budget) {
        let Contents {
            handed_over, feeds, ..
        } = &mut self.contents;
        let mark = FeedMark {
            last: message.seqs.last().copied().unwrap_or_default(),
            host: message.host.clone(),
            at: message.at,
        };
        feeds.retain(|_, feed| message.at.saturating_sub(feed.at) < KEPT);
        feeds.insert(message.epoch.clone(), mark);
        handed_over.push(message);
        self.contents.budget = budget;
    }

    /// Notes that the messages for which `is_due` holds are about to be handed over again, and then a
    /// new one. Returns what is to be printed.
    pub(super) fn hand_over(
        &mut self,
        is_due: impl Fn(&SentMessage) -> bool,
        new: Option<SentMessage>,
        (client, at): (Option<(u32, Millis)>, Millis),
        budget: Budget,
    ) -> io::Result<String> {
        self.before = self.contents.clone();
        let mut text = String::new();
        for one in &mut self.contents.handed_over {
            if is_due(one) {
                (one.client, one.at) = (client, at);
                one.attempts += 1;
                text.push_str(&one.text);
            }
        }
        if let Some(new) = new {
            text.push_str(&new.text);
            self.add(new, budget);
        }
        self.save()?;
        Ok(text)
    }

    /// Takes back the last hand-over: the messages were not read.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.contents = std::mem::take(&mut self.before);
        self.save()
    }

    /// Saves the ledger, as [`Ledger::save`] does, unless another process has taken it over. Returns
    /// whether it has not.
    pub(super) fn save_if_held(&self) -> io::Result<bool> {
        if !is_linked(&self.lock)? {
            return Ok(false);
        }
        self.save()?;
        is_linked(&self.lock)
    }

    /// Writes what was saved to the disk, on a thread of its own: after a crash of the machine too it is
    /// known then.
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

    fn save(&self) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(&self.contents).map_err(io::Error::from)?;
        bytes.push(b'\n');
        let fresh = self.path.with_extension("new");
        files::replace(&self.path, &fresh, &bytes)
    }
}

/// Whether the file has not been removed.
fn is_linked(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

impl SettledRecords {
    pub(super) fn of(message: SentMessage) -> Self {
        let SentMessage {
            epoch, seqs, host, ..
        } = message;
        Self { epoch, seqs, host }
    }
}

/// Reads on in a transcript. A missing one is empty, and one that was replaced by a shorter one is read
/// from its beginning.
fn read_file(path: &Path, reading: &mut Reading, messages: &mut [Message<'_>]) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length < reading.offset {
        *reading = Reading::default();
    }
    let skips = messages.is_empty() && length - reading.offset > TAIL;
    if skips {
        reading.offset = length - TAIL;
    }
    file.seek(SeekFrom::Start(reading.offset))?;
    let mut file = BufReader::new(file);
    if skips {
        // The first line is cut.
        reading.offset += file.skip_until(b'\n')? as u64;
    }
    reading.read(file, messages)?;
    Ok(())
}

#[cfg(test)]
mod tests;
