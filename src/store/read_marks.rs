//! Who reads the feed and how far, and the file with which other daemons learn it.

use std::collections::BTreeMap;
use std::path::PathBuf;
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

/// The readers of a feed, and the file with the time when it was last read, and the last follow-up read:
/// start-up scans of other daemons use it.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    epoch: String,
    /// The feed's clock.
    ages: AgeClock,
    state: Mutex<State>,
    /// Notified when a reader arrives and when a follow-up is written.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// Those that are there, by a number of each.
    present: BTreeMap<u64, Audience>,
    /// The sequence number of the last follow-up that was written to one of them; 0 for none.
    last_follow_up: Seq,
    /// When it was last stored, and up to which follow-up.
    noted: Option<(Instant, Seq)>,
}

/// One reader. Dropping it decreases the number of readers.
#[derive(Debug)]
pub(super) struct ReaderGuard {
    readers: Arc<Readers>,
    number: u64,
}

impl Readers {
    /// Returns the readers of the feed with this epoch, which are noted in the file `path`.
    pub(super) fn new(path: PathBuf, epoch: &str, ages: AgeClock) -> Self {
        Self {
            path,
            epoch: epoch.to_owned(),
            ages,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Counts one more reader.
    pub(super) fn begin(self: &Arc<Self>, audience: Audience) -> ReaderGuard {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.present.insert(number, audience);
        drop(state);
        self.changed.notify_one();
        ReaderGuard {
            readers: Arc::clone(self),
            number,
        }
    }

    /// Returns how many there are.
    pub(crate) fn n(&self) -> usize {
        self.state().present.len()
    }

    /// Returns for which owners programs read; `None` for all owners.
    pub(crate) fn owners(&self) -> Vec<Option<String>> {
        let owner = |audience: &Audience| match audience {
            Audience::User => None,
            Audience::AllOwners => Some(None),
            Audience::Owner(owner) => Some(Some(owner.clone())),
        };
        self.state().present.values().filter_map(owner).collect()
    }

    /// Stores arrivals and progress of readers. It never ends.
    pub(crate) async fn keep_noted(self: Arc<Self>) {
        loop {
            if self.n() == 0 {
                self.changed.notified().await;
            } else {
                // While there are readers, their presence is stored repeatedly.
                drop(timeout(NOTE_EVERY, self.changed.notified()).await);
            }
            self.note();
        }
    }

    /// Stores the present state, if it has changed.
    pub(crate) fn note(&self) {
        let state = self.state();
        let has_read_on = state.last_follow_up > state.noted.map_or(0, |(_, noted)| noted);
        let is_due = || state.noted.is_none_or(|(at, _)| at.elapsed() >= NOTE_EVERY);
        if has_read_on || !state.present.is_empty() && is_due() {
            drop(state);
            self.store();
        }
    }

    /// Stores that the feed is read now.
    pub(super) fn store(&self) {
        let mut state = self.state();
        let seq = state.last_follow_up;
        state.noted = Some((Instant::now(), seq));
        drop(state);
        let now = self.ages.at(clock::since_boot());
        if let Err(error) = note_read(&self.path, &self.epoch, seq, now) {
            tracing::warn!(%error, "could not note that the feed is read");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReaderGuard {
    /// Notes that all follow-ups up to this one were written to this reader.
    pub(super) fn has_read(&self, follow_up: Seq) {
        let mut state = self.readers.state();
        if state.last_follow_up < follow_up {
            state.last_follow_up = follow_up;
            drop(state);
            self.readers.changed.notify_one();
        }
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.readers.state().present.remove(&self.number);
    }
}
