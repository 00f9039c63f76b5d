//! Which panes have printed since the last look, which were told to print without telling, and
//! which windows have changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{PaneId, WindowId};

/// A pane that tells of output this often between two looks is noisy: each telling costs us more
/// than a look now and then.
const NOISY: u32 = 4;

/// Output that is told this late will be told ever later: its pane prints faster than tmux tells.
const BEHIND_MS: u64 = 1000;

/// What the last look found of a pane that prints without telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hushed {
    /// It has printed not long ago, or there was no look yet.
    Printing,
    /// It has printed nothing for a while: the next look resumes it.
    Quiet,
    /// It is no task's pane, or has gone: nobody needs to know what it prints, nor when it stops.
    Nobodys,
}

/// What is heard of the panes' output.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// How often each pane has told since the last look.
    told: BTreeMap<PaneId, u32>,
    /// Panes that print without telling, until a look finds them quiet and the next one resumes them.
    hushed: BTreeMap<PaneId, Hushed>,
    /// Whether panes were resumed for the last look. By another client than the one that looked: it
    /// takes one more look to see what was printed between.
    just_resumed: bool,
    /// Panes whose output somebody wants, every byte of it: they are never hushed.
    followed: BTreeSet<PaneId>,
    /// How old the output of followed panes was when it was last told, in milliseconds.
    age: BTreeMap<PaneId, u64>,
    /// Windows that are new or otherwise than they were at the last look.
    moved: BTreeSet<WindowId>,
    /// Whether something has happened since that may concern any window.
    is_anywhere: bool,
}

impl Ears {
    /// Takes note of output that is so old; returns whether it is news: the first since the last
    /// look, or once too often.
    pub(super) fn heard(&mut self, pane: PaneId, age_ms: u64) -> bool {
        if self.followed.contains(&pane) {
            self.age.insert(pane, age_ms);
        }
        let told = self.told.entry(pane).or_default();
        *told += 1;
        *told == 1 || *told == NOISY
    }

    /// Returns the panes that are to be hushed, and takes them for hushed.
    pub(super) fn take_noisy(&mut self) -> Vec<PaneId> {
        let noisy = self
            .told
            .iter()
            .filter(|(_, told)| **told >= NOISY)
            .map(|(pane, _)| *pane);
        let noisy: Vec<PaneId> = noisy
            .filter(|pane| !self.hushed.contains_key(pane) && !self.followed.contains(pane))
            .collect();
        self.hushed
            .extend(noisy.iter().map(|pane| (*pane, Hushed::Printing)));
        noisy
    }

    /// Takes note that a window is new or otherwise than it was.
    pub(super) fn moved(&mut self, window: WindowId) {
        self.moved.insert(window);
    }

    /// Returns the windows that are new or otherwise than at the last look, for the next one.
    pub(super) fn take_moved(&mut self) -> BTreeSet<WindowId> {
        std::mem::take(&mut self.moved)
    }

    /// Takes note that something has happened that may concern any window.
    pub(super) fn anywhere(&mut self) {
        self.is_anywhere = true;
    }

    /// Returns whether that was so since the last look, for the next one.
    pub(super) fn take_anywhere(&mut self) -> bool {
        std::mem::take(&mut self.is_anywhere)
    }

    /// Returns the panes that have printed since the last look, as far as is known: those that have
    /// told, and those that need not.
    pub(super) fn printed(&self) -> impl Iterator<Item = PaneId> {
        let untold = self.hushed.iter();
        let untold = untold.filter(|(_, hushed)| **hushed != Hushed::Nobodys);
        self.told
            .keys()
            .chain(untold.map(|(pane, _)| pane))
            .copied()
    }

    /// Returns the panes that the next look is to resume.
    pub(super) fn to_resume(&self) -> impl Iterator<Item = PaneId> {
        let hushed = self.hushed.iter();
        let quiet = hushed.filter(|(_, hushed)| **hushed == Hushed::Quiet);
        quiet.map(|(pane, _)| *pane)
    }

    /// Whether there are panes of which a look may have to see what nobody tells.
    pub(super) fn is_hushed(&self) -> bool {
        let mut hushed = self.hushed.values();
        self.just_resumed || hushed.any(|hushed| *hushed != Hushed::Nobodys)
    }

    /// Follows exactly these panes from here on.
    pub(super) fn follow(&mut self, panes: impl IntoIterator<Item = PaneId>) {
        self.followed = panes.into_iter().collect();
        let followed = &self.followed;
        self.age.retain(|pane, _| followed.contains(pane));
    }

    /// Follows this pane too.
    pub(super) fn follow_also(&mut self, pane: PaneId) {
        self.followed.insert(pane);
    }

    /// Whether somebody wants all output of this pane.
    pub(super) fn follows(&self, pane: PaneId) -> bool {
        self.followed.contains(&pane)
    }

    /// Whether what a followed pane prints is told so late that it will be told ever later.
    pub(super) fn is_behind(&self, pane: PaneId) -> bool {
        self.age.get(&pane).is_some_and(|age| *age >= BEHIND_MS)
    }

    /// Whether that is so for any of them.
    pub(super) fn is_any_behind(&self) -> bool {
        self.age.keys().any(|pane| self.is_behind(*pane))
    }

    /// Takes note that tmux has hushed this pane of its own accord.
    pub(super) fn paused(&mut self, pane: PaneId) {
        self.hushed.insert(pane, Hushed::Printing);
    }

    /// Takes note that this pane was resumed apart from looks.
    pub(super) fn resumed(&mut self, pane: PaneId) {
        self.hushed.remove(&pane);
        self.age.remove(&pane);
    }

    /// Takes account of a look: those that it resumed are heard again. Of the others `tasks` has the
    /// panes of tasks, and says whether they have printed nothing for a while. What is hushed and
    /// still printing stays so: to resume it would only let its output in the way of everything else
    /// that tmux tells.
    pub(super) fn looked(&mut self, tasks: impl IntoIterator<Item = (PaneId, bool)>) {
        self.told.clear();
        let n_hushed = self.hushed.len();
        self.hushed.retain(|_, hushed| *hushed != Hushed::Quiet);
        self.just_resumed = self.hushed.len() < n_hushed;
        if self.hushed.is_empty() {
            return;
        }
        self.hushed
            .values_mut()
            .for_each(|hushed| *hushed = Hushed::Nobodys);
        for (pane, is_quiet) in tasks {
            if let Some(hushed) = self.hushed.get_mut(&pane) {
                *hushed = if is_quiet {
                    Hushed::Quiet
                } else {
                    Hushed::Printing
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_output_is_news_and_noise_is_hushed_until_it_is_over() {
        let mut ears = Ears::default();
        let pane = PaneId(1);
        assert!(ears.heard(pane, 0));
        assert!(!ears.heard(pane, 0));
        assert!(!ears.heard(pane, 0));
        assert_eq!(ears.take_noisy(), []);
        assert!(ears.heard(pane, 0));
        assert_eq!(ears.take_noisy(), [pane]);
        assert_eq!(ears.take_noisy(), []);
        // What was under way when it was hushed.
        assert!(!ears.heard(pane, 0));
        let to_resume = |ears: &Ears| ears.to_resume().collect::<Vec<_>>();
        let printed = |ears: &Ears| ears.printed().collect::<Vec<_>>();
        ears.looked([(pane, false)]);
        assert!(ears.is_hushed());
        assert_eq!((printed(&ears), to_resume(&ears)), (vec![pane], vec![]));
        ears.looked([(pane, true)]);
        assert_eq!((printed(&ears), to_resume(&ears)), (vec![pane], vec![pane]));
        ears.looked([(pane, true)]);
        assert_eq!((printed(&ears), to_resume(&ears)), (vec![], vec![]));
        assert!(ears.is_hushed(), "one more look");
        ears.looked([(pane, true)]);
        assert!(!ears.is_hushed());
        assert!(ears.heard(pane, 0));
    }

    #[test]
    fn a_pane_of_no_task_is_hushed_for_good_and_looked_at_when_it_is_a_tasks() {
        let mut ears = Ears::default();
        let pane = PaneId(1);
        for _ in 0..NOISY {
            ears.heard(pane, 0);
        }
        assert_eq!(ears.take_noisy(), [pane]);
        assert!(ears.is_hushed(), "nobody has looked");
        ears.looked([(PaneId(2), true)]);
        assert!(!ears.is_hushed());
        assert_eq!(ears.printed().count(), 0);
        assert_eq!(ears.take_noisy(), []);
        // The task's own pane was killed, and this is the next.
        ears.looked([(pane, false)]);
        assert!(ears.is_hushed());
        assert!(ears.printed().eq([pane]));
    }
}
