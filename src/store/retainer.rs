//! Removes what the feed keeps no longer, on the writing thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::live::Live;
use crate::clock;
use crate::feed::{Retention, closed_segments, remove_before};
use crate::model::Seq;

/// How often segments are checked for their age, and consumers for theirs.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

/// How long after the daemon's start the first check is. Consumers may be read again by then.
const FIRST_CHECK: Duration = Duration::from_secs(60);

/// The closed segments of a feed, and when they are checked next.
#[derive(Debug)]
pub(super) struct Retainer {
    feed: PathBuf,
    epoch: String,
    retention: Retention,
    live: Arc<Live>,
    check_at: Instant,
    /// Whether it was logged that segments cannot be removed.
    has_complained: bool,
}

impl Retainer {
    pub(super) fn new(feed: &Path, epoch: &str, retention: Retention, live: Arc<Live>) -> Self {
        let mut retainer = Self {
            feed: feed.to_owned(),
            epoch: epoch.to_owned(),
            retention,
            live,
            check_at: Instant::now() + FIRST_CHECK,
            has_complained: false,
        };
        let published = retainer.publish();
        retainer.complain(published);
        retainer
    }

    pub(super) fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Returns when the next check is due.
    pub(super) fn check_at(&self) -> Instant {
        self.check_at
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
    }

    fn remove(&mut self, needed: Seq) -> io::Result<()> {
        self.publish()?;
        let files = self.live.files();
        let holders = self.live.consumers().holders();
        let now = clock::now().wall;
        let first = self.retention.first_to_keep(&files, &holders, needed, now);
        if first > files.first_seq() {
            remove_before(&self.feed, &self.epoch, first)?;
            tracing::info!(first, "removed earlier records of the feed");
            self.publish()?;
        }
        self.has_complained = false;
        Ok(())
    }

    fn publish(&mut self) -> io::Result<()> {
        self.live.publish_closed(closed_segments(&self.feed)?);
        Ok(())
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
