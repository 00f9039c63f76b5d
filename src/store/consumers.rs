//! The consumers of a feed: who reads as which consumer, and how far each has acknowledged.
//!
//! All of it is in memory; a thread saves what changed. Only requests to create or remove a consumer wait
//! for the disk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

use super::position::Position;
use crate::clock;
use crate::model::{AgeClock, Error, Millis, Seq};
use crate::store::feed::{FeedFiles, Holder, Retention};
use crate::wire::{
    ConsumeRequest, ConsumerAudience, ConsumerList, ConsumerStatus, SavedConsumer,
    check_consumer_name,
};

/// How long a new reader waits for the present one to leave before it is refused. The present one may
/// have been killed an instant ago, with its harness.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

/// After how many left-out records a position is saved without an acknowledgement: a reader that
/// comes back need not have all of them read again.
const SAVE_EVERY: Seq = 1000;

/// How often it is noted that a consumer is being read, in milliseconds.
const NOTE_USE_EVERY: Millis = 3_600_000;

/// The version of a consumer's file.
const VERSION: u32 = 1;

/// The result of saving or removing a consumer, for the one who asked; the error is one line.
pub(super) type SaveResult = Result<(), String>;

/// The consumers of one feed.
#[derive(Debug)]
pub(crate) struct Consumers {
    /// The feed's epoch.
    pub(super) epoch: String,
    /// The feed's clock.
    ages: AgeClock,
    state: Mutex<ConsumerTable>,
    /// Wakes the thread that saves.
    pub(super) work: Condvar,
    /// Notified when a reader leaves.
    left: Notify,
}

/// The consumers, and what is to be done about them on the disk.
#[derive(Debug, Default)]
pub(super) struct ConsumerTable {
    consumers: BTreeMap<String, Consumer>,
    /// Consumers whose files are to be removed, before anything is saved.
    removed: Vec<(String, oneshot::Sender<SaveResult>)>,
    /// The number of the last lease.
    last_lease: u64,
    /// Why consumers cannot be saved; `None` while they can.
    pub(super) problem: Option<String>,
    /// Set when the daemon leaves: the thread saves once more, answers and ends.
    pub(super) closing: Option<oneshot::Sender<()>>,
}

/// When a consumer is used.
#[derive(Debug, Clone, Copy)]
struct UseTime {
    /// In milliseconds since 1970.
    wall: Millis,
    /// By the feed's clock.
    counted: Millis,
}

#[derive(Debug)]
struct Consumer {
    /// What its file has, but for the position.
    record: SavedConsumer,
    position: Position,
    /// The cursor in the file; `None` while there is no file.
    saved: Option<Seq>,
    /// Whether it is to be saved now.
    is_dirty: bool,
    reader: Option<ReaderOf>,
    /// Those who wait until it is saved.
    waiting: Vec<oneshot::Sender<SaveResult>>,
}

/// The present reader of a consumer.
#[derive(Debug)]
struct ReaderOf {
    lease: u64,
    pid: Option<u32>,
    /// Its acknowledgements that are not saved yet.
    acknowledged: VecDeque<Seq>,
    /// Those that are saved, to be confirmed.
    confirmed: VecDeque<Seq>,
    /// Why its stream ends: it has sent something that is no acknowledgement of a record.
    refusal: Option<Error>,
    /// Notified when there is something to tell it.
    changed: Arc<Notify>,
}

/// What the thread does at once: all of it needs one sync of the folder.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) removals: Vec<(String, oneshot::Sender<SaveResult>)>,
    pub(super) saves: Vec<SavedConsumer>,
}

impl Consumers {
    /// Returns the consumers of the feed with this epoch, as they were saved. Their cursors are cut
    /// to `last_seq`, the feed's last record: what comes behind it is new.
    pub(super) fn new(
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
            let first_left_out = record.first_left_out;
            let first_left_out = first_left_out.filter(|seq| is_same && *seq <= cursor);
            // With a time that is yet to come, it counts as used now.
            let is_early = record.used_after > now;
            record.used_after = record.used_after.min(now);
            epoch.clone_into(&mut record.epoch);
            let name = record.name.clone();
            let consumer = Consumer {
                saved: Some(cursor),
                is_dirty: is_moved || is_early,
                ..Consumer::of(record, Position::new(cursor, first_left_out))
            };
            state.consumers.insert(name, consumer);
        }
        Self {
            epoch: epoch.to_owned(),
            ages,
            state: Mutex::new(state),
            work: Condvar::new(),
            left: Notify::new(),
        }
    }

    /// Makes the process `pid` the reader of a consumer. A consumer that does not exist is created,
    /// which is durable when this resolves; `last_seq` is the feed's last record.
    ///
    /// # Errors
    ///
    /// When another process reads as this consumer and is not to be replaced, or the consumer cannot
    /// be created.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the consumer has no reader. It may have been created.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        request: &ConsumeRequest,
        pid: Option<u32>,
        last_seq: Seq,
    ) -> Result<Lease, Error> {
        let name = &request.name;
        check_consumer_name(name).map_err(Error::usage)?;
        let deadline = Instant::now() + LEAVES_WITHIN;
        let (lease, created) = loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            match self.try_lease(request, pid, last_seq) {
                Ok(leased) => break leased,
                Err(reader) => {
                    if timeout_at(deadline, left).await.is_err() {
                        return Err(is_read(name, reader)
                            .with_hint("`--take-over` ends its stream and reads in its place"));
                    }
                }
            }
        };
        if let Some(created) = created
            && let Ok(Err(why)) = created.await
        {
            let message = format!("could not create consumer `{name}`: {why}");
            return Err(Error::failed(message));
        }
        Ok(lease)
    }

    /// Returns the lease, and what resolves when a consumer that was created is saved; the error is
    /// the present reader's pid.
    fn try_lease(
        self: &Arc<Self>,
        request: &ConsumeRequest,
        pid: Option<u32>,
        last_seq: Seq,
    ) -> Result<(Lease, Option<oneshot::Receiver<SaveResult>>), Option<u32>> {
        let now = self.now();
        let mut state = self.state();
        state.last_lease += 1;
        let id = state.last_lease;
        let start = if request.from_now { last_seq } else { 0 };
        let consumer = state
            .consumers
            .entry(request.name.clone())
            .or_insert_with(|| {
                let record = SavedConsumer {
                    v: VERSION,
                    name: request.name.clone(),
                    epoch: self.epoch.clone(),
                    cursor: start,
                    first_left_out: None,
                    created_at: now.wall,
                    used_at: now.wall,
                    used_after: now.counted,
                    audience: ConsumerAudience::default(),
                };
                Consumer::of(record, Position::new(start, None))
            });
        if let Some(reader) = &consumer.reader {
            if !request.take_over {
                return Err(reader.pid);
            }
            reader.changed.notify_one();
        }
        let changed = Arc::new(Notify::new());
        consumer.reader = Some(ReaderOf {
            lease: id,
            pid,
            acknowledged: VecDeque::new(),
            confirmed: VecDeque::new(),
            refusal: None,
            changed: Arc::clone(&changed),
        });
        consumer.position.rewind();
        consumer.record.audience = request.filter.audience();
        consumer.use_at(now);
        let cursor = consumer.position.cursor();
        let created = consumer.saved.is_none().then(|| {
            let (saved, is_saved) = oneshot::channel();
            consumer.waiting.push(saved);
            is_saved
        });
        drop(state);
        self.work.notify_one();
        let lease = Lease {
            consumers: Arc::clone(self),
            name: request.name.clone(),
            id,
            cursor,
            changed,
        };
        Ok((lease, created))
    }

    /// Forgets a consumer; it is gone from the disk when this resolves.
    ///
    /// # Errors
    ///
    /// When there is none of this name, a process reads as it, or its file cannot be removed.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        let (removed, is_removed) = oneshot::channel();
        {
            let mut state = self.state();
            let Some(consumer) = state.consumers.get(name) else {
                let message = format!("no consumer `{}`", name.escape_debug());
                return Err(Error::missing(message));
            };
            if let Some(reader) = &consumer.reader {
                return Err(is_read(name, reader.pid).with_hint("end that process first"));
            }
            state.consumers.remove(name);
            state.removed.push((name.to_owned(), removed));
        }
        self.work.notify_one();
        match is_removed.await {
            Ok(Err(why)) => {
                let message = format!("could not remove consumer `{name}`: {why}");
                Err(Error::failed(message))
            }
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    }

    /// Returns the consumers of a feed with these files by name, with how far each is behind the feed's last
    /// record and how many bytes are kept only for it.
    pub(super) fn list(
        &self,
        last_seq: Seq,
        files: &FeedFiles,
        retention: &Retention,
    ) -> ConsumerList {
        let now = self.now().counted;
        let state = self.state();
        let status = |(name, consumer): (&String, &Consumer)| ConsumerStatus {
            name: name.clone(),
            cursor: consumer.position.cursor(),
            lag: last_seq.saturating_sub(consumer.position.cursor()),
            held_bytes: retention.held_bytes(files, &consumer.holder(), now),
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

    /// Returns the consumers as retention takes them into account. Those that are being read count as
    /// used now, also for the next daemon if this one is killed.
    pub(super) fn holders(&self) -> Vec<Holder> {
        let now = self.now();
        let mut state = self.state();
        let mut has_work = false;
        for consumer in state.consumers.values_mut() {
            if consumer.reader.is_some()
                && now.counted - consumer.record.used_after > NOTE_USE_EVERY
            {
                consumer.use_at(now);
                has_work = true;
            }
        }
        let holders = state.consumers.values().map(Consumer::holder).collect();
        drop(state);
        if has_work {
            self.work.notify_one();
        }
        holders
    }

    /// Returns why consumers cannot be saved; `None` while they can.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.state();
        // What could not be created is not tried again.
        state.problem.clone().filter(|_| state.has_work())
    }

    /// Resolves when every position is saved, or was refused; nothing is saved afterwards.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.begin_to_close(done);
        // Without an answer the thread has gone.
        drop(closed.await);
    }

    fn begin_to_close(&self, done: oneshot::Sender<()>) {
        let mut state = self.state();
        for consumer in state.consumers.values_mut() {
            consumer.is_dirty |= consumer.saved != Some(consumer.position.cursor());
        }
        state.closing = Some(done);
        drop(state);
        self.work.notify_one();
    }

    fn now(&self) -> UseTime {
        UseTime {
            wall: clock::now().wall,
            counted: self.ages.at(clock::since_boot()),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ConsumerTable> {
        // Nothing is left half done where it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_read(name: &str, reader: Option<u32>) -> Error {
    let by = reader.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    );
    let message = format!("consumer `{name}` is being read by {by}");
    Error::failed(message)
}

impl Consumer {
    fn holder(&self) -> Holder {
        Holder {
            cursor: self.position.cursor(),
            used_at: self.record.used_after,
            is_read: self.reader.is_some(),
        }
    }

    /// Returns one that has no file yet.
    fn of(record: SavedConsumer, position: Position) -> Self {
        Self {
            record,
            position,
            saved: None,
            is_dirty: true,
            reader: None,
            waiting: Vec::new(),
        }
    }

    /// Notes that it is used now.
    fn use_at(&mut self, now: UseTime) {
        self.record.used_at = now.wall;
        self.record.used_after = now.counted;
        self.is_dirty = true;
    }
}

impl ConsumerTable {
    /// Whether there is something to save or remove.
    pub(super) fn has_work(&self) -> bool {
        !self.removed.is_empty() || self.consumers.values().any(|consumer| consumer.is_dirty)
    }

    /// Takes everything that is to be saved and removed, each consumer once: the acknowledgements
    /// that came during a sync are covered by the next one.
    pub(super) fn take_batch(&mut self) -> Batch {
        let removals = std::mem::take(&mut self.removed);
        let dirty = self.consumers.values_mut().filter(|one| one.is_dirty);
        let saves = dirty.map(|consumer| {
            consumer.is_dirty = false;
            SavedConsumer {
                cursor: consumer.position.cursor(),
                first_left_out: consumer.position.first_left_out(),
                ..consumer.record.clone()
            }
        });
        let saves = saves.collect();
        Batch { removals, saves }
    }

    /// Applies the outcome of a save: answers those who wait for it, and confirms what it covers.
    pub(super) fn settle(&mut self, saved: &SavedConsumer, outcome: &SaveResult) {
        let consumer = self.consumers.get_mut(&saved.name);
        // Not for a later one of its name.
        let consumer = consumer.filter(|one| one.record.created_at == saved.created_at);
        let Some(consumer) = consumer else { return };
        for waiting in consumer.waiting.drain(..) {
            // Whoever asked may have left.
            waiting.send(outcome.clone()).unwrap_or_default();
        }
        if outcome.is_err() {
            consumer.is_dirty = true;
            return;
        }
        consumer.saved = Some(saved.cursor);
        let Some(reader) = &mut consumer.reader else {
            return;
        };
        let acknowledged = std::mem::take(&mut reader.acknowledged).into_iter();
        let (durable, later) = acknowledged.partition(|seq| *seq <= saved.cursor);
        reader.acknowledged = later;
        let durable: VecDeque<Seq> = durable;
        for seq in durable {
            push_bounded(&mut reader.confirmed, seq);
            reader.changed.notify_one();
        }
    }
}

/// The right to read as a consumer. Dropping it lets another process read.
#[derive(Debug)]
pub(crate) struct Lease {
    consumers: Arc<Consumers>,
    name: String,
    id: u64,
    /// The consumer's cursor when the lease began.
    cursor: Seq,
    changed: Arc<Notify>,
}

impl Lease {
    /// Returns the last record that was acknowledged when the lease began.
    pub(crate) fn cursor(&self) -> Seq {
        self.cursor
    }

    /// Notes that only the messages of these owners are passed on of what is read.
    pub(crate) fn set_owners(&self, owners: &[String]) {
        self.update(|consumer| {
            owners.clone_into(&mut consumer.record.audience.owners);
            consumer.is_dirty = true;
        });
        self.consumers.work.notify_one();
    }

    /// Acknowledges this record and all before it. The confirmation is sent when that is durable.
    pub(crate) fn acknowledge(&self, seq: Seq) {
        let now = self.consumers.now();
        let is_ours = self.update(|consumer| {
            consumer.position.acknowledge(seq);
            consumer.use_at(now);
            if let Some(reader) = &mut consumer.reader {
                push_bounded(&mut reader.acknowledged, seq);
            }
        });
        if is_ours {
            self.consumers.work.notify_one();
        }
    }

    /// Ends the stream because of what the reader sent.
    pub(crate) fn refuse(&self, refusal: Error) {
        self.update(|consumer| {
            if let Some(reader) = &mut consumer.reader {
                reader.refusal.get_or_insert(refusal);
            }
        });
        self.changed.notify_one();
    }

    /// Takes the confirmations to be sent, and returns why the stream ends, if it does.
    pub(super) fn take_replies(&self) -> (VecDeque<Seq>, Option<StreamEnd>) {
        let mut replies = (VecDeque::new(), Some(StreamEnd::Replaced));
        self.update(|consumer| {
            if let Some(reader) = &mut consumer.reader {
                let end = reader.refusal.clone().map(StreamEnd::Refused);
                replies = (std::mem::take(&mut reader.confirmed), end);
            }
        });
        replies
    }

    /// Resolves when there is something to send.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Marks the records `from` to `to` as sent: one record, or a gap in the feed.
    pub(super) fn sent(&self, from: Seq, to: Seq) {
        self.update(|consumer| consumer.position.sent(from, to));
    }

    /// Marks a record as left out by the filter.
    pub(super) fn left_out(&self, seq: Seq, is_follow_up: bool) {
        let mut is_dirty = false;
        self.update(|consumer| {
            consumer.position.left_out(seq, is_follow_up);
            let saved = consumer.saved.unwrap_or_default();
            is_dirty = consumer.position.cursor() >= saved + SAVE_EVERY && !consumer.is_dirty;
            consumer.is_dirty |= is_dirty;
        });
        if is_dirty {
            self.consumers.work.notify_one();
        }
    }

    /// Changes the consumer, unless another reader has taken it over; returns whether it did.
    fn update(&self, change: impl FnOnce(&mut Consumer)) -> bool {
        let mut state = self.consumers.state();
        let consumer = state.consumers.get_mut(&self.name);
        let ours = consumer.filter(|consumer| {
            let reader = consumer.reader.as_ref();
            reader.is_some_and(|reader| reader.lease == self.id)
        });
        ours.map(change).is_some()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.consumers.state();
        let Some(consumer) = state.consumers.get_mut(&self.name) else {
            return;
        };
        let is_ours = |reader: &ReaderOf| reader.lease == self.id;
        if !consumer.reader.as_ref().is_some_and(is_ours) {
            return;
        }
        if consumer.saved.is_some() {
            consumer.reader = None;
            consumer.use_at(self.consumers.now());
        } else {
            // It could not be created.
            state.consumers.remove(&self.name);
        }
        drop(state);
        self.consumers.work.notify_one();
        self.consumers.left.notify_waiters();
    }
}

/// How many confirmations may wait for a reader. Of more, only the last is kept: a confirmation
/// covers all acknowledgements before it.
const MOST_UNCONFIRMED: usize = 1024;

/// Why the daemon ends a consumer's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// Another reader took the consumer over.
    Replaced,
    /// The reader sent something that is no acknowledgement of a record.
    Refused(Error),
}

/// Adds an acknowledgement or confirmation to those that wait. If there are too many, it replaces
/// the last one.
fn push_bounded(waiting: &mut VecDeque<Seq>, seq: Seq) {
    if waiting.len() >= MOST_UNCONFIRMED
        && let Some(last) = waiting.back_mut()
    {
        *last = seq.max(*last);
        return;
    }
    waiting.push_back(seq);
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod bound_tests {
    use super::*;

    #[test]
    fn confirmations_that_are_not_read_take_bounded_memory() {
        let mut waiting = VecDeque::new();
        let n = 3 * MOST_UNCONFIRMED as Seq;
        (1..=n).for_each(|seq| push_bounded(&mut waiting, seq));
        assert_eq!(waiting.len(), MOST_UNCONFIRMED);
        assert_eq!((waiting.front(), waiting.back()), (Some(&1), Some(&n)));
    }
}
