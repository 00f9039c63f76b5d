//! The handles by which the daemon uses the threads that write the feed, save consumers and serve readers.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::archive::start_thread;
use super::consumers::Consumers;
use super::live::{Live, StoreSetup};
use super::writer::{MOST_WAITING, StoreJob, StoreReport, Writer, with_waiting};
use crate::model::{Body, Context, Record, SavedLook, Seq, StatusCounts};

/// What the daemon records and saves, and what waits for the disk.
#[derive(Debug)]
pub(crate) struct Store {
    jobs: mpsc::Sender<StoreJob>,
    reports: watch::Receiver<StoreReport>,
    pub(crate) live: Arc<Live>,
    pub(crate) context: Context,
    /// The report of the writing thread that was taken last.
    pub(crate) report: StoreReport,
    pub(crate) given_seq: Seq,
    /// What is displayed once its record is on the disk, with the sequence numbers of the records.
    unshown: VecDeque<(Seq, Body)>,
    n_unsaved: Arc<AtomicUsize>,
}

/// How many snapshots may be queued, so that a disk that hangs does not fill the memory.
const MOST_UNSAVED: usize = 2;

impl Store {
    /// Starts the writing thread, and the one that saves consumers.
    pub(crate) fn start(beginning: StoreSetup) -> io::Result<Self> {
        let (feed, end) = (beginning.journal.path(), beginning.journal.end());
        let (epoch, ages) = (&beginning.context.epoch, beginning.ages.clock());
        let consumers = Consumers::start(feed, epoch, end.last_seq, ages)?;
        let live = Arc::new(Live::new(&beginning, consumers));
        let (jobs, queue) = mpsc::channel();
        let context = beginning.context.clone();
        let report = StoreReport::beginning(&beginning);
        let (reporter, reports) = watch::channel(report.clone());
        let n_unsaved = Arc::default();
        let left = Arc::clone(&n_unsaved);
        let writer = Writer::new(beginning, Arc::clone(&live), reporter, left);
        start_thread("store", move || writer.run(&queue))?;
        Ok(Self {
            jobs,
            reports,
            live,
            context,
            given_seq: report.tried,
            report,
            unshown: VecDeque::new(),
            n_unsaved,
        })
    }

    /// Appends these records, all of them or none, without waiting.
    pub(crate) fn append(&mut self, records: Vec<Record>) {
        for record in &records {
            self.given_seq = record.seq;
            let is_shown = match &record.body {
                Body::Event(_) => true,
                Body::Notice { events, .. } => events.is_empty(),
                Body::FollowUp { .. } => false,
            };
            if is_shown {
                self.unshown.push_back((record.seq, record.body.clone()));
            }
        }
        self.send(StoreJob::Append(records, Box::new(self.context.clone())));
    }

    /// Publishes the counts after the records queued before.
    pub(crate) fn publish(&self, counts: StatusCounts) {
        self.send(StoreJob::Status(counts));
    }

    /// Saves a snapshot with the records queued before; returns `false` while others wait for the disk.
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

    /// Resolves when there is a new report; fails if the thread has ended, because of a bug. It is cancel safe.
    pub(crate) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.reports.changed().await
    }

    /// Takes the latest report: what may be displayed now, and the counts, if they have changed.
    pub(crate) fn take_report(&mut self) -> (Vec<Body>, Option<StatusCounts>) {
        let report = self.reports.borrow_and_update().clone();
        let is_news = report.counts != self.report.counts;
        self.report = report;
        let written = self.report.written;
        let n_shown = self.unshown.partition_point(|(seq, _)| *seq <= written);
        let shown = self.unshown.drain(..n_shown).map(|(_, what)| what);
        (shown.collect(), self.report.counts.filter(|_| is_news))
    }

    /// Returns why records are not on the disk, if the disk refuses them.
    pub(crate) fn problem(&self) -> Option<String> {
        let report = self.reports.borrow();
        let n_waiting = self.given_seq - report.written;
        let problem = report.problem.as_ref()?;
        Some(with_waiting(problem, n_waiting, self.is_full()))
    }

    /// Whether so much waits for the disk that no look should be taken: a later look finds the changes.
    pub(crate) fn is_full(&self) -> bool {
        self.report.is_full || self.given_seq - self.report.written >= MOST_WAITING
    }

    /// Handles a rename: later records have the new name.
    pub(crate) fn rename(&mut self, session_name: &str) {
        if self.context.session_name != session_name {
            session_name.clone_into(&mut self.context.session_name);
            self.live.rename(session_name);
        }
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
    _stop: oneshot::Sender<()>,
}

impl ReaderThread {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (_stop, stopped) = oneshot::channel::<()>();
        // An error means that the other end was dropped, which is its purpose.
        start_thread(name, move || drop(runtime.block_on(stopped)))?;
        Ok(Self { handle, _stop })
    }
}

/// Runs a future on a thread of readers to its end. Dropping the returned future aborts it.
pub(crate) async fn run_on(thread: &Handle, future: impl Future<Output = ()> + Send + 'static) {
    let mut task = JoinSet::new();
    task.spawn_on(future, thread);
    if let Some(Err(error)) = task.join_next().await
        && !error.is_cancelled()
    {
        tracing::error!(%error, "a reader's task panicked");
    }
}
