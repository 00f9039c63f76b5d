//! Windows and panes that a look does not have any more.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{GoneReason, PaneId, WindowId};

/// The windows that are gone since the last look and whose tasks were alive, or may be restarted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Departures {
    /// Those that a command of ours has ended, with its reason.
    pub(crate) killed: BTreeMap<WindowId, GoneReason>,
    /// Those that may have been moved to another session: only tmux knows.
    pub(crate) unexplained: Vec<WindowId>,
}

impl Departures {
    /// Compares the windows that the last look watched, with the pids of their live runs, with those
    /// that are present now. `killed` has the windows that a command of ours has ended, `ended` the
    /// processes that have ended.
    pub(crate) fn new(
        watched: &[(WindowId, Option<u32>)],
        present: &BTreeSet<WindowId>,
        killed: &BTreeMap<WindowId, GoneReason>,
        ended: &BTreeSet<u32>,
    ) -> Self {
        let mut departures = Self::default();
        for (window, pid) in watched {
            if present.contains(window) {
                continue;
            }
            match killed.get(window) {
                Some(reason) => drop(departures.killed.insert(*window, *reason)),
                // A pane whose process has ended was not moved.
                None if pid.is_some_and(|pid| ended.contains(&pid)) => {}
                None => departures.unexplained.push(*window),
            }
        }
        departures
    }
}

/// Returns the panes that were primary and are not any more, in windows that still exist.
pub(crate) fn replaced_panes(
    before: &BTreeMap<WindowId, PaneId>,
    now: impl IntoIterator<Item = (WindowId, PaneId)>,
) -> BTreeSet<PaneId> {
    let replaced = now.into_iter().filter_map(|(window, pane)| {
        let was = before.get(&window)?;
        (*was != pane).then_some(*was)
    });
    replaced.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmux_is_asked_only_about_windows_that_nothing_explains() {
        let alive = [
            (WindowId(1), Some(71)),
            (WindowId(2), Some(72)),
            (WindowId(3), Some(73)),
            (WindowId(4), Some(74)),
            (WindowId(5), None),
        ];
        let killed = BTreeMap::from([
            (WindowId(2), GoneReason::AgentKilled),
            (WindowId(9), GoneReason::UserKilled),
        ]);
        let departures = Departures::new(
            &alive,
            &BTreeSet::from([WindowId(1)]),
            &killed,
            &BTreeSet::from([72, 73]),
        );
        let expected = Departures {
            killed: BTreeMap::from([(WindowId(2), GoneReason::AgentKilled)]),
            unexplained: vec![WindowId(4), WindowId(5)],
        };
        assert_eq!(departures, expected);
    }

    #[test]
    fn a_pane_is_replaced_only_where_its_window_is_left() {
        let before = BTreeMap::from([
            (WindowId(1), PaneId(1)),
            (WindowId(2), PaneId(2)),
            (WindowId(3), PaneId(3)),
        ]);
        let now = [
            (WindowId(1), PaneId(1)),
            (WindowId(2), PaneId(8)),
            (WindowId(4), PaneId(9)),
        ];
        assert_eq!(replaced_panes(&before, now), BTreeSet::from([PaneId(2)]));
    }
}
