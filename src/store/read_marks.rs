//! Who reads the feed, how far, and the file that says so to other daemons.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::feed::note_read;
use crate::model::Seq;

/// How often a present reader is noted, so that its session is not taken for forgotten.
const NOTE_EVERY: Duration = Duration::from_secs(60);

/// The readers of a feed.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// How many there are.
    n: AtomicUsize,
    /// The number of the last follow-up that was written to one of them.
    last_follow_up: AtomicU64,
    /// Called when a reader comes and when a follow-up is written.
    changed: Notify,
}

/// One reader. Dropping it takes it off the number of readers.
#[derive(Debug)]
pub(super) struct Reading {
    readers: Arc<Readers>,
}

impl Readers {
    /// Counts one more reader.
    pub(super) fn begin(self: &Arc<Self>) -> Reading {
        self.n.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        Reading {
            readers: Arc::clone(self),
        }
    }

    /// Returns how many there are.
    pub(crate) fn n(&self) -> usize {
        self.n.load(Ordering::Relaxed)
    }
}

impl Reading {
    /// Takes note that a follow-up was written to this reader, and all before it.
    pub(super) fn has_read(&self, follow_up: Seq) {
        let last = &self.readers.last_follow_up;
        if last.fetch_max(follow_up, Ordering::Relaxed) < follow_up {
            self.readers.changed.notify_one();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.readers.n.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The file that says when the feed was last read, and up to which follow-up: start-up scans of other
/// daemons go by it.
#[derive(Debug)]
pub(crate) struct ReadMarks {
    path: PathBuf,
    epoch: String,
    readers: Arc<Readers>,
    /// When it was last noted, and up to which follow-up.
    noted: Mutex<Option<(Instant, Seq)>>,
}

impl ReadMarks {
    /// Returns the marks of the feed of this epoch, kept in the file `path`.
    pub(crate) fn new(path: PathBuf, epoch: &str, readers: Arc<Readers>) -> Self {
        Self {
            path,
            epoch: epoch.to_owned(),
            readers,
            noted: Mutex::new(None),
        }
    }

    /// Notes readers as they come and read on. It never ends.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            if self.readers.n() == 0 {
                self.readers.changed.notified().await;
            } else {
                // While there are readers, their presence is noted again and again.
                drop(timeout(NOTE_EVERY, self.readers.changed.notified()).await);
            }
            self.note();
        }
    }

    /// Notes who reads, if that is news.
    pub(crate) fn note(&self) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = self.readers.last_follow_up.load(Ordering::Relaxed);
        let has_read_on = noted.map_or(seq > 0, |(_, noted)| seq > noted);
        let is_due = noted.is_none_or(|(at, _)| at.elapsed() >= NOTE_EVERY);
        if has_read_on || (is_due && self.readers.n() > 0) {
            *noted = Some((Instant::now(), seq));
            if let Err(error) = note_read(&self.path, &self.epoch, seq) {
                tracing::warn!(%error, "could not note that the feed is read");
            }
        }
    }
}
