//! The disk of a daemon: a thread that appends to the feed and saves the snapshot, one that keeps the
//! output of ended runs, and one that serves readers.
//!
//! Who supervises never waits for the disk: it hands over records and learns by a [`Report`] how far
//! they were written. Readers depend on this module alone.

mod archiver;
mod live;
mod read_marks;
mod reader_thread;
mod stream;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use tokio::sync::{oneshot, watch};

pub(crate) use archiver::{Archiver, KeptRun};
pub(crate) use live::Live;
pub(crate) use read_marks::ReadMarks;
pub(crate) use reader_thread::{ReaderHandle, ReaderThread};
pub(crate) use stream::{StreamError, Subscription, serve};

use crate::feed::{Journal, Pending};
use crate::model::{Bookmark, Record, Seq, Snapshot, StatusCounts};
use crate::wire::Context;
use writer::Writer;
pub(crate) use writer::with_waiting;

/// The writing thread, for the one who hands over records.
#[derive(Debug)]
pub(crate) struct Store {
    jobs: mpsc::Sender<Job>,
    reports: watch::Receiver<Report>,
    live: Arc<Live>,
    /// How many snapshots wait to be saved.
    n_unsaved: Arc<AtomicUsize>,
}

/// How many snapshots may wait to be saved: of a disk that hangs, the memory must not fill up with
/// them.
const MOST_UNSAVED: usize = 2;

/// What the writing thread is asked to do, in this order.
#[derive(Debug)]
enum Job {
    /// Append these records: after a crash all of them are there or none.
    Append(Vec<Record>, Box<Context>),
    /// Publish the counts once what was handed over before is written.
    Status(StatusCounts),
    /// Replace the saved snapshot once what was handed over before is written.
    Save(Box<SavedLook>),
    /// Try once more what the disk refused, and answer.
    Close(oneshot::Sender<()>),
}

/// What a daemon that comes back carries on from.
#[derive(Debug)]
pub(crate) struct SavedLook {
    /// The last look.
    pub(crate) snapshot: Snapshot,
    /// How far tmux's own notes were read by then.
    pub(crate) bookmark: Bookmark,
    /// The number of the first event that is still to be delivered.
    pub(crate) first_undelivered: Option<Seq>,
}

/// The writing thread has gone, by a fault of ours: nothing can be recorded any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the thread that writes the feed has gone")]
pub(crate) struct StoreGone;

/// How far the writing thread has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The number of the last record that is on the disk.
    pub(crate) written: Seq,
    /// The number of the last record that the disk has taken or refused.
    pub(crate) tried: Seq,
    /// Why the disk refused; `None` while it takes everything.
    pub(crate) problem: Option<String>,
    /// Whether so much was refused that nothing more should be recorded.
    pub(crate) is_full: bool,
    /// The counts that were published last.
    pub(crate) counts: Option<StatusCounts>,
}

/// What a store begins with.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The feed.
    pub(crate) journal: Journal,
    /// The feed's epoch.
    pub(crate) epoch: String,
    /// What the daemon was asked for by.
    pub(crate) asked: String,
    /// The session's name.
    pub(crate) session_name: String,
    /// The number of its last record.
    pub(crate) last_seq: Seq,
    /// What the feed leaves open.
    pub(crate) pending: Pending,
    /// The file of the saved snapshot.
    pub(crate) saved: std::path::PathBuf,
}

impl Store {
    /// Starts the writing thread.
    ///
    /// # Errors
    ///
    /// When the thread cannot be made.
    pub(crate) fn start(beginning: Beginning) -> io::Result<Self> {
        let live = Arc::new(Live::new(&beginning));
        let report = Report {
            written: beginning.last_seq,
            tried: beginning.last_seq,
            ..Report::default()
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

    /// What readers are served from.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Appends these records, all of them or none.
    pub(crate) fn append(&self, records: Vec<Record>, context: &Context) {
        self.send(Job::Append(records, Box::new(context.clone())));
    }

    /// Publishes the counts behind the records that were handed over before.
    pub(crate) fn publish(&self, counts: StatusCounts) {
        self.send(Job::Status(counts));
    }

    /// Saves a snapshot that shows what the records handed over before say; returns whether it was
    /// taken. None is while others wait for the disk.
    #[must_use]
    pub(crate) fn save(&self, look: SavedLook) -> bool {
        if self.n_unsaved.load(Ordering::Relaxed) >= MOST_UNSAVED {
            return false;
        }
        self.n_unsaved.fetch_add(1, Ordering::Relaxed);
        self.send(Job::Save(Box::new(look)));
        true
    }

    /// Resolves when everything that was handed over is written and saved, or refused.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.send(Job::Close(done));
        // Without an answer the thread has gone, and nothing more is written.
        drop(closed.await);
    }

    /// Resolves when there is a new report; an error says that the thread has gone.
    ///
    /// # Cancel safety
    ///
    /// No report is lost when the future is dropped.
    pub(crate) async fn changed(&mut self) -> Result<(), StoreGone> {
        self.reports.changed().await.map_err(|_closed| StoreGone)
    }

    /// Returns the latest report.
    pub(crate) fn report(&mut self) -> Report {
        self.reports.borrow_and_update().clone()
    }

    fn send(&self, job: Job) {
        if self.jobs.send(job).is_err() {
            tracing::error!("the store's thread has gone: nothing more is written");
        }
    }
}

impl Drop for Store {
    /// Ends the streams of readers, once they have had what is written.
    fn drop(&mut self) {
        self.live.close();
    }
}

#[cfg(test)]
mod tests;
