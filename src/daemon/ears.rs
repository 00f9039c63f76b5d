//! Which panes have printed since the last look, and which were told to print without telling.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::PaneId;

/// A pane that tells of output this often between two looks is noisy: each telling costs us more
/// than a look now and then.
const NOISY: u32 = 4;

/// What is heard of the panes' output.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// How often each pane has told since the last look.
    told: BTreeMap<PaneId, u32>,
    /// Panes that print without telling since the last look.
    hushed: BTreeSet<PaneId>,
    /// Panes whose output somebody wants, every byte of it: they are never hushed.
    followed: BTreeSet<PaneId>,
}

impl Ears {
    /// Takes note of output; returns whether it is news: the first since the last look, or once
    /// too often.
    pub(super) fn heard(&mut self, pane: PaneId) -> bool {
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
            .filter(|pane| !self.hushed.contains(pane) && !self.followed.contains(pane))
            .collect();
        self.hushed.extend(&noisy);
        noisy
    }

    /// Returns the panes that have told since the last look.
    pub(super) fn told(&self) -> impl Iterator<Item = PaneId> {
        self.told.keys().copied()
    }

    /// Returns the panes that the next look is to resume.
    pub(super) fn hushed(&self) -> BTreeSet<PaneId> {
        self.hushed.clone()
    }

    /// Follows exactly these panes from here on.
    pub(super) fn follow(&mut self, panes: impl IntoIterator<Item = PaneId>) {
        self.followed = panes.into_iter().collect();
    }

    /// Follows this pane too.
    pub(super) fn follow_also(&mut self, pane: PaneId) {
        self.followed.insert(pane);
    }

    /// Whether somebody wants all output of this pane.
    pub(super) fn follows(&self, pane: PaneId) -> bool {
        self.followed.contains(&pane)
    }

    /// A look has resumed them: what follows is heard again.
    pub(super) fn resumed(&mut self) {
        self.told.clear();
        self.hushed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_output_is_news_and_noise_is_hushed_until_the_next_look() {
        let mut ears = Ears::default();
        let pane = PaneId(1);
        assert!(ears.heard(pane));
        assert!(!ears.heard(pane));
        assert!(!ears.heard(pane));
        assert_eq!(ears.take_noisy(), []);
        assert!(ears.heard(pane));
        assert_eq!(ears.take_noisy(), [pane]);
        assert_eq!(ears.take_noisy(), []);
        // What was under way when it was hushed.
        assert!(!ears.heard(pane));
        assert_eq!(ears.hushed(), BTreeSet::from([pane]));
        ears.resumed();
        assert_eq!(ears.hushed(), BTreeSet::new());
        assert!(ears.heard(pane));
    }
}
