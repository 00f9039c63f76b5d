//! What tmux reported while the hub read something else: in order, and within bounds.

use std::collections::{BTreeSet, VecDeque, vec_deque};

use super::control_clients::Change;
use crate::model::PaneId;

/// How much output may wait. One reading takes milliseconds, in which far less arrives.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// How many changes may wait. Beyond these only what is not in the queue yet is added: one change
/// of each kind, and one for each pane.
const MOST_CHANGES: usize = 16 * 1024;

/// Changes that are still to be taken account of.
///
/// Output beyond the bounds is dropped, and its pane is reported as paused in its place: the hub
/// reads that pane's history again, from where its waits stand. What the history has lost ends
/// them as `anchorLost`; readers of the output are told that they fell behind. The feed does not
/// come by this way.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    changes: VecDeque<Change>,
    /// Of all output in `changes`.
    bytes: usize,
    /// Panes of which output was dropped. Cleared when the queue is empty.
    cut: BTreeSet<PaneId>,
}

impl Backlog {
    /// Adds changes behind all others.
    pub(super) fn extend(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.push(change);
        }
    }

    /// Takes the first change.
    pub(super) fn pop(&mut self) -> Option<Change> {
        let change = self.changes.pop_front();
        if let Some(Change::Printed { bytes, .. }) = &change {
            self.bytes -= bytes.len();
        }
        if self.changes.is_empty() {
            self.cut.clear();
        }
        change
    }

    /// Takes all of them.
    pub(super) fn drain(&mut self) -> vec_deque::Drain<'_, Change> {
        self.bytes = 0;
        self.cut.clear();
        self.changes.drain(..)
    }

    fn push(&mut self, change: Change) {
        let is_long = self.changes.len() >= MOST_CHANGES;
        match &change {
            Change::Printed { pane, .. } if self.cut.contains(pane) => return,
            Change::Printed { pane, bytes } if is_long || self.bytes + bytes.len() > MOST_BYTES => {
                tracing::warn!(%pane, "output arrives faster than it is read");
                self.cut.insert(*pane);
                self.changes.push_back(Change::Paused(*pane));
                return;
            }
            Change::Printed { bytes, .. } => self.bytes += bytes.len(),
            // Whatever a look finds out, a look that is still to come finds out as well.
            Change::Task
            | Change::Windows
            | Change::Output
            | Change::Unfollowed
            | Change::Paused(_)
            | Change::FollowerLost
            | Change::Layout => {
                if is_long && self.changes.contains(&change) {
                    return;
                }
            }
        }
        self.changes.push_back(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PaneId = PaneId(1);
    const B: PaneId = PaneId(2);

    fn printed(pane: PaneId, n: usize) -> Change {
        Change::Printed {
            pane,
            bytes: vec![b'x'; n],
        }
    }

    fn all(backlog: &mut Backlog) -> Vec<Change> {
        std::iter::from_fn(|| backlog.pop()).collect()
    }

    #[test]
    fn what_fits_comes_out_as_it_went_in() {
        let changes = || {
            [
                printed(A, MOST_BYTES - 1),
                Change::Layout,
                printed(B, 1),
                Change::Layout,
            ]
        };
        let mut backlog = Backlog::default();
        backlog.extend(changes());
        assert_eq!(all(&mut backlog), changes());
        // There is room again, whichever way they were taken.
        backlog.extend(changes());
        assert_eq!(backlog.drain().collect::<Vec<_>>(), changes());
        backlog.extend(changes());
        assert_eq!(all(&mut backlog), changes());
    }

    #[test]
    fn a_pane_whose_output_does_not_fit_is_read_again_and_the_others_are_not() {
        let mut backlog = Backlog::default();
        backlog.extend([
            printed(A, MOST_BYTES - 10),
            printed(A, 11),
            // Without what came before, it is of no use.
            printed(A, 1),
            printed(B, 10),
            Change::Task,
        ]);
        let expected = [
            printed(A, MOST_BYTES - 10),
            Change::Paused(A),
            printed(B, 10),
            Change::Task,
        ];
        assert_eq!(all(&mut backlog), expected);
        // What the pane prints after it was read is followed.
        backlog.extend([printed(A, 1)]);
        assert_eq!(all(&mut backlog), [printed(A, 1)]);
    }

    #[test]
    fn changes_beyond_the_bound_are_there_once() {
        let mut backlog = Backlog::default();
        backlog.extend((0..MOST_CHANGES).map(|_| printed(A, 1)));
        for _ in 0..3 {
            backlog.extend([
                Change::Task,
                printed(A, 1),
                printed(B, 1),
                Change::FollowerLost,
                Change::Layout,
            ]);
        }
        let changes = all(&mut backlog);
        let expected = [
            Change::Task,
            Change::Paused(A),
            Change::Paused(B),
            Change::FollowerLost,
            Change::Layout,
        ];
        assert_eq!(changes[MOST_CHANGES..], expected);
        assert_eq!((backlog.bytes, backlog.cut.len()), (0, 0));
    }
}
