//! Who reads the feed and how far, and the file with which other daemons learn it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::clock;
use crate::model::{AgeClock, Seq};
use crate::store::feed::note_read;

/// How often a present reader is stored, so that its session does not count as unused.
const NOTE_EVERY: Duration = Duration::from_secs(60);

/// For whom a stream is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Audience {
    /// For the user: a panel.
    User,
    /// For whoever reads the messages of all owners.
    AllOwners,
    /// For the conversation with this owner.
    Owner(String),
}

/// The readers of a feed.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Those that are there, by a number of each.
    present: Mutex<Present>,
    /// The sequence number of the last follow-up that was written to one of them.
    last_follow_up: AtomicU64,
    /// Notified when a reader arrives and when a follow-up is written.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Present {
    last: u64,
    readers: BTreeMap<u64, Audience>,
}

/// One reader. Dropping it decreases the number of readers.
#[derive(Debug)]
pub(super) struct ReaderGuard {
    readers: Arc<Readers>,
    number: u64,
}

impl Readers {
    /// Counts one more reader.
    pub(super) fn begin(self: &Arc<Self>, audience: Audience) -> ReaderGuard {
        let mut present = self.present();
        present.last += 1;
        let number = present.last;
        present.readers.insert(number, audience);
        drop(present);
        self.changed.notify_one();
        ReaderGuard {
            readers: Arc::clone(self),
            number,
        }
    }

    /// Returns how many there are.
    pub(crate) fn n(&self) -> usize {
        self.present().readers.len()
    }

    /// Returns for which owners programs read; `None` for all owners.
    pub(crate) fn owners(&self) -> Vec<Option<String>> {
        let owner = |audience: &Audience| match audience {
            Audience::User => None,
            Audience::AllOwners => Some(None),
            Audience::Owner(owner) => Some(Some(owner.clone())),
        };
        self.present().readers.values().filter_map(owner).collect()
    }

    /// Returns the last follow-up that was written to one of them; 0 for none.
    pub(super) fn last_follow_up(&self) -> Seq {
        self.last_follow_up.load(Ordering::Relaxed)
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        // Nothing is left half done while it is held.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReaderGuard {
    /// Notes that all follow-ups up to this one were written to this reader.
    pub(super) fn has_read(&self, follow_up: Seq) {
        let last = &self.readers.last_follow_up;
        if last.fetch_max(follow_up, Ordering::Relaxed) < follow_up {
            self.readers.changed.notify_one();
        }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.readers.present().readers.remove(&self.number);
    }
}

/// The file with the time when the feed was last read, and the last follow-up read: start-up scans
/// of other daemons use it.
#[derive(Debug)]
pub(crate) struct ReadMarks {
    path: PathBuf,
    epoch: String,
    /// The feed's clock.
    ages: AgeClock,
    readers: Arc<Readers>,
    /// When it was last stored, and up to which follow-up.
    noted: Mutex<Option<(Instant, Seq)>>,
}

impl ReadMarks {
    /// Returns the marks of the feed with this epoch, stored in the file `path`.
    pub(crate) fn new(path: PathBuf, epoch: &str, ages: AgeClock, readers: Arc<Readers>) -> Self {
        Self {
            path,
            epoch: epoch.to_owned(),
            ages,
            readers,
            noted: Mutex::new(None),
        }
    }

    /// Stores arrivals and progress of readers. It never ends.
    pub(crate) async fn keep(self: Arc<Self>) {
        loop {
            if self.readers.n() == 0 {
                self.readers.changed.notified().await;
            } else {
                // While there are readers, their presence is stored repeatedly.
                drop(timeout(NOTE_EVERY, self.readers.changed.notified()).await);
            }
            self.note();
        }
    }

    /// Stores the present state, if it has changed.
    pub(crate) fn note(&self) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = self.readers.last_follow_up();
        let has_read_on = noted.map_or(seq > 0, |(_, noted)| seq > noted);
        let is_due = noted.is_none_or(|(at, _)| at.elapsed() >= NOTE_EVERY);
        if has_read_on || (is_due && self.readers.n() > 0) {
            *noted = Some((Instant::now(), seq));
            let now = self.ages.at(clock::since_boot());
            if let Err(error) = note_read(&self.path, &self.epoch, seq, now) {
                tracing::warn!(%error, "could not note that the feed is read");
            }
        }
    }
}
