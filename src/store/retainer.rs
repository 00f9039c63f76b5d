//! Removes what the feed keeps no longer, on the writing thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::Live;
use crate::clock;
use crate::model::{Body, EventKind, Millis, Record, Seq};
use crate::store::feed::{Ages, Retention, closed_segments, remove_before, sync_saved};

/// How often segments are checked for their age, and consumers for theirs.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

/// How long after the daemon's start the first check is. Consumers may be read again by then.
const FIRST_CHECK: Duration = Duration::from_secs(60);

/// How far the noted time of the last run or follow-up may be behind, in milliseconds.
const NOTE_EVERY: Millis = 60_000;

/// The closed segments of a feed, and when they are checked next.
#[derive(Debug)]
pub(super) struct Retainer {
    feed: PathBuf,
    epoch: String,
    pub(super) retention: Retention,
    ages: Ages,
    /// The file of the saved snapshot.
    saved: PathBuf,
    live: Arc<Live>,
    pub(super) check_at: Instant,
    /// Whether it was logged that segments cannot be removed.
    has_complained: bool,
}

impl Retainer {
    pub(super) fn new(
        feed: &Path,
        epoch: &str,
        retention: Retention,
        ages: Ages,
        saved: &Path,
        live: Arc<Live>,
    ) -> Self {
        let mut retainer = Self {
            feed: feed.to_owned(),
            epoch: epoch.to_owned(),
            retention,
            ages,
            saved: saved.to_owned(),
            live,
            check_at: Instant::now() + FIRST_CHECK,
            has_complained: false,
        };
        let published = retainer.publish();
        retainer.complain(published);
        retainer.store_ages();
        retainer
    }

    /// Makes a check due now: there is a new segment.
    pub(super) fn check_soon(&mut self) {
        self.check_at = Instant::now();
    }

    /// Puts a check that is due off for a while: it is not known what the next daemon needs.
    pub(super) fn put_off(&mut self) {
        if self.check_at <= Instant::now() {
            self.check_at = Instant::now() + FIRST_CHECK;
        }
    }

    /// Removes segments, if a check is due. Records from `needed` on stay.
    pub(super) fn check(&mut self, needed: Seq) {
        if self.check_at > Instant::now() {
            return;
        }
        self.check_at = Instant::now() + CHECK_EVERY;
        let removed = self.remove(needed);
        self.complain(removed);
        self.store_ages();
    }

    /// Notes when a run last began or ended, and when the last follow-up was recorded: other daemons
    /// do not end the session soon after.
    pub(super) fn note(&mut self, record: &Record) {
        let now = self.now();
        let noted = match &record.body {
            Body::Event(event) => match event.kind {
                EventKind::Started { .. }
                | EventKind::Exited { .. }
                | EventKind::Disappeared { .. } => &mut self.ages.last_run,
                EventKind::Notify { .. }
                | EventKind::Output(_)
                | EventKind::Input { .. }
                | EventKind::InputResolved { .. } => return,
            },
            Body::FollowUp { .. } => &mut self.ages.last_follow_up,
            Body::Notice { .. } => return,
        };
        if noted.is_none_or(|before| now - before >= NOTE_EVERY) {
            *noted = Some(now);
            self.store_ages();
        }
    }

    /// Stores how old the feed's records are.
    pub(super) fn store_ages(&mut self) {
        if let Err(error) = self.ages.store(&clock::boot_time()) {
            tracing::warn!(%error, "could not store how old the feed's records are");
        }
    }

    fn remove(&mut self, needed: Seq) -> io::Result<()> {
        self.publish()?;
        let kept = self.live.files();
        let holders = self.live.consumers.holders();
        let now = self.now();
        let first = self.retention.first_to_keep(&kept, &holders, needed, now);
        if first > kept.first_seq() {
            // What the next daemon reads depends on it.
            sync_saved(&self.saved)?;
            remove_before(&self.feed, &self.epoch, first)?;
            tracing::info!(first, "removed earlier records of the feed");
            self.publish()?;
        }
        self.has_complained = false;
        Ok(())
    }

    fn publish(&mut self) -> io::Result<()> {
        let closed = closed_segments(&self.feed, &self.ages, self.now())?;
        if self.ages.note_closed(&closed) {
            self.store_ages();
        }
        self.live.publish_closed(closed);
        Ok(())
    }

    /// Returns the time by the feed's clock.
    fn now(&self) -> Millis {
        self.ages.clock().at(clock::since_boot())
    }

    fn complain(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            if !self.has_complained {
                tracing::error!(%error, "could not remove earlier records of the feed");
            }
            self.has_complained = true;
        }
    }
}
