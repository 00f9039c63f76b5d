//! The handles by which the daemon uses the threads that write the feed, save consumers and serve readers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::consumers::{Batch, ConsumerTable, Consumers, SaveResult};
use super::live::{Live, StoreSetup};
use super::writer::{SavedLook, StoreJob, StoreReport, Writer};
use crate::model::{AgeClock, Context, Record, Seq, StatusCounts};
use crate::store::feed::{load_consumers, remove_consumer, store_consumer, sync_consumers};
use crate::wire::SavedConsumer;

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
        let consumers = start_consumers(
            beginning.consumers.clone(),
            &beginning.epoch,
            beginning.journal.end().last_seq,
            beginning.ages.clock(),
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
    handle: Handle,
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

    /// Returns a handle to start futures on the thread.
    pub(crate) fn handle(&self) -> ReaderHandle {
        ReaderHandle(self.handle.clone())
    }
}

/// Runs futures on the thread of readers.
#[derive(Debug, Clone)]
pub(crate) struct ReaderHandle(Handle);

impl ReaderHandle {
    /// Starts a future that runs as long as the thread.
    pub(crate) fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(future));
    }

    /// Runs a future on the thread. Resolves when it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future aborts it as well.
    pub(crate) async fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut task = JoinSet::new();
        task.spawn_on(future, &self.0);
        if let Some(Err(error)) = task.join_next().await
            && !error.is_cancelled()
        {
            tracing::error!(%error, "a reader's task panicked");
        }
    }
}

// A thread that saves consumers: acknowledgements are confirmed when they are on the disk, and
// neither requests nor the feed wait for it.

/// How long to wait before a disk that refused is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a consumer whose file cannot be read is handled.
const STARTS_AGAIN: &str = "the consumer's position is lost: it starts again at the first record";

/// Loads the consumers of a feed from their folder and starts the thread that saves them.
///
/// # Errors
///
/// When the thread cannot be made.
pub(super) fn start_consumers(
    folder: PathBuf,
    epoch: &str,
    last_seq: Seq,
    ages: AgeClock,
) -> io::Result<Arc<Consumers>> {
    let consumers = Arc::new(Consumers::new(epoch, last_seq, load(&folder), ages));
    let kept = Arc::clone(&consumers);
    thread::Builder::new()
        .name("consumers".to_owned())
        .spawn(move || run(&kept, &folder))?;
    Ok(consumers)
}

/// Returns the consumers in this folder. What cannot be read is kept under another name: the
/// consumer starts again at the first record, and nothing is skipped.
fn load(folder: &Path) -> Vec<SavedConsumer> {
    // A daemon that was killed may have replaced a file and not synced the folder. What is removed from
    // the feed depends on the positions in it.
    if let Err(error) = sync_consumers(folder) {
        tracing::warn!(%error, "could not sync the folder of consumers");
    }
    let loaded = load_consumers(folder).unwrap_or_else(|error| {
        tracing::error!(%error, folder = %folder.display(), "could not read the consumers");
        Vec::new()
    });
    let mut consumers = Vec::new();
    for consumer in loaded {
        match consumer {
            Ok(consumer) => consumers.push(consumer),
            Err(damaged) => match damaged.set_aside(folder) {
                Ok(aside) => {
                    tracing::error!(%damaged, kept = %aside.display(), "{STARTS_AGAIN}")
                }
                Err(error) => tracing::error!(%damaged, %error, "{STARTS_AGAIN}"),
            },
        }
    }
    consumers
}

/// Saves what changes until the daemon leaves.
fn run(consumers: &Consumers, folder: &Path) {
    loop {
        let is_idle = |state: &mut ConsumerTable| !state.has_work() && state.closing.is_none();
        let state = consumers.work.wait_while(consumers.state(), is_idle);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let batch = state.take_batch();
        let closing = state.closing.take();
        drop(state);
        let done = perform(batch, folder);
        let mut state = consumers.state();
        let problem = done.iter().find_map(|(_, outcome)| outcome.clone().err());
        for (saved, outcome) in &done {
            state.settle(saved, outcome);
        }
        if problem.is_some() != state.problem.is_some() {
            match &problem {
                Some(why) => tracing::error!(why, "consumers cannot be saved"),
                None => tracing::info!("consumers can be saved again"),
            }
        }
        let has_failed = problem.is_some();
        state.problem = problem.map(|why| format!("could not save consumers: {why}"));
        if let Some(closing) = closing {
            // Whoever asked may have given up waiting.
            closing.send(()).unwrap_or_default();
            return;
        }
        if has_failed {
            // An early wake-up only tries early.
            drop(consumers.work.wait_timeout(state, RETRY_AFTER));
        }
    }
}

/// Removes and saves, with one sync of the folder for all of it; returns the result of each save.
fn perform(batch: Batch, folder: &Path) -> Vec<(SavedConsumer, SaveResult)> {
    let removals: Vec<_> = batch
        .removals
        .into_iter()
        .map(|(name, waiting)| (remove_consumer(folder, &name), waiting))
        .collect();
    let saves = batch.saves.into_iter().map(|saved| {
        let stored = store_consumer(folder, &saved);
        (saved, stored.map_err(|error| error.to_string()))
    });
    let mut saves: Vec<(SavedConsumer, SaveResult)> = saves.collect();
    let synced = sync_consumers(folder).map_err(|error| error.to_string());
    for (removed, waiting) in removals {
        let outcome = removed.map_err(|error| error.to_string());
        waiting
            .send(outcome.and_then(|()| synced.clone()))
            .unwrap_or_default();
    }
    if synced.is_err() {
        for (_, outcome) in &mut saves {
            outcome.clone_from(&synced);
        }
    }
    saves
}
