//! Makes the engine's decisions durable, then tells those who listen: never the other way round.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::Instant;

use super::stream::{Extent, NEWS_KEPT, News, Readers, Subscription};
use crate::engine::Effect;
use crate::feed::{FeedError, Journal, Reader, Sequence};
use crate::model::{Body, Level, Seq, StatusCounts};
use crate::wire::{Checkpoint, Context, Filter, LiveRecord, VERSION};

/// How long to wait before a disk that refused is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A notice that is on the disk and may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) level: Level,
    pub(super) text: String,
}

/// How many notices wait at most to be shown: after a while nobody reads them one by one.
const MOST_UNSHOWN: usize = 16;

/// Notices that wait for the disk, the latest of them.
#[derive(Debug, Default)]
struct Unshown {
    latest: VecDeque<Shown>,
    /// How many came before those.
    n_earlier: usize,
}

impl Unshown {
    fn push(&mut self, notice: Shown) {
        self.latest.push_back(notice);
        if self.latest.len() > MOST_UNSHOWN {
            self.latest.pop_front();
            self.n_earlier += 1;
        }
    }

    /// Returns what is to be shown, and forgets it. Notices that are left out are counted.
    fn take(&mut self) -> Vec<Shown> {
        let Self { latest, n_earlier } = std::mem::take(self);
        let earlier = (n_earlier > 0).then(|| Shown {
            level: Level::Info,
            text: format!(
                "{n_earlier} earlier notices are in the feed: tmux-task feed --kind notice"
            ),
        });
        earlier.into_iter().chain(latest).collect()
    }
}

/// The feed's writer and its listeners.
#[derive(Debug)]
pub(super) struct FeedPublisher {
    journal: Journal,
    context: Context,
    news: broadcast::Sender<News>,
    /// The counts as last told; what a new reader begins with.
    counts: Option<StatusCounts>,
    /// The number of the last record that is on the disk.
    last_seq: Seq,
    /// The number of the last record that was handed over.
    given_seq: Seq,
    /// Notices whose records are not on the disk yet.
    unshown: Unshown,
    /// When a disk that refused is tried again.
    retry_at: Option<Instant>,
    /// Why the disk refused; `None` while everything is written.
    problem: Option<String>,
}

impl FeedPublisher {
    pub(super) fn new(journal: Journal, context: Context, last_seq: Seq) -> Self {
        Self {
            journal,
            context,
            news: broadcast::Sender::new(NEWS_KEPT),
            counts: None,
            last_seq,
            given_seq: last_seq,
            unshown: Unshown::default(),
            retry_at: None,
            problem: None,
        }
    }

    /// Performs the effects of one turn; returns the notices that may be shown now.
    pub(super) fn perform(&mut self, effects: Vec<Effect>) -> Vec<Shown> {
        let mut shown = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append(records) => {
                    for record in &records {
                        self.given_seq = record.seq;
                        match &record.body {
                            Body::Notice { level, text, .. } => {
                                let text = text.clone();
                                self.unshown.push(Shown {
                                    level: *level,
                                    text,
                                });
                            }
                            Body::Event(_) | Body::FollowUp { .. } => {}
                        }
                    }
                    let written = self.journal.append(&records, &self.context);
                    shown.extend(self.settle(written));
                }
                Effect::Status(counts) => {
                    self.counts = Some(counts);
                    self.tell_status();
                }
            }
        }
        shown
    }

    /// Returns what a reader is told of the counts, and of a disk that refuses.
    fn status(&self) -> Option<LiveRecord> {
        let mut status = LiveRecord::from(self.counts?);
        if let LiveRecord::Status { problem, .. } = &mut status {
            *problem = self.problem();
        }
        Some(status)
    }

    fn tell_status(&self) {
        if let Some(status) = self.status() {
            let extent = self.extent();
            self.tell(News::Status { extent, status });
        }
    }

    /// Returns why records are not on the disk, if any are not.
    pub(super) fn problem(&self) -> Option<String> {
        let waiting = self.given_seq - self.last_seq;
        let problem = self.problem.as_ref()?;
        Some(format!("{problem}; {waiting} records wait in memory"))
    }

    /// Tries again to write what the disk refused.
    pub(super) fn retry(&mut self) -> Vec<Shown> {
        let written = self.journal.flush();
        self.settle(written)
    }

    /// Returns when [`FeedPublisher::retry`] has something to do.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    fn settle(&mut self, written: Result<(), FeedError>) -> Vec<Shown> {
        match written {
            Ok(()) => {
                if self.retry_at.take().is_some() {
                    tracing::info!(last_seq = self.given_seq, "the feed can be written again");
                }
                self.last_seq = self.given_seq;
                self.tell(News::Grown(self.extent()));
                if self.problem.take().is_some() {
                    self.tell_status();
                }
                self.unshown.take()
            }
            Err(error) => {
                if self.retry_at.is_none() {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::error!(%error, cause, "the feed's disk refuses; records wait");
                    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                    self.problem = Some(format!("{error}{cause}"));
                    self.tell_status();
                }
                self.retry_at = Some(Instant::now() + RETRY_AFTER);
                Vec::new()
            }
        }
    }

    /// Whether everything that was handed over is on the disk.
    pub(super) fn is_settled(&self) -> bool {
        !self.journal.is_behind()
    }

    /// Whether so much waits for the disk that no look should be taken: what changes meanwhile is
    /// found by the look after it.
    pub(super) fn is_full(&self) -> bool {
        self.journal.is_full()
    }

    /// Takes note of where the look left the daemon whose events are recorded next.
    pub(super) fn set_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.context.checkpoint = Some(checkpoint);
    }

    /// Follows a rename: later records bear the new name.
    pub(super) fn rename(&mut self, session_name: &str) {
        if self.context.session_name != session_name {
            self.context.session_name = session_name.to_owned();
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the number of the last record on the disk.
    pub(super) fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Returns a stream that passes over the records up to the number `after`; without it, one
    /// that begins with what is recorded from now on.
    pub(super) fn subscribe(
        &self,
        after: Option<Seq>,
        filter: Filter,
        readers: Arc<Readers>,
    ) -> Subscription {
        let extent = self.extent();
        let reader = match after {
            Some(after) => {
                let first = after.saturating_sub(Filter::LOOKS_BACK);
                Reader::before(self.journal.path(), first)
            }
            None => Reader::new(self.journal.path(), extent.end),
        };
        Subscription {
            hello: LiveRecord::Hello {
                v: VERSION,
                epoch: self.context.epoch.clone(),
                last_seq: self.last_seq,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                session_name: self.context.session_name.clone(),
            },
            status: self.status(),
            reader,
            sequence: Sequence::after(after.unwrap_or(self.last_seq)),
            filter,
            extent,
            news: self.news.subscribe(),
            has_skipped: false,
            readers,
        }
    }

    fn extent(&self) -> Extent {
        Extent {
            end: self.journal.end(),
            last_seq: self.last_seq,
            file: self.journal.changes(),
        }
    }

    fn tell(&self, news: News) {
        // Without readers there is nobody to tell: no failure.
        drop(self.news.send(news));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(n: usize) -> Shown {
        Shown {
            level: Level::Warning,
            text: n.to_string(),
        }
    }

    #[test]
    fn few_notices_are_shown_as_they_are_and_of_many_the_latest() {
        let mut unshown = Unshown::default();
        (0..2).for_each(|n| unshown.push(notice(n)));
        assert_eq!(unshown.take(), [notice(0), notice(1)]);
        assert_eq!(unshown.take(), []);
        (0..100).for_each(|n| unshown.push(notice(n)));
        let shown = unshown.take();
        assert_eq!(shown.len(), MOST_UNSHOWN + 1);
        assert!(shown[0].text.starts_with("84 earlier notices"));
        assert_eq!(shown[1], notice(84));
        assert_eq!(shown.last(), Some(&notice(99)));
    }
}
