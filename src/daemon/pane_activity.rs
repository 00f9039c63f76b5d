//! Which panes have printed since the last look, which are paused for our client, and which windows
//! have changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{PaneId, WindowId};

/// A pane with this many notifications of output between two looks is busy: then an occasional look
/// is cheaper than the notifications.
const BUSY: u32 = 4;

/// Why a pane is paused for our client, and when it is continued. While it is paused only looks
/// show its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// tmux paused it because it printed faster than tmux could report. The next look continues it.
    Burst,
    /// It prints continuously, or no look has queried it yet.
    Printing,
    /// The last look found it quiet: the next one continues it.
    Quiet,
    /// It is not a task's pane, or is gone: its output does not matter.
    Unwatched,
}

/// What is known about the panes' output and the windows' changes since the last look.
#[derive(Debug, Default)]
pub(super) struct PaneActivity {
    /// Notifications of output by pane, since the last look.
    printed: BTreeMap<PaneId, u32>,
    /// Panes that are paused for our client.
    paused: BTreeMap<PaneId, Pause>,
    /// Panes that the last look continued after a burst: another burst means that they are busy.
    burst_before: BTreeSet<PaneId>,
    /// Windows that were added or have changed since the last look.
    changed: BTreeSet<WindowId>,
    /// Windows that tmux has reported as closed since then, of any session.
    pub(super) closed: BTreeSet<WindowId>,
    /// How many bells their hook had counted by window, if any has rung since the last look.
    pub(super) bells: BTreeMap<WindowId, u64>,
    /// Panes that tmux has paused since their first lines were read.
    pub(super) bursts: BTreeSet<PaneId>,
    /// Whether a report since then does not say which windows have changed.
    pub(super) are_all_reported: bool,
}

impl PaneActivity {
    /// Records that a pane has printed. Returns whether that is worth a reaction: the first output
    /// since the last look, or the one that makes the pane busy.
    pub(super) fn record_output(&mut self, pane: PaneId) -> bool {
        let printed = self.printed.entry(pane).or_default();
        *printed += 1;
        *printed == 1 || *printed == BUSY
    }

    /// Records that tmux has paused a pane that printed faster than it could be reported. Returns
    /// what [`PaneActivity::record_output`] does, or that it is a burst: only printing leads to a pause.
    pub(super) fn record_pause(&mut self, pane: PaneId) -> bool {
        let is_busy = self.burst_before.contains(&pane)
            || self
                .printed
                .get(&pane)
                .is_some_and(|printed| *printed >= BUSY);
        let pause = if is_busy {
            Pause::Printing
        } else {
            Pause::Burst
        };
        self.paused.entry(pane).or_insert(pause);
        self.record_output(pane) | self.bursts.insert(pane)
    }

    /// Returns the busy panes that are not paused yet, and records them as paused.
    pub(super) fn take_busy(&mut self) -> Vec<PaneId> {
        let busy: Vec<PaneId> = self
            .printed
            .iter()
            .filter(|(pane, printed)| **printed >= BUSY && !self.paused.contains_key(pane))
            .map(|(pane, _)| *pane)
            .collect();
        self.paused
            .extend(busy.iter().map(|pane| (*pane, Pause::Printing)));
        busy
    }

    /// Records that a window was added or has changed.
    pub(super) fn record_window(&mut self, window: WindowId) {
        self.changed.insert(window);
    }

    /// Takes the windows that were added or have changed since the last look, for the next one.
    pub(super) fn take_changed(&mut self) -> BTreeSet<WindowId> {
        std::mem::take(&mut self.changed)
    }

    /// Records a report that does not say which windows have changed: all of them count as reported.
    pub(super) fn record_all(&mut self) {
        self.are_all_reported = true;
    }

    /// Whether windows were reported as added or changed since the last look. Closed windows are up to the
    /// caller.
    pub(super) fn are_windows_reported(&self) -> bool {
        self.are_all_reported || !self.changed.is_empty()
    }

    /// Whether the next look may find something: a pane may have printed, or a window has changed.
    pub(super) fn is_any_reported(&self) -> bool {
        self.are_windows_reported() || self.printed().next().is_some()
    }

    /// Whether anything was reported since the last look began that it may not include. A pane that is
    /// paused, which each look captures, is no report; a window of ours that was closed is one.
    pub(super) fn has_reports_since_look(&self, is_ours: impl Fn(&WindowId) -> bool) -> bool {
        self.are_windows_reported() || !self.printed.is_empty() || self.closed.iter().any(is_ours)
    }

    /// Returns the panes that may have printed since the last look: those that were reported and
    /// those that are paused.
    pub(super) fn printed(&self) -> impl Iterator<Item = PaneId> {
        let paused = self.paused.iter();
        let paused = paused.filter(|(_, pause)| **pause != Pause::Unwatched);
        self.printed
            .keys()
            .chain(paused.map(|(pane, _)| pane))
            .copied()
    }

    /// Returns the panes that the next look is to continue.
    pub(super) fn to_continue(&self) -> impl Iterator<Item = PaneId> {
        let paused = self.paused.iter();
        let ready = paused.filter(|(_, pause)| matches!(pause, Pause::Quiet | Pause::Burst));
        ready.map(|(pane, _)| *pane)
    }

    /// Whether only looks can see what some task's pane prints.
    pub(super) fn is_any_paused(&self) -> bool {
        let mut paused = self.paused.values();
        paused.any(|pause| *pause != Pause::Unwatched)
    }

    /// Records a look, before which the panes of [`PaneActivity::to_continue`] were continued by
    /// the same client. Of the others, `tasks` has the panes of tasks and whether they have printed
    /// nothing for a while. A pane that still prints stays paused: continuing it would put its
    /// output in the way of everything else that tmux reports.
    pub(super) fn record_look(&mut self, tasks: impl IntoIterator<Item = (PaneId, bool)>) {
        self.are_all_reported = false;
        self.printed.clear();
        self.burst_before.clear();
        let burst_before = &mut self.burst_before;
        self.paused.retain(|pane, pause| match pause {
            Pause::Burst => {
                burst_before.insert(*pane);
                false
            }
            Pause::Quiet => false,
            Pause::Printing | Pause::Unwatched => true,
        });
        if self.paused.is_empty() {
            return;
        }
        self.paused
            .values_mut()
            .for_each(|pause| *pause = Pause::Unwatched);
        for (pane, is_quiet) in tasks {
            if let Some(pause) = self.paused.get_mut(&pane) {
                *pause = if is_quiet {
                    Pause::Quiet
                } else {
                    Pause::Printing
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANE: PaneId = PaneId(1);

    fn printed(activity: &PaneActivity) -> Vec<PaneId> {
        activity.printed().collect()
    }

    fn to_continue(activity: &PaneActivity) -> Vec<PaneId> {
        activity.to_continue().collect()
    }

    #[test]
    fn a_busy_pane_is_paused_until_a_look_finds_it_quiet() {
        let mut activity = PaneActivity::default();
        assert!(activity.record_output(PANE));
        assert!(!activity.record_output(PANE));
        assert!(!activity.record_output(PANE));
        assert_eq!(activity.take_busy(), []);
        assert!(activity.record_output(PANE));
        assert_eq!(activity.take_busy(), [PANE]);
        assert_eq!(activity.take_busy(), []);
        // What was on its way when it was paused.
        assert!(!activity.record_output(PANE));
        activity.record_look([(PANE, false)]);
        assert!(activity.is_any_paused());
        assert_eq!(
            (printed(&activity), to_continue(&activity)),
            (vec![PANE], vec![])
        );
        activity.record_look([(PANE, true)]);
        assert_eq!(
            (printed(&activity), to_continue(&activity)),
            (vec![PANE], vec![PANE])
        );
        activity.record_look([(PANE, true)]);
        assert_eq!(
            (printed(&activity), to_continue(&activity)),
            (vec![], vec![])
        );
        assert!(!activity.is_any_paused());
        assert!(activity.record_output(PANE));
    }

    #[test]
    fn what_was_reported_since_a_look_began_is_seen_and_paused_panes_and_foreign_windows_are_not() {
        let ours = |window: &WindowId| *window == WindowId(1);
        let print = |activity: &mut PaneActivity| assert!(activity.record_output(PANE));
        let has_reports = |act: fn(&mut PaneActivity)| {
            let mut activity = PaneActivity::default();
            for _ in 0..BUSY {
                activity.record_output(PANE);
            }
            activity.take_busy();
            activity.record_look([(PANE, false)]);
            activity.take_changed();
            assert!(activity.is_any_paused());
            act(&mut activity);
            activity.has_reports_since_look(ours)
        };
        assert!(!has_reports(|_| {}));
        assert!(!has_reports(|activity| {
            activity.closed.insert(WindowId(2));
        }));
        assert!(has_reports(|activity| {
            activity.closed.insert(WindowId(1));
        }));
        assert!(has_reports(|activity| activity.record_window(WindowId(2))));
        assert!(has_reports(PaneActivity::record_all));
        assert!(has_reports(print));
    }

    #[test]
    fn a_burst_is_continued_by_the_next_look_and_bursts_without_end_are_not() {
        let mut activity = PaneActivity::default();
        assert!(
            activity.record_pause(PANE),
            "tmux may pause a pane at its first byte"
        );
        assert_eq!(
            (printed(&activity).first(), to_continue(&activity)),
            (Some(&PANE), vec![PANE])
        );
        activity.record_look([(PANE, false)]);
        assert!(!activity.is_any_paused());
        assert!(activity.record_pause(PANE));
        assert_eq!(to_continue(&activity), [], "the second burst in a row");
        activity.record_look([(PANE, false)]);
        assert!(activity.is_any_paused());
        activity.record_look([(PANE, true)]);
        activity.record_look([(PANE, true)]);
        assert!(activity.record_pause(PANE));
        assert_eq!(to_continue(&activity), [PANE], "it was quiet in between");
    }

    #[test]
    fn a_pane_that_is_no_tasks_stays_paused_and_is_watched_when_it_becomes_one() {
        let mut activity = PaneActivity::default();
        for _ in 0..BUSY {
            activity.record_output(PANE);
        }
        assert_eq!(activity.take_busy(), [PANE]);
        assert!(activity.is_any_paused(), "no look has asked yet");
        activity.record_look([(PaneId(2), true)]);
        assert!(!activity.is_any_paused());
        assert_eq!(activity.printed().count(), 0);
        assert_eq!(activity.take_busy(), []);
        // The task's own pane was killed, and this one is the next.
        activity.record_look([(PANE, false)]);
        assert!(activity.is_any_paused());
        assert!(activity.printed().eq([PANE]));
    }
}
