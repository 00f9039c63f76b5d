//! The readers of a feed: who reads, as which consumer, and how far each has read or acknowledged.
//!
//! All of it is in memory; a thread saves what changed. Only requests to create or remove a consumer wait
//! for the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use super::archive::start_thread;
use super::position::Position;
use crate::clock;
use crate::config::FeedConfig;
use crate::model::{AgeClock, Error, FEED_VERSION, Millis, Seq};
use crate::rules::wire::{
    ConsumeRequest, ConsumerAudience, ConsumerList, ConsumerStatus, SavedConsumer,
    check_consumer_name,
};
use crate::store::feed::{
    DamagedFile, FeedFiles, Holder, consumers_of, last_reader_of, load_consumers, note_read,
    remove_consumer, store_consumer, sync_consumers,
};

/// How long a new reader waits for the present one, which may have been killed an instant ago.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

/// After how many left-out records a position is saved: they need not be read again.
const SAVE_EVERY: Seq = 1000;

/// How often it is noted that a consumer is being read, in milliseconds.
const NOTE_USE_EVERY: Millis = 3_600_000;

/// How often a present reader is noted, so that its session does not count as unused.
const NOTE_READING_EVERY: Duration = Duration::from_secs(60);

/// How long to wait before a disk that refused is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Consumers {
    pub(super) epoch: String,
    ages: AgeClock,
    /// Says when the feed was last read, and up to which follow-up: start-up scans of other daemons use it.
    last_reader: PathBuf,
    state: Mutex<ConsumerTable>,
    work: Condvar,
    /// Notified when the thread has saved what it could.
    saved: Notify,
    left: Notify,
}

/// The consumers, and what is to be done about them on the disk.
#[derive(Debug, Default)]
struct ConsumerTable {
    consumers: BTreeMap<String, Consumer>,
    /// Consumers whose files are to be removed, before anything is saved.
    removed: BTreeSet<String>,
    /// The number of the last lease or reader.
    last_number: u64,
    /// The readers that are there, by number: for whom each reads.
    present: BTreeMap<u64, ConsumerAudience>,
    /// The sequence number of the last follow-up that was written to one of them; 0 for none.
    last_follow_up: Seq,
    /// Whether it is to be noted that the feed is read.
    is_read: bool,
    /// Why the disk refused last; `None` while it accepts everything.
    problem: Option<String>,
    /// Set when the daemon leaves: the thread saves once more, answers and ends.
    closing: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct Consumer {
    /// What its file has, but for the position.
    record: SavedConsumer,
    position: Position,
    /// The cursor in the file; `None` while there is no file.
    saved: Option<Seq>,
    is_dirty: bool,
    reader: Option<ReaderOf>,
}

#[derive(Debug)]
struct ReaderOf {
    lease: u64,
    pid: Option<u32>,
    /// Its acknowledgements that are not confirmed yet.
    acknowledged: Vec<Seq>,
    /// Why its stream ends: it has sent something that is no acknowledgement of a record.
    refusal: Option<Error>,
    /// Notified when there is something to tell it.
    changed: Arc<Notify>,
}

impl Consumers {
    /// Returns the consumers as they were saved. Their cursors are cut to the feed's last record.
    pub(super) fn new(
        feed: &Path,
        epoch: &str,
        last_seq: Seq,
        saved: Vec<SavedConsumer>,
        ages: AgeClock,
    ) -> Self {
        let mut state = ConsumerTable::default();
        let now = ages.at(clock::since_boot());
        for mut record in saved {
            let cursor = record.cursor_in(epoch, last_seq);
            let is_same = record.epoch == epoch;
            let is_moved = !is_same || cursor != record.cursor;
            if is_moved {
                tracing::warn!(
                    consumer = record.name,
                    from = record.cursor,
                    to = cursor,
                    "the feed has changed: the consumer's cursor is set back"
                );
            }
            let left_out = record.first_left_out;
            let left_out = left_out.filter(|seq| is_same && *seq <= cursor);
            // With a time that is yet to come, it counts as used now.
            let is_early = record.used_after > now;
            record.used_after = record.used_after.min(now);
            epoch.clone_into(&mut record.epoch);
            let consumer = Consumer {
                position: Position::new(cursor, left_out),
                saved: Some(cursor),
                is_dirty: is_moved || is_early,
                reader: None,
                record,
            };
            let name = consumer.record.name.clone();
            state.consumers.insert(name, consumer);
        }
        Self {
            epoch: epoch.to_owned(),
            ages,
            last_reader: last_reader_of(feed),
            state: Mutex::new(state),
            work: Condvar::new(),
            saved: Notify::new(),
            left: Notify::new(),
        }
    }

    /// Loads the consumers of a feed from their folder and starts the thread that saves them.
    pub(super) fn start(
        feed: &Path,
        epoch: &str,
        last_seq: Seq,
        ages: AgeClock,
    ) -> io::Result<Arc<Self>> {
        let folder = consumers_of(feed);
        let saved = load(&folder);
        let consumers = Arc::new(Self::new(feed, epoch, last_seq, saved, ages));
        let kept = Arc::clone(&consumers);
        start_thread("consumers", move || kept.keep_saved(&folder))?;
        Ok(consumers)
    }

    fn keep_saved(&self, folder: &Path) {
        loop {
            let is_idle = |state: &mut ConsumerTable| {
                !state.has_work() && !state.is_read && state.closing.is_none()
            };
            let state = self.state();
            let patience = match state.present.is_empty() {
                true => Duration::MAX,
                false => NOTE_READING_EVERY,
            };
            let waited = self.work.wait_timeout_while(state, patience, is_idle);
            let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            let is_read = state.is_read || waited.timed_out() && !state.present.is_empty();
            let has_work = state.has_work();
            let closing = state.closing.take();
            drop(state);
            if is_read {
                self.note_reading();
            }
            if has_work {
                self.save(folder);
            }
            if let Some(closing) = closing {
                // Whoever asked may have given up waiting.
                closing.send(()).unwrap_or_default();
                return;
            }
            if self.problem().is_some() {
                // An early wake-up only tries early.
                drop(self.work.wait_timeout(self.state(), RETRY_AFTER));
            }
        }
    }

    /// Saves and removes what has changed, with one sync of the folder for all of it.
    fn save(&self, folder: &Path) {
        let (mut removals, saves) = self.state().take_work();
        let mut problem = None;
        let mut is_done = |outcome: io::Result<()>| match outcome {
            Ok(()) => true,
            Err(error) => {
                problem.get_or_insert(error.to_string());
                false
            }
        };
        removals.retain(|name| is_done(remove_consumer(folder, name)));
        let mut stored = Vec::new();
        for saved in &saves {
            stored.push(is_done(store_consumer(folder, saved)));
        }
        let is_synced = is_done(sync_consumers(folder));
        let mut state = self.state();
        if is_synced {
            state.removed.retain(|name| !removals.contains(name));
        }
        for (saved, is_stored) in saves.iter().zip(stored) {
            state.settle(saved, is_synced && is_stored);
        }
        if problem.is_some() != state.problem.is_some() {
            match &problem {
                Some(why) => tracing::error!(why, "consumers cannot be saved"),
                None => tracing::info!("consumers can be saved again"),
            }
        }
        state.problem = problem;
        self.saved.notify_waiters();
    }

    pub(super) fn begin_reading(self: &Arc<Self>, audience: ConsumerAudience) -> Reading {
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        state.present.insert(number, audience);
        state.is_read = true;
        drop(state);
        self.work.notify_one();
        Reading {
            consumers: Arc::clone(self),
            number,
        }
    }

    pub(crate) fn n_readers(&self) -> usize {
        self.state().present.len()
    }

    /// Returns for which owners messages are read now; `None` for all owners.
    pub(super) fn owners_read_for(&self) -> Vec<Option<String>> {
        let state = self.state();
        let of_messages = state.present.values().filter(|one| one.follow_ups);
        of_messages.map(|one| one.owners.first().cloned()).collect()
    }

    /// Stores that the feed is read now, and up to which follow-up.
    pub(super) fn note_reading(&self) {
        let seq = {
            let mut state = self.state();
            state.is_read = false;
            state.last_follow_up
        };
        let now = self.ages.at(clock::since_boot());
        if let Err(error) = note_read(&self.last_reader, &self.epoch, seq, now) {
            tracing::warn!(%error, "could not note that the feed is read");
        }
    }

    /// Resolves when the disk has what makes this true; the error is why it refused.
    async fn on_disk(&self, is_done: impl Fn(&ConsumerTable) -> bool) -> Result<(), String> {
        loop {
            // From here on it is notified, also before it is awaited.
            let saved = self.saved.notified();
            if is_done(&self.state()) {
                return Ok(());
            }
            saved.await;
            let state = self.state();
            if let Some(why) = &state.problem
                && !is_done(&state)
            {
                return Err(why.clone());
            }
        }
    }

    /// Makes the process `pid` the reader of a consumer. A consumer that does not exist is created, which
    /// is durable when this resolves; `last_seq` is the feed's last record. If the future is dropped, the
    /// consumer has no reader, and may have been created.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        request: &ConsumeRequest,
        pid: Option<u32>,
        last_seq: Seq,
    ) -> Result<Lease, Error> {
        let name = &request.name;
        check_consumer_name(name).map_err(Error::usage)?;
        let deadline = Instant::now() + LEAVES_WITHIN;
        let lease = loop {
            let left = self.left.notified();
            match self.try_lease(request, pid, last_seq) {
                Ok(lease) => break lease,
                Err(reader) => {
                    if timeout_at(deadline, left).await.is_err() {
                        return Err(is_read(name, reader)
                            .with_hint("`--take-over` ends its stream and reads in its place"));
                    }
                }
            }
        };
        let has_file = |state: &ConsumerTable| {
            let consumer = state.consumers.get(name);
            consumer.is_none_or(|one| one.saved.is_some())
        };
        let failed = |why| Error::failed(format!("could not create consumer `{name}`: {why}"));
        self.on_disk(has_file).await.map_err(failed)?;
        Ok(lease)
    }

    /// Returns the lease; the error is the present reader's pid.
    fn try_lease(
        self: &Arc<Self>,
        request: &ConsumeRequest,
        pid: Option<u32>,
        last_seq: Seq,
    ) -> Result<Lease, Option<u32>> {
        let state = &mut *self.state();
        let create = || {
            state.removed.remove(&request.name);
            let cursor = if request.from_now { last_seq } else { 0 };
            Consumer {
                record: SavedConsumer {
                    v: FEED_VERSION,
                    name: request.name.clone(),
                    epoch: self.epoch.clone(),
                    created_at: clock::now().wall,
                    ..SavedConsumer::default()
                },
                position: Position::new(cursor, None),
                saved: None,
                is_dirty: true,
                reader: None,
            }
        };
        let name = request.name.clone();
        let consumer = state.consumers.entry(name).or_insert_with(create);
        if let Some(reader) = &consumer.reader {
            if !request.take_over {
                return Err(reader.pid);
            }
            reader.changed.notify_one();
        }
        state.last_number += 1;
        let changed = Arc::new(Notify::new());
        consumer.reader = Some(ReaderOf {
            lease: state.last_number,
            pid,
            acknowledged: Vec::new(),
            refusal: None,
            changed: Arc::clone(&changed),
        });
        consumer.position.rewind();
        consumer.record.audience = request.filter.audience();
        self.note_use(consumer);
        Ok(Lease {
            consumers: Arc::clone(self),
            name: request.name.clone(),
            id: state.last_number,
            cursor: consumer.position.cursor,
            changed,
        })
    }

    /// Forgets a consumer; it is gone from the disk when this resolves.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        {
            let mut state = self.state();
            let Some(consumer) = state.consumers.get(name) else {
                let name = name.escape_debug();
                return Err(Error::missing(format!("no consumer `{name}`")));
            };
            if let Some(reader) = &consumer.reader {
                return Err(is_read(name, reader.pid).with_hint("end that process first"));
            }
            state.consumers.remove(name);
            state.removed.insert(name.to_owned());
        }
        self.work.notify_one();
        let failed = |why| Error::failed(format!("could not remove consumer `{name}`: {why}"));
        let is_removed = |state: &ConsumerTable| !state.removed.contains(name);
        self.on_disk(is_removed).await.map_err(failed)
    }

    /// Returns the consumers of a feed with these files, by name.
    pub(super) fn list(&self, last_seq: Seq, files: &FeedFiles, kept: &FeedConfig) -> ConsumerList {
        let now = self.ages.at(clock::since_boot());
        let state = self.state();
        let status = |(name, consumer): (&String, &Consumer)| ConsumerStatus {
            name: name.clone(),
            cursor: consumer.position.cursor,
            lag: last_seq.saturating_sub(consumer.position.cursor),
            held_bytes: kept.held_bytes(files, &consumer.holder(now), now),
            reader: consumer.reader.as_ref().and_then(|reader| reader.pid),
            created_at: consumer.record.created_at,
            used_at: consumer.record.used_at,
            audience: consumer.record.audience.clone(),
        };
        ConsumerList {
            epoch: Some(self.epoch.clone()).filter(|epoch| !epoch.is_empty()),
            first_seq: files.first_seq(),
            last_seq,
            feed_bytes: files.bytes(),
            consumers: state.consumers.iter().map(status).collect(),
        }
    }

    /// Returns what retention takes into account. That one is being read is noted for the next daemon.
    pub(super) fn holders(&self) -> Vec<Holder> {
        let now = self.ages.at(clock::since_boot());
        let mut state = self.state();
        let holders = state.consumers.values_mut().map(|consumer| {
            if consumer.reader.is_some() && now - consumer.record.used_after > NOTE_USE_EVERY {
                self.note_use(consumer);
            }
            consumer.holder(now)
        });
        holders.collect()
    }

    /// Returns why consumers cannot be saved; `None` while they can.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.state();
        // What could not be created is not tried again.
        let why = state.problem.as_ref().filter(|_| state.has_work())?;
        Some(format!("could not save consumers: {why}"))
    }

    /// Resolves when every position is saved, or was refused; nothing is saved afterwards.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        {
            let mut state = self.state();
            for consumer in state.consumers.values_mut() {
                consumer.is_dirty |= consumer.saved != Some(consumer.position.cursor);
            }
            state.is_read |= !state.present.is_empty();
            state.closing = Some(done);
        }
        self.work.notify_one();
        // Without an answer the thread has gone.
        drop(closed.await);
    }

    /// Notes that a consumer is used now, and has it saved.
    fn note_use(&self, consumer: &mut Consumer) {
        consumer.record.used_at = clock::now().wall;
        consumer.record.used_after = self.ages.at(clock::since_boot());
        consumer.is_dirty = true;
        self.work.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, ConsumerTable> {
        // Nothing is left half done where it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_read(name: &str, reader: Option<u32>) -> Error {
    let by = reader.map(|pid| format!("process {pid}"));
    let by = by.as_deref().unwrap_or("another process");
    Error::failed(format!("consumer `{name}` is being read by {by}"))
}

impl Consumer {
    fn holder(&self, now: Millis) -> Holder {
        let is_read = self.reader.is_some();
        Holder {
            cursor: self.position.cursor,
            used_at: if is_read { now } else { self.record.used_after },
        }
    }
}

impl ConsumerTable {
    fn has_work(&self) -> bool {
        !self.removed.is_empty() || self.consumers.values().any(|consumer| consumer.is_dirty)
    }

    /// Returns what is to be removed and saved. Acknowledgements during a sync are covered by the next one.
    fn take_work(&mut self) -> (BTreeSet<String>, Vec<SavedConsumer>) {
        let dirty = self.consumers.values_mut().filter(|one| one.is_dirty);
        let saves = dirty.map(|consumer| {
            consumer.is_dirty = false;
            SavedConsumer {
                cursor: consumer.position.cursor,
                first_left_out: consumer.position.first_left_out,
                ..consumer.record.clone()
            }
        });
        (self.removed.clone(), saves.collect())
    }

    /// Notes whether this is on the disk: what it covers is confirmed then.
    fn settle(&mut self, saved: &SavedConsumer, is_saved: bool) {
        let consumer = self.consumers.get_mut(&saved.name);
        // Not for a later one of its name.
        let consumer = consumer.filter(|one| one.record.created_at == saved.created_at);
        let Some(consumer) = consumer else { return };
        if !is_saved {
            consumer.is_dirty = true;
            return;
        }
        consumer.saved = Some(saved.cursor);
        if let Some(reader) = &consumer.reader
            && !reader.acknowledged.is_empty()
        {
            reader.changed.notify_one();
        }
    }
}

/// Returns the consumers in this folder. What cannot be read is kept under another name.
fn load(folder: &Path) -> Vec<SavedConsumer> {
    // A daemon that was killed may not have synced the folder, and what is removed depends on it.
    if let Err(error) = sync_consumers(folder) {
        tracing::warn!(%error, "could not sync the folder of consumers");
    }
    let loaded = load_consumers(folder).unwrap_or_else(|error| {
        tracing::error!(%error, folder = %folder.display(), "could not read the consumers");
        Vec::new()
    });
    let usable = loaded.into_iter().filter_map(|consumer| {
        let lost = "the consumer's position is lost: it starts again at the first record";
        let set_aside = |damaged: &DamagedFile| damaged.set_aside(lost);
        consumer.inspect_err(set_aside).ok()
    });
    usable.collect()
}

/// One reader. Dropping it decreases the number of readers.
#[derive(Debug)]
pub(super) struct Reading {
    consumers: Arc<Consumers>,
    number: u64,
}

impl Reading {
    /// Notes that all follow-ups up to this one were written to this reader.
    pub(super) fn has_read(&self, follow_up: Seq) {
        let mut state = self.consumers.state();
        if state.last_follow_up < follow_up {
            state.last_follow_up = follow_up;
            state.is_read = true;
            self.consumers.work.notify_one();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.consumers.state().present.remove(&self.number);
    }
}

/// The right to read as a consumer. Dropping it lets another process read.
#[derive(Debug)]
pub(crate) struct Lease {
    consumers: Arc<Consumers>,
    name: String,
    id: u64,
    /// The last record that was acknowledged when the lease began.
    pub(crate) cursor: Seq,
    changed: Arc<Notify>,
}

impl Lease {
    /// Acknowledges this record and all before it. The confirmation is sent when that is durable.
    pub(crate) fn acknowledge(&self, seq: Seq) {
        self.update(|consumer| {
            consumer.position.acknowledge(seq);
            self.consumers.note_use(consumer);
            if let Some(reader) = &mut consumer.reader {
                let waiting = &mut reader.acknowledged;
                let is_full = waiting.len() >= MOST_UNCONFIRMED;
                let last = waiting.pop_if(|_| is_full).unwrap_or_default();
                waiting.push(seq.max(last));
            }
        });
    }

    pub(crate) fn refuse(&self, refusal: Error) {
        self.update(|consumer| {
            if let Some(reader) = &mut consumer.reader {
                reader.refusal.get_or_insert(refusal);
            }
        });
        self.changed.notify_one();
    }

    /// Takes the confirmations to be sent, and returns why the stream ends, if it does.
    pub(super) fn take_replies(&self) -> (Vec<Seq>, Option<StreamEnd>) {
        let mut replies = (Vec::new(), Some(StreamEnd::Replaced));
        self.update(|consumer| {
            if let (Some(reader), saved) = (&mut consumer.reader, consumer.saved) {
                let is_durable = |seq: &mut Seq| Some(*seq) <= saved;
                let confirmed = reader.acknowledged.extract_if(.., is_durable).collect();
                replies = (confirmed, reader.refusal.clone().map(StreamEnd::Refused));
            }
        });
        replies
    }

    /// Resolves when there is something to send. Nothing is lost when the future is dropped.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Marks the records `from` to `to` as sent: one record, or a gap in the feed.
    pub(super) fn sent(&self, from: Seq, to: Seq) {
        self.update(|consumer| consumer.position.sent(from, to));
    }

    pub(super) fn left_out(&self, seq: Seq, is_follow_up: bool) {
        self.update(|consumer| {
            consumer.position.left_out(seq, is_follow_up);
            let saved = consumer.saved.unwrap_or_default();
            if consumer.position.cursor >= saved + SAVE_EVERY && !consumer.is_dirty {
                consumer.is_dirty = true;
                self.consumers.work.notify_one();
            }
        });
    }

    fn update(&self, change: impl FnOnce(&mut Consumer)) {
        if let Some(consumer) = self.read_in(&mut self.consumers.state()) {
            change(consumer);
        }
    }

    /// Returns the consumer, unless another reader has taken it over.
    fn read_in<'a>(&self, state: &'a mut ConsumerTable) -> Option<&'a mut Consumer> {
        let consumer = state.consumers.get_mut(&self.name)?;
        let reader = consumer.reader.as_ref()?;
        (reader.lease == self.id).then_some(consumer)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.consumers.state();
        let Some(consumer) = self.read_in(&mut state) else {
            return;
        };
        if consumer.saved.is_some() {
            consumer.reader = None;
            self.consumers.note_use(consumer);
        } else {
            // It could not be created.
            state.consumers.remove(&self.name);
        }
        drop(state);
        self.consumers.left.notify_waiters();
    }
}

/// How many confirmations may wait for a reader. Of more, only the last is kept, which covers the others.
const MOST_UNCONFIRMED: usize = 1024;

/// Why the daemon ends a consumer's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Another reader took the consumer over.
    Replaced,
    /// The reader sent something that is no acknowledgement of a record.
    Refused(Error),
}

#[cfg(test)]
mod tests;
