//! The handle by which the daemon uses the writing thread: what it is started with, its jobs and its reports.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::{io, thread};

use tokio::sync::{oneshot, watch};

use super::consumer_thread;
use super::live::Live;
use super::writer::Writer;
use crate::model::{Bookmark, Record, Seq, Snapshot, StatusCounts};
use crate::store::feed::{Ages, Journal, PendingEvents, Retention};
use crate::wire::Context;

#[derive(Debug)]
pub(crate) struct StoreSetup {
    /// The feed.
    pub(crate) journal: Journal,
    /// The feed's epoch.
    pub(crate) epoch: String,
    /// The session's name.
    pub(crate) session_name: String,
    /// The sequence number of its last record.
    pub(crate) last_seq: Seq,
    /// What the feed leaves open.
    pub(crate) pending: PendingEvents,
    /// What is kept of the feed.
    pub(crate) retention: Retention,
    /// How old the feed's segments are.
    pub(crate) ages: Ages,
    /// The file of the saved snapshot.
    pub(crate) saved: PathBuf,
    /// The folder with the consumers of the feed.
    pub(crate) consumers: PathBuf,
}

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

/// The state from which the next daemon continues.
#[derive(Debug)]
pub(crate) struct SavedLook {
    /// The last look.
    pub(crate) snapshot: Snapshot,
    /// How much of tmux's data had been processed by then.
    pub(crate) bookmark: Bookmark,
    /// The sequence number of the first event that is not delivered yet.
    pub(crate) first_undelivered: Option<Seq>,
}

/// The progress of the writing thread.
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

#[derive(Debug)]
pub(crate) struct Store {
    jobs: mpsc::Sender<StoreJob>,
    reports: watch::Receiver<StoreReport>,
    pub(crate) live: Arc<Live>,
    /// How many snapshots are queued.
    n_unsaved: Arc<AtomicUsize>,
}

/// How many snapshots may be queued, so that a disk that hangs does not fill the memory.
const MOST_UNSAVED: usize = 2;

/// The writing thread has ended because of a bug: nothing can be recorded any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the thread that writes the feed has gone")]
pub(crate) struct StoreGone;

impl Store {
    /// Starts the writing thread, and the one that saves consumers.
    ///
    /// # Errors
    ///
    /// When a thread cannot be created.
    pub(crate) fn start(beginning: StoreSetup) -> io::Result<Self> {
        let consumers = consumer_thread::start(
            beginning.consumers.clone(),
            &beginning.epoch,
            beginning.last_seq,
            beginning.ages.clock(),
        )?;
        let live = Arc::new(Live::new(&beginning, consumers));
        let report = StoreReport {
            written: beginning.last_seq,
            tried: beginning.last_seq,
            ..StoreReport::default()
        };
        let (jobs, queue) = mpsc::channel();
        let (reporter, reports) = watch::channel(report);
        let n_unsaved = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&n_unsaved);
        let writer = Writer::new(beginning, Arc::clone(&live), reporter, left);
        thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run(&queue))?;
        Ok(Self {
            jobs,
            reports,
            live,
            n_unsaved,
        })
    }

    /// Appends these records, all of them or none.
    pub(crate) fn append(&self, records: Vec<Record>, context: &Context) {
        self.send(StoreJob::Append(records, Box::new(context.clone())));
    }

    /// Publishes the counts after the records queued before.
    pub(crate) fn publish(&self, counts: StatusCounts) {
        self.send(StoreJob::Status(counts));
    }

    /// Saves a snapshot that includes the records queued before. Returns whether it was queued: it
    /// is not while others wait for the disk.
    #[must_use]
    pub(crate) fn save(&self, look: SavedLook) -> bool {
        if self.n_unsaved.load(Ordering::Relaxed) >= MOST_UNSAVED {
            return false;
        }
        self.n_unsaved.fetch_add(1, Ordering::Relaxed);
        self.send(StoreJob::Save(Box::new(look)));
        true
    }

    /// Resolves when everything queued is written and saved, or refused.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.send(StoreJob::Close(done));
        // Without an answer the thread has ended, and nothing more is written.
        drop(closed.await);
    }

    /// Resolves when there is a new report. An error means that the thread has ended.
    ///
    /// # Cancel safety
    ///
    /// No report is lost when the future is dropped.
    pub(crate) async fn changed(&mut self) -> Result<(), StoreGone> {
        self.reports.changed().await.map_err(|_closed| StoreGone)
    }

    /// Returns the latest report.
    pub(crate) fn report(&mut self) -> StoreReport {
        self.reports.borrow_and_update().clone()
    }

    fn send(&self, job: StoreJob) {
        if self.jobs.send(job).is_err() {
            tracing::error!("the store's thread has gone: nothing more is written");
        }
    }
}

impl Drop for Store {
    /// Ends the streams of readers after they have got everything written.
    fn drop(&mut self) {
        self.live.close();
    }
}
