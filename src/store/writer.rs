//! The thread that appends to the feed, syncs it and saves the snapshot: its jobs, and its reports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::live::{Live, StoreSetup};
use crate::clock;
use crate::model::{Context, Error, Millis, Record, SavedLook, Seq, StatusCounts};
use crate::rules::wire::LiveRecord;
use crate::store::feed::{
    SavedSession, closed_segments, remove_before, saved_of, store_saved, sync_saved,
};

/// A job of the writing thread. Jobs are done in order.
#[derive(Debug)]
pub(super) enum StoreJob {
    /// Append these records: after a crash all of them are there or none.
    Append(Vec<Record>, Box<Context>),
    /// Publish the counts once all earlier jobs are written.
    Status(StatusCounts),
    /// Replace the saved snapshot once all earlier jobs are written.
    Save(Box<SavedLook>),
    /// Try once more to write what the disk refused, and answer.
    Close(oneshot::Sender<()>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoreReport {
    /// The sequence number of the last record that is on the disk.
    pub(crate) written: Seq,
    /// The sequence number of the last record that the disk has accepted or refused.
    pub(crate) tried: Seq,
    /// Why the disk refused; `None` while it accepts everything.
    pub(crate) problem: Option<String>,
    /// Whether so much was refused that recording should stop.
    pub(crate) is_full: bool,
    /// The counts that were published last.
    pub(crate) counts: Option<StatusCounts>,
}

impl StoreReport {
    pub(super) fn beginning(setup: &StoreSetup) -> Self {
        let last_seq = setup.journal.end().last_seq;
        Self {
            written: last_seq,
            tried: last_seq,
            ..Self::default()
        }
    }

    fn n_waiting(&self) -> Seq {
        self.tried - self.written
    }
}

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How many records may be unwritten before no further looks should be taken.
pub(super) const MOST_WAITING: Seq = 4096;

/// How often segments are checked for their age, and consumers for theirs.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

/// How long after the daemon's start the first check is. Consumers may be read again by then.
const FIRST_CHECK: Duration = Duration::from_secs(60);

/// How far the noted time of the last run may be behind, in milliseconds.
const NOTE_EVERY: Millis = 60_000;

#[derive(Debug)]
pub(super) struct Writer {
    feed: StoreSetup,
    live: Arc<Live>,
    reporter: watch::Sender<StoreReport>,
    n_unsaved: Arc<AtomicUsize>,
    /// What is known of the progress; `tried` is the last record that is queued.
    progress: StoreReport,
    /// When a disk that refused, records or the snapshot, is tried again.
    retry_at: Option<Instant>,
    /// Counts to publish once the records queued before are written.
    statuses: Vec<StatusCounts>,
    /// The snapshot to save once the records that it includes are written.
    unsaved: Option<SavedSession>,
    /// The last record that the snapshot on the disk includes; `None` until one was saved.
    saved_seq: Option<Seq>,
    /// Whether events on the disk are not delivered yet.
    has_undelivered: bool,
    check_at: Instant,
}

impl Writer {
    pub(super) fn new(
        beginning: StoreSetup,
        live: Arc<Live>,
        reporter: watch::Sender<StoreReport>,
        n_unsaved: Arc<AtomicUsize>,
    ) -> Self {
        let mut writer = Self {
            progress: StoreReport::beginning(&beginning),
            has_undelivered: beginning.pending.has_undelivered(),
            feed: beginning,
            live,
            reporter,
            n_unsaved,
            retry_at: None,
            statuses: Vec::new(),
            unsaved: None,
            saved_seq: None,
            check_at: Instant::now() + FIRST_CHECK,
        };
        writer.publish_closed().unwrap_or_else(not_removed);
        writer.store_ages();
        writer
    }

    /// Works until the last sender is dropped. Records queued during a sync are written with one sync.
    pub(super) fn run(mut self, queue: &Receiver<StoreJob>) {
        loop {
            // Without a job, a failed write is tried again, or it is checked which segments are kept.
            let at = self.check_at.min(self.retry_at.unwrap_or(self.check_at));
            let first = match queue.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let is_retry = self.retry_at.take_if(|at| *at <= Instant::now()).is_some();
            let (mut has_records, mut closed) = (false, Vec::new());
            for job in first.into_iter().chain(queue.try_iter()) {
                match job {
                    StoreJob::Append(records, context) => {
                        has_records = true;
                        self.queue(&records, &context);
                    }
                    StoreJob::Status(counts) => self.statuses.push(counts),
                    StoreJob::Save(look) => {
                        self.n_unsaved.fetch_sub(1, Ordering::Relaxed);
                        self.save_later(&look);
                    }
                    StoreJob::Close(done) => closed.push(done),
                }
            }
            let is_due = has_records || is_retry || !closed.is_empty();
            self.settle(is_due);
            self.report();
            self.save();
            self.retain();
            if !closed.is_empty() {
                self.store_ages();
            }
            for done in closed {
                // The receiver may have been dropped.
                done.send(()).unwrap_or_default();
            }
        }
    }

    fn queue(&mut self, records: &[Record], context: &Context) {
        self.feed.journal.queue(records, context);
        for record in records {
            self.feed.pending.apply(record);
            self.note_run(record);
            self.progress.tried = record.seq;
        }
    }

    /// Closes the file where records are appended, if it is large or old, before something is written.
    fn close_segment(&mut self) {
        let (end, first_at) = (self.feed.journal.end(), self.feed.journal.first_at());
        let (at, now, kept) = (end.at, clock::now().wall, self.feed.kept);
        if !kept.closes(at, first_at, self.has_undelivered, now) {
            return;
        }
        match self.feed.journal.close_segment() {
            Ok(()) => {
                let first = end.segment;
                tracing::info!(first, n_bytes = at, "closed a segment of the feed");
                self.check_at = Instant::now();
            }
            Err(error) => tracing::error!(%error, "could not close a segment of the feed"),
        }
    }

    fn save_later(&mut self, look: &SavedLook) {
        let epoch = &self.feed.context.epoch;
        let last_seq = self.progress.tried;
        let mut saved = SavedSession::new(&look.snapshot, &look.bookmark, epoch, last_seq);
        let pending = &mut self.feed.pending;
        pending.forget_settled(&look.snapshot, &look.undelivered);
        if self.progress.tried == self.progress.written {
            self.has_undelivered = self.feed.pending.has_undelivered();
        }
        saved.feed = (self.progress.tried > 0).then(|| self.feed.pending.clone());
        self.unsaved = Some(saved);
    }

    /// Writes everything queued, if that is due, and publishes the result.
    fn settle(&mut self, is_due: bool) {
        let n_unwritten = self.feed.journal.n_unwritten() as u64;
        let (had_problem, was_full) = (self.progress.problem.is_some(), self.progress.is_full);
        let n_records = self.progress.n_waiting();
        if is_due {
            let began = Instant::now();
            if n_unwritten > 0 && !had_problem {
                self.close_segment();
            }
            match self.feed.journal.flush() {
                Ok(()) => {
                    let elapsed_us = began.elapsed().as_micros();
                    tracing::debug!(n_records, n_unwritten, elapsed_us, "wrote the feed");
                    self.on_written();
                }
                Err(error) => self.on_refused(error),
            }
        }
        let n_records = self.progress.n_waiting();
        self.progress.is_full = self.feed.journal.is_full() || n_records >= MOST_WAITING;
        if self.progress.is_full && !was_full {
            tracing::error!(
                n_records,
                "no looks are taken until the waiting records are written"
            );
        }
        let is_news =
            had_problem != self.progress.problem.is_some() || was_full != self.progress.is_full;
        if is_news {
            // Who hears of a problem from a reader finds it in the daemon's status, too.
            self.report();
        }
        let end = self.feed.journal.end();
        if self.live.end() != end {
            self.live.publish_end(end);
        }
        let statuses = std::mem::take(&mut self.statuses);
        if is_news && statuses.is_empty() {
            self.publish_status();
        }
        for counts in statuses {
            self.progress.counts = Some(counts);
            self.publish_status();
        }
    }

    fn on_written(&mut self) {
        if self.progress.problem.take().is_some() {
            let last_seq = self.progress.tried;
            tracing::info!(last_seq, "the feed can be written again");
        }
        self.progress.written = self.progress.tried;
        self.has_undelivered = self.feed.pending.has_undelivered();
    }

    fn on_refused(&mut self, error: Error) {
        if self.progress.problem.is_none() {
            tracing::error!(%error, "the feed's disk refuses; records wait");
            self.progress.problem = Some(error.message);
        }
        self.retry_at = Some(Instant::now() + RETRY_AFTER);
    }

    fn publish_status(&self) {
        let Some(counts) = self.progress.counts else {
            return;
        };
        let mut status = LiveRecord::from(counts);
        if let LiveRecord::Status { problem, .. } = &mut status {
            let (n, is_full) = (self.progress.n_waiting(), self.progress.is_full);
            let why = self.progress.problem.as_ref();
            *problem = why.map(|why| with_waiting(why, n, is_full));
        }
        self.live.publish_status(status);
    }

    fn report(&self) {
        self.reporter.send_if_modified(|before| {
            let is_news = *before != self.progress;
            before.clone_from(&self.progress);
            is_news
        });
    }

    /// Saves the last snapshot, if its records are all written.
    fn save(&mut self) {
        let written = self.progress.written;
        let Some(saved) = self.unsaved.take_if(|saved| saved.last_seq <= written) else {
            return;
        };
        match store_saved(&saved_of(self.feed.journal.path()), &saved) {
            Ok(()) => self.saved_seq = Some(saved.last_seq),
            Err(error) => {
                tracing::error!(%error, "could not save the snapshot");
                self.retry_at = Some(Instant::now() + RETRY_AFTER);
                self.unsaved = Some(saved);
            }
        }
    }

    /// Removes segments that are not kept, if a check is due, and that the next daemon does not need.
    fn retain(&mut self) {
        if self.check_at > Instant::now() {
            return;
        }
        let Some(saved_seq) = self.saved_seq else {
            // It is not known what the next daemon needs.
            self.check_at = Instant::now() + FIRST_CHECK;
            return;
        };
        self.check_at = Instant::now() + CHECK_EVERY;
        // What is not delivered yet stands whole in the saved snapshot.
        self.remove(saved_seq + 1).unwrap_or_else(not_removed);
        self.store_ages();
    }

    /// Removes the segments that are not kept. Records from `needed` on stay.
    fn remove(&mut self, needed: Seq) -> io::Result<()> {
        self.publish_closed()?;
        let (kept, now) = (self.live.files(), self.feed_time());
        let holders = self.live.consumers.holders();
        let first = self.feed.kept.first_to_keep(&kept, &holders, needed, now);
        if first > kept.first_seq() {
            // What the next daemon reads depends on it.
            let feed = self.feed.journal.path();
            sync_saved(&saved_of(feed))?;
            remove_before(feed, first)?;
            tracing::info!(first, "removed earlier records of the feed");
            self.publish_closed()?;
        }
        Ok(())
    }

    fn publish_closed(&mut self) -> io::Result<()> {
        let closed = closed_segments(self.feed.journal.path(), &self.feed.ages, self.feed_time())?;
        if self.feed.ages.note_closed(&closed) {
            self.store_ages();
        }
        self.live.publish_closed(closed);
        Ok(())
    }

    /// Notes when a run last began or ended: other daemons do not end the session soon after.
    fn note_run(&mut self, record: &Record) {
        let now = self.feed_time();
        let last = self.feed.ages.last_run;
        if record.body.is_of_run() && last.is_none_or(|before| now - before >= NOTE_EVERY) {
            self.feed.ages.last_run = Some(now);
            self.store_ages();
        }
    }

    fn store_ages(&mut self) {
        if let Err(error) = self.feed.ages.store(&clock::boot_time()) {
            tracing::warn!(%error, "could not store how old the feed's records are");
        }
    }

    fn feed_time(&self) -> Millis {
        self.feed.ages.clock().at(clock::since_boot())
    }
}

fn not_removed(error: io::Error) {
    tracing::error!(%error, "could not remove earlier records of the feed");
}

/// Returns why the disk refuses, how many records wait for it, and what does not happen meanwhile.
pub(super) fn with_waiting(problem: &str, n_records: Seq, is_full: bool) -> String {
    let consequence = if is_full {
        ", and tasks are not looked at until they are written"
    } else {
        ""
    };
    format!("{problem}; {n_records} records wait in memory{consequence}")
}
