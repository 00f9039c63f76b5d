//! Passes the engine's records to the store, and publishes notices and counts once they are
//! written.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::Effect;
use crate::model::{Body, Bookmark, Level, Seq, Snapshot, StatusCounts};
use crate::store::{Live, MOST_WAITING, Report, SavedLook, Store, StoreGone, with_waiting};
use crate::wire::{Checkpoint, Context};

/// A notice that is shown once its record is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoticeToShow {
    /// The sequence number of its record.
    pub(super) seq: Seq,
    pub(super) level: Level,
    pub(super) text: String,
}

/// How many notices may be queued for display: no user reads more of them one by one.
const MOST_UNSHOWN: usize = 16;

/// Notices that wait for the disk, the latest of them.
#[derive(Debug, Default)]
struct NoticeQueue {
    latest: VecDeque<NoticeToShow>,
    /// How many earlier ones were dropped.
    n_earlier: usize,
}

impl NoticeQueue {
    fn push(&mut self, notice: NoticeToShow) {
        self.latest.push_back(notice);
        if self.latest.len() > MOST_UNSHOWN {
            self.latest.pop_front();
            self.n_earlier += 1;
        }
    }

    /// Takes the notices to show once the records up to this sequence number are on the disk.
    /// Dropped notices are counted.
    fn take(&mut self, written: Seq) -> Vec<NoticeToShow> {
        let n_shown = self.latest.partition_point(|notice| notice.seq <= written);
        let shown: Vec<NoticeToShow> = self.latest.drain(..n_shown).collect();
        let earlier = match (std::mem::take(&mut self.n_earlier), shown.first()) {
            (0, _) => None,
            (n_earlier, Some(first)) => Some(NoticeToShow {
                seq: first.seq,
                level: Level::Info,
                text: format!(
                    "{n_earlier} earlier notices are in the feed: tmux-task feed --kind notice"
                ),
            }),
            (n_earlier, None) => {
                self.n_earlier = n_earlier;
                None
            }
        };
        earlier.into_iter().chain(shown).collect()
    }
}

/// The store, and what waits for its reports.
#[derive(Debug)]
pub(super) struct FeedPublisher {
    store: Store,
    context: Context,
    /// The store's latest report.
    report: Report,
    /// The sequence number of the last queued record.
    given_seq: Seq,
    /// The counts queued last.
    given_counts: Option<StatusCounts>,
    /// Notices whose records are not on the disk yet.
    unshown: NoticeQueue,
}

/// What may be shown after a report of the store.
#[derive(Debug, Default)]
pub(super) struct Publication {
    /// Notices whose records are on the disk.
    pub(super) shown: Vec<NoticeToShow>,
    /// The counts, if they have changed.
    pub(super) counts: Option<StatusCounts>,
}

impl FeedPublisher {
    pub(super) fn new(mut store: Store, context: Context) -> Self {
        let report = store.report();
        Self {
            store,
            context,
            given_seq: report.tried,
            given_counts: None,
            report,
            unshown: NoticeQueue::default(),
        }
    }

    /// Queues the effects of one input for writing. It never waits: [`FeedPublisher::changed`]
    /// resolves when the store reports.
    pub(super) fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(records) => {
                    for record in &records {
                        self.given_seq = record.seq;
                        match &record.body {
                            Body::Notice { level, text, .. } => {
                                let text = text.clone();
                                self.unshown.push(NoticeToShow {
                                    seq: record.seq,
                                    level: *level,
                                    text,
                                });
                            }
                            Body::Event(_) | Body::FollowUp { .. } => {}
                        }
                    }
                    self.store.append(records, &self.context);
                }
                Effect::Status(counts) => {
                    self.given_counts = Some(counts);
                    self.store.publish(counts);
                }
            }
        }
    }

    /// Resolves when the store has a report. An error means that its thread has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn changed(&mut self) -> Result<(), StoreGone> {
        self.store.changed().await
    }

    /// Processes the store's latest report. Returns what may be shown now.
    pub(super) fn publish(&mut self) -> Publication {
        let report = self.store.report();
        let counts = report
            .counts
            .filter(|_| report.counts != self.report.counts);
        self.report = report;
        Publication {
            shown: self.unshown.take(self.report.written),
            counts,
        }
    }

    /// Resolves when everything queued is written and saved, or refused.
    pub(super) async fn close(&self) {
        self.store.close().await;
    }

    /// Returns why records are not on the disk, if the disk refuses them.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.report.problem.as_ref()?;
        let n_waiting = self.given_seq - self.report.written;
        Some(with_waiting(problem, n_waiting, self.is_full()))
    }

    /// Whether so much waits for the disk that no look should be taken: a later look finds the
    /// changes.
    pub(super) fn is_full(&self) -> bool {
        self.report.is_full || self.given_seq - self.report.written >= MOST_WAITING
    }

    /// Saves this look, which includes the records queued so far. Returns whether it was queued: it
    /// is not while others wait for the disk. `first_undelivered` is the first event that is not
    /// delivered yet.
    #[must_use]
    pub(super) fn save(
        &self,
        look: &Snapshot,
        bookmark: Bookmark,
        first_undelivered: Option<Seq>,
    ) -> bool {
        self.store.save(SavedLook {
            snapshot: look.clone(),
            bookmark,
            first_undelivered,
        })
    }

    /// Sets the checkpoint for the next recorded events.
    pub(super) fn set_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.context.checkpoint = Some(checkpoint);
    }

    /// Handles a rename: later records have the new name.
    pub(super) fn rename(&mut self, session_name: &str) {
        if self.context.session_name != session_name {
            self.context.session_name = session_name.to_owned();
            self.store.live().rename(session_name);
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the sequence number of the last record on the disk.
    pub(super) fn last_seq(&self) -> Seq {
        self.report.written
    }

    /// Returns the sequence number of the last record queued.
    pub(super) fn given_seq(&self) -> Seq {
        self.given_seq
    }

    /// Returns the counts queued last.
    pub(super) fn given_counts(&self) -> Option<StatusCounts> {
        self.given_counts
    }

    /// Whether the disk has accepted or refused the records up to this sequence number, and these
    /// counts are published.
    pub(super) fn has_tried(&self, seq: Seq, counts: Option<StatusCounts>) -> bool {
        self.report.tried >= seq && self.report.counts == counts
    }

    /// Returns the sequence number of the last record that the disk has accepted or refused.
    pub(super) fn tried_seq(&self) -> Seq {
        self.report.tried
    }

    /// Returns what readers are served from.
    pub(super) fn live(&self) -> &Arc<Live> {
        self.store.live()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(seq: Seq) -> NoticeToShow {
        NoticeToShow {
            seq,
            level: Level::Warning,
            text: seq.to_string(),
        }
    }

    #[test]
    fn few_notices_are_shown_as_they_are_and_of_many_the_latest() {
        let mut unshown = NoticeQueue::default();
        (0..2).for_each(|seq| unshown.push(notice(seq)));
        assert_eq!(unshown.take(9), [notice(0), notice(1)]);
        assert_eq!(unshown.take(9), []);
        (0..100).for_each(|seq| unshown.push(notice(seq)));
        let shown = unshown.take(100);
        assert_eq!(shown.len(), MOST_UNSHOWN + 1);
        assert!(shown[0].text.starts_with("84 earlier notices"));
        assert_eq!(shown[1], notice(84));
        assert_eq!(shown.last(), Some(&notice(99)));
    }

    #[test]
    fn a_notice_is_shown_once_it_is_on_the_disk() {
        let mut unshown = NoticeQueue::default();
        (1..4).for_each(|seq| unshown.push(notice(seq)));
        assert_eq!(unshown.take(0), []);
        assert_eq!(unshown.take(2), [notice(1), notice(2)]);
        assert_eq!(unshown.take(2), []);
        assert_eq!(unshown.take(3), [notice(3)]);
    }
}
