//! Passes records to the store, and publishes notices and counts once they are
//! written.

use std::collections::VecDeque;

use crate::model::{Body, Bookmark, Context, Record, Seq, Snapshot, StatusCounts};
use crate::store::{MOST_WAITING, SavedLook, Store, StoreReport, with_waiting};

/// How many records may wait to be displayed. Nobody reads more of them one by one.
const MOST_UNSHOWN: usize = 256;

/// What waits for the disk to be displayed, the latest of it, with the sequence numbers of the records.
#[derive(Debug, Default)]
struct DisplayQueue(VecDeque<(Seq, Body)>);

impl DisplayQueue {
    fn push(&mut self, seq: Seq, what: Body) {
        self.0.push_back((seq, what));
        if self.0.len() > MOST_UNSHOWN {
            self.0.pop_front();
        }
    }

    /// Takes what may be displayed once the records up to this sequence number are on the disk.
    fn take(&mut self, written: Seq) -> Vec<Body> {
        let n_shown = self.0.partition_point(|(seq, _)| *seq <= written);
        self.0.drain(..n_shown).map(|(_, what)| what).collect()
    }
}

/// The store, and what waits for its reports.
#[derive(Debug)]
pub(super) struct FeedPublisher {
    pub(super) store: Store,
    pub(super) context: Context,
    /// The store's latest report.
    pub(super) report: StoreReport,
    /// The sequence number of the last queued record.
    pub(super) given_seq: Seq,
    /// The counts queued last.
    pub(super) given_counts: Option<StatusCounts>,
    /// What is displayed once its record is on the disk.
    unshown: DisplayQueue,
}

/// What may be shown after a report of the store.
#[derive(Debug, Default)]
pub(super) struct Publication {
    /// Events, and notices that are not about events, whose records are on the disk.
    pub(super) shown: Vec<Body>,
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
            unshown: DisplayQueue::default(),
        }
    }

    /// Queues records for writing. It never waits: [`Store::changed`] resolves when the store reports.
    pub(super) fn append(&mut self, records: Vec<Record>) {
        for record in &records {
            self.given_seq = record.seq;
            let is_shown = match &record.body {
                Body::Event(_) => true,
                Body::Notice { events, .. } => events.is_empty(),
                Body::FollowUp { .. } => false,
            };
            if is_shown {
                self.unshown.push(record.seq, record.body.clone());
            }
        }
        self.store.append(records, &self.context);
    }

    /// Queues counts, which are published when the records before them are written.
    pub(super) fn publish_counts(&mut self, counts: StatusCounts) {
        self.given_counts = Some(counts);
        self.store.publish(counts);
    }

    /// Processes the store's latest report. Returns what may be shown now.
    pub(super) fn publish(&mut self) -> Publication {
        let report = self.store.report();
        let counts = report
            .counts
            .filter(|_| report.counts != self.report.counts);
        self.report = report;
        let shown = self.unshown.take(self.report.written);
        Publication { shown, counts }
    }

    /// Returns why records are not on the disk, if the disk refuses them.
    pub(super) fn problem(&self) -> Option<String> {
        let report = self.store.peek();
        let n_waiting = self.given_seq - report.written;
        Some(with_waiting(&report.problem?, n_waiting, self.is_full()))
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

    /// Handles a rename: later records have the new name.
    pub(super) fn rename(&mut self, session_name: &str) {
        if self.context.session_name != session_name {
            self.context.session_name = session_name.to_owned();
            self.store.live.rename(session_name);
        }
    }

    /// Whether the disk has accepted or refused the records up to this sequence number, and these
    /// counts are published.
    pub(super) fn has_tried(&self, seq: Seq, counts: Option<StatusCounts>) -> bool {
        self.report.tried >= seq && self.report.counts == counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Level;

    fn push(queue: &mut DisplayQueue, seqs: std::ops::Range<Seq>) {
        for seq in seqs {
            queue.push(seq, notice(seq));
        }
    }

    fn notice(seq: Seq) -> Body {
        Body::Notice {
            level: Level::Info,
            text: seq.to_string(),
            events: Vec::new(),
            owner: None,
        }
    }

    #[test]
    fn of_many_records_the_latest_are_displayed() {
        let mut queue = DisplayQueue::default();
        push(&mut queue, 0..2);
        assert_eq!(queue.take(9), [notice(0), notice(1)]);
        assert_eq!(queue.take(9), []);
        push(&mut queue, 0..300);
        assert_eq!(queue.take(0), []);
        let shown = queue.take(300);
        assert_eq!(shown.len(), MOST_UNSHOWN);
        assert_eq!(shown[0], notice(44));
        assert_eq!(queue.take(300), []);
    }

    #[test]
    fn a_record_is_displayed_once_it_is_on_the_disk() {
        let mut queue = DisplayQueue::default();
        push(&mut queue, 1..4);
        assert_eq!(queue.take(0), []);
        assert_eq!(queue.take(2), [notice(1), notice(2)]);
        assert_eq!(queue.take(2), []);
        assert_eq!(queue.take(3), [notice(3)]);
    }
}
