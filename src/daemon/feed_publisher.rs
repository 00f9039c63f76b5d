//! Passes records to the store, and publishes notices and counts once they are
//! written.

use std::collections::VecDeque;

use crate::model::{Body, Context, Record, Seq, StatusCounts};
use crate::store::{MOST_WAITING, Store, StoreReport, with_waiting};

/// The store, and what waits for its reports.
#[derive(Debug)]
pub(super) struct FeedPublisher {
    pub(super) store: Store,
    pub(super) context: Context,
    /// The store's latest report.
    pub(super) report: StoreReport,
    /// The sequence number of the last queued record.
    pub(super) given_seq: Seq,
    /// What is displayed once its record is on the disk, with the sequence numbers of the records. While too
    /// many wait for the disk, no looks are taken.
    unshown: VecDeque<(Seq, Body)>,
}

impl FeedPublisher {
    pub(super) fn new(mut store: Store, context: Context) -> Self {
        let report = store.report();
        Self {
            store,
            context,
            given_seq: report.tried,
            report,
            unshown: VecDeque::new(),
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
                self.unshown.push_back((record.seq, record.body.clone()));
            }
        }
        self.store.append(records, &self.context);
    }

    /// Processes the store's latest report. Returns what may be displayed now, events and notices that are not
    /// about events, whose records are on the disk; and the counts, if they have changed.
    pub(super) fn publish(&mut self) -> (Vec<Body>, Option<StatusCounts>) {
        let report = self.store.report();
        let counts = report
            .counts
            .filter(|_| report.counts != self.report.counts);
        self.report = report;
        let written = self.report.written;
        let n_shown = self.unshown.partition_point(|(seq, _)| *seq <= written);
        let shown = self.unshown.drain(..n_shown).map(|(_, what)| what);
        (shown.collect(), counts)
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

    /// Handles a rename: later records have the new name.
    pub(super) fn rename(&mut self, session_name: &str) {
        if self.context.session_name != session_name {
            self.context.session_name = session_name.to_owned();
            self.store.live.rename(session_name);
        }
    }
}
