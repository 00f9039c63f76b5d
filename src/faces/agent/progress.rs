//! How far a conversation's records were dealt with, across several streams of one feed.

use std::collections::VecDeque;

use crate::model::Seq;

/// The records that were received and not acknowledged yet.
///
/// An acknowledgement covers everything before it, so a record is acknowledged only when all earlier
/// ones are settled too.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    epoch: String,
    /// The last record that was received, on any stream of this epoch.
    last: Seq,
    /// Received records in order, each with whether it is settled.
    open: VecDeque<(Seq, bool)>,
}

impl Progress {
    /// Begins a stream of the feed with this epoch. Nothing is known of another feed. Returns
    /// whether it is the same feed as before.
    pub(super) fn begin(&mut self, epoch: &str) -> bool {
        let is_same = self.epoch == epoch;
        if !is_same {
            *self = Self {
                epoch: epoch.to_owned(),
                ..Self::default()
            };
        }
        is_same
    }

    /// Notes a record. Returns `false` when an earlier stream had it already.
    pub(super) fn receive(&mut self, seq: Seq) -> bool {
        if seq <= self.last {
            return false;
        }
        self.last = seq;
        self.open.push_back((seq, false));
        true
    }

    /// Marks a record as settled.
    pub(super) fn settle(&mut self, seq: Seq) {
        if let Some(found) = self.open.iter_mut().find(|(open, _)| *open == seq) {
            found.1 = true;
        }
    }

    /// Whether a record was settled, and everything before it.
    pub(super) fn is_settled(&self, seq: Seq) -> bool {
        seq <= self.last && self.open.front().is_none_or(|(open, _)| seq < *open)
    }

    /// Takes the settled records before the first one that is not, and returns the last of them: what
    /// to acknowledge. `None` when there is none.
    pub(super) fn take_settled(&mut self) -> Option<Seq> {
        let mut last = None;
        while let Some((seq, true)) = self.open.front().copied() {
            last = Some(seq);
            self.open.pop_front();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_acknowledged_before_what_is_pending() {
        let mut progress = Progress::default();
        assert!(!progress.begin("e"));
        for seq in [3, 5, 9] {
            assert!(progress.receive(seq));
        }
        assert_eq!(progress.take_settled(), None);
        progress.settle(5);
        assert_eq!(progress.take_settled(), None);
        progress.settle(3);
        assert_eq!(progress.take_settled(), Some(5));
        assert_eq!(progress.take_settled(), None);
        progress.settle(9);
        assert_eq!(progress.take_settled(), Some(9));
    }

    #[test]
    fn a_stream_that_begins_again_repeats_nothing() {
        let mut progress = Progress::default();
        progress.begin("e");
        assert!(progress.receive(3));
        assert!(progress.begin("e"));
        assert!(!progress.receive(3));
        assert!(!progress.is_settled(3));
        progress.settle(3);
        assert_eq!(progress.take_settled(), Some(3));
        assert!(progress.is_settled(3));
        assert!(progress.receive(4));
        assert!(!progress.is_settled(4));
        // Another feed counts from 1 again.
        assert!(!progress.begin("f"));
        assert!(progress.receive(1));
        assert_eq!(progress.take_settled(), None);
    }
}
