//! The handles by which the daemon uses the threads that write the feed, save consumers and serve readers.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::consumers::Consumers;
use super::live::{Live, StoreSetup};
use super::writer::{StoreJob, StoreReport, Writer};
use crate::model::{Context, Record, SavedLook, StatusCounts};

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

impl Store {
    /// Starts the writing thread, and the one that saves consumers.
    ///
    /// # Errors
    ///
    /// When a thread cannot be created.
    pub(crate) fn start(beginning: StoreSetup) -> io::Result<Self> {
        let consumers = Consumers::start(
            beginning.consumers.clone(),
            &beginning.epoch,
            beginning.journal.end().last_seq,
            beginning.ages.clock(),
            beginning.last_reader.clone(),
        )?;
        let live = Arc::new(Live::new(&beginning, consumers));
        let (jobs, queue) = mpsc::channel();
        let (reporter, reports) = watch::channel(StoreReport::beginning(&beginning));
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

    /// Resolves when there is a new report. An error means that the thread has ended, because of a bug.
    ///
    /// # Cancel safety
    ///
    /// No report is lost when the future is dropped.
    pub(crate) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.reports.changed().await
    }

    /// Returns the latest report.
    pub(crate) fn report(&mut self) -> StoreReport {
        self.reports.borrow_and_update().clone()
    }

    /// Returns the same, which still counts as a new one.
    pub(crate) fn peek(&self) -> StoreReport {
        self.reports.borrow().clone()
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

/// A thread with its own runtime. Dropping this ends it, with everything that runs there.
#[derive(Debug)]
pub(crate) struct ReaderThread {
    /// What [`run_on`] needs.
    pub(crate) handle: Handle,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl ReaderThread {
    /// Starts a thread with this name.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // An error means that the other end was dropped, which is its purpose.
                drop(runtime.block_on(stopped));
            })?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }
}

/// Runs a future on a thread of readers. Resolves when it has ended.
///
/// # Cancel safety
///
/// Dropping the returned future aborts it as well.
pub(crate) async fn run_on(thread: &Handle, future: impl Future<Output = ()> + Send + 'static) {
    let mut task = JoinSet::new();
    task.spawn_on(future, thread);
    if let Some(Err(error)) = task.join_next().await
        && !error.is_cancelled()
    {
        tracing::error!(%error, "a reader's task panicked");
    }
}
