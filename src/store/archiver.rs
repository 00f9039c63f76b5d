//! A thread that writes the output of ended runs to the archive, and knows how long they took.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use tokio::sync::{mpsc as async_mpsc, oneshot};

use crate::model::{Millis, WindowId};
use crate::store::archive::{self, Durations, Limits, RunInfo};

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
    /// Its lines, as far as they are known.
    pub(crate) lines: Vec<String>,
    /// How much is stored.
    pub(crate) limits: Limits,
}

impl KeptRun {
    fn n_bytes(&self) -> usize {
        self.lines.iter().map(String::len).sum()
    }
}

/// A run that has begun, and where the earlier ones are stored.
#[derive(Debug)]
pub(crate) struct BegunRun {
    /// The session's folder of ended runs.
    pub(crate) folder: PathBuf,
    pub(crate) window: WindowId,
    /// The number of the run.
    pub(crate) run: Option<u32>,
    /// The task's name.
    pub(crate) name: String,
    pub(crate) command: Option<String>,
}

/// How long a run usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsualDuration {
    pub(crate) window: WindowId,
    /// The number of the run.
    pub(crate) run: Option<u32>,
    pub(crate) millis: Millis,
}

/// How many usual durations may be queued for the event loop. Further ones are dropped: only their
/// display is missing.
const MOST_DURATIONS: usize = 1000;

/// A job of the archiving thread. Jobs are done in order.
#[derive(Debug)]
enum ArchiveJob {
    Keep(Box<KeptRun>, oneshot::Sender<io::Result<()>>),
    FindUsual(Box<BegunRun>),
    /// Answers when all earlier jobs are done.
    Close(oneshot::Sender<()>),
}

/// A handle to the archiving thread.
#[derive(Debug)]
pub(crate) struct Archiver {
    jobs: mpsc::Sender<ArchiveJob>,
    /// How many bytes are queued.
    n_queued: Arc<AtomicUsize>,
}

impl Archiver {
    /// Starts the thread. The receiver gets the durations that [`Archiver::find_usual`] asks for.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub(crate) fn start() -> io::Result<(Self, async_mpsc::Receiver<UsualDuration>)> {
        let (jobs, queue) = mpsc::channel();
        let (usual, found) = async_mpsc::channel(MOST_DURATIONS);
        let n_queued = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&n_queued);
        thread::Builder::new()
            .name("archiver".to_owned())
            .spawn(move || run(&queue, &left, &usual))?;
        Ok((Self { jobs, n_queued }, found))
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
        if self
            .jobs
            .send(ArchiveJob::Keep(Box::new(run), reply))
            .is_err()
        {
            tracing::error!("the archiver's thread has gone: no output is kept");
        }
        kept
    }

    /// Finds out how long such a run usually takes. Nothing is reported if that is not known.
    pub(crate) fn find_usual(&self, run: BegunRun) {
        // Without the thread, `keep` complains.
        drop(self.jobs.send(ArchiveJob::FindUsual(Box::new(run))));
    }

    /// Resolves when everything queued is written.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        drop(self.jobs.send(ArchiveJob::Close(done)));
        // Without an answer the thread has ended.
        drop(closed.await);
    }
}

fn run(
    queue: &mpsc::Receiver<ArchiveJob>,
    n_queued: &AtomicUsize,
    usual: &async_mpsc::Sender<UsualDuration>,
) {
    let mut durations = DurationCache::default();
    for job in queue {
        match job {
            ArchiveJob::Keep(run, reply) => {
                let KeptRun {
                    folder,
                    life,
                    about,
                    lines,
                    limits,
                } = &*run;
                let kept = archive::keep(folder, life, about, lines, *limits);
                if kept.is_ok() {
                    durations.add(folder, about);
                }
                n_queued.fetch_sub(run.n_bytes(), Ordering::Relaxed);
                answer(reply, kept);
            }
            ArchiveJob::FindUsual(begun) => {
                let BegunRun {
                    folder,
                    window,
                    run,
                    name,
                    command,
                } = *begun;
                let usual_duration = durations.of(&folder).usual(&name, command.as_deref());
                if let Some(millis) = usual_duration {
                    let found = UsualDuration {
                        window,
                        run,
                        millis,
                    };
                    if usual.try_send(found).is_err() {
                        tracing::debug!("too many usual durations at once");
                    }
                }
            }
            ArchiveJob::Close(done) => {
                // The receiver may have been dropped.
                done.send(()).unwrap_or_default();
            }
        }
    }
}

/// The durations of the last folder, so that the stored runs are read once.
#[derive(Debug, Default)]
struct DurationCache(Option<(PathBuf, Durations)>);

impl DurationCache {
    fn of(&mut self, folder: &Path) -> &Durations {
        let known = self.0.take().filter(|(known, _)| known == folder);
        let (_, durations) = self.0.insert(known.unwrap_or_else(|| {
            let durations = Durations::read(folder).unwrap_or_else(|error| {
                tracing::warn!(%error, "could not read the stored runs");
                Durations::default()
            });
            (folder.to_owned(), durations)
        }));
        durations
    }

    /// Adds a stored run. If the runs of its folder are not read yet, they will include it.
    fn add(&mut self, folder: &Path, run: &RunInfo) {
        if let Some((_, durations)) = self.0.as_mut().filter(|(known, _)| known == folder) {
            durations.add(run);
        }
    }
}

fn answer(reply: oneshot::Sender<io::Result<()>>, kept: io::Result<()>) {
    if let Err(Err(error)) = reply.send(kept) {
        tracing::warn!(%error, "could not keep the output of a run");
    }
}
