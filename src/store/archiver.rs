//! A thread that writes the output of ended runs to the archive.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use crate::archive::{self, Limits, RunInfo};

/// How many bytes of output may be queued. Further output is dropped, so that a disk that hangs
/// does not fill the memory.
const MOST_QUEUED: usize = 128 << 20;

/// The output of a run, and where to store it.
#[derive(Debug)]
pub(crate) struct KeptRun {
    /// The session's folder of ended runs.
    pub(crate) folder: PathBuf,
    /// The life of the session.
    pub(crate) life: String,
    /// The run's data.
    pub(crate) about: RunInfo,
    /// Its last lines.
    pub(crate) lines: Vec<String>,
    /// How much is stored.
    pub(crate) limits: Limits,
}

impl KeptRun {
    fn n_bytes(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }
}

#[derive(Debug)]
enum Job {
    Keep(Box<KeptRun>, oneshot::Sender<io::Result<()>>),
    /// Answers when all earlier jobs are done.
    Close(oneshot::Sender<()>),
}

/// A handle to the archiving thread.
#[derive(Debug)]
pub(crate) struct Archiver {
    jobs: mpsc::Sender<Job>,
    /// How many bytes are queued.
    n_queued: Arc<AtomicUsize>,
}

impl Archiver {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let n_queued = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&n_queued);
        thread::Builder::new()
            .name("archiver".to_owned())
            .spawn(move || run(&queue, &left))?;
        Ok(Self { jobs, n_queued })
    }

    /// Stores the output of a run. The receiver resolves when it is written. A failure is logged if
    /// the receiver was dropped.
    pub(crate) fn keep(&self, run: KeptRun) -> oneshot::Receiver<io::Result<()>> {
        let (reply, kept) = oneshot::channel();
        let n_bytes = run.n_bytes();
        if self.n_queued.load(Ordering::Relaxed) + n_bytes > MOST_QUEUED {
            answer(reply, Err(io::Error::other("the disk is too slow")));
            return kept;
        }
        self.n_queued.fetch_add(n_bytes, Ordering::Relaxed);
        if self.jobs.send(Job::Keep(Box::new(run), reply)).is_err() {
            tracing::error!("the archiver's thread has gone: no output is kept");
        }
        kept
    }

    /// Resolves when everything queued is written.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        drop(self.jobs.send(Job::Close(done)));
        // Without an answer the thread has ended.
        drop(closed.await);
    }
}

fn run(queue: &mpsc::Receiver<Job>, n_queued: &AtomicUsize) {
    for job in queue {
        match job {
            Job::Keep(run, reply) => {
                let KeptRun {
                    folder,
                    life,
                    about,
                    lines,
                    limits,
                } = &*run;
                let kept = archive::keep(folder, life, about, lines, *limits);
                n_queued.fetch_sub(run.n_bytes(), Ordering::Relaxed);
                answer(reply, kept);
            }
            Job::Close(done) => {
                // The receiver may have been dropped.
                done.send(()).unwrap_or_default();
            }
        }
    }
}

fn answer(reply: oneshot::Sender<io::Result<()>>, kept: io::Result<()>) {
    if let Err(Err(error)) = reply.send(kept) {
        tracing::warn!(%error, "could not keep the output of a run");
    }
}
