//! Which follow-ups a feed has, so that what is undelivered is known without reading the feed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Millis, Seq, SessionLife, Snapshot};

/// How many marks of the same tasks are kept: the first ones, and the last ones.
const KEPT: usize = 16;
const KEPT_FIRST: usize = 4;

/// How many owners are known, those with the latest follow-ups.
const MAX_OWNERS: usize = 256;

/// The follow-ups of a feed, by owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FollowUps {
    /// The life of the session that the windows belong to.
    life: Option<SessionLife>,
    owners: Vec<OwnerFollowUps>,
}

/// The follow-ups of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerFollowUps {
    /// The owner; null for those that are for everybody.
    pub owner: Option<String>,
    /// All of its follow-ups.
    pub all: Marks,
    /// Those about each window that exists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, Marks>,
}

/// The sequence numbers of follow-ups and when they were recorded, in order. Of many, those in the
/// middle are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks(Vec<(Seq, Millis)>);

impl Marks {
    fn add(&mut self, seq: Seq, time: Millis) {
        if self.0.last().is_some_and(|(last, _)| *last >= seq) {
            return;
        }
        self.0.push((seq, time));
        if self.0.len() > KEPT {
            self.0.remove(KEPT_FIRST);
        }
    }

    /// Returns the last one.
    pub fn last(&self) -> Option<(Seq, Millis)> {
        self.0.last().copied()
    }

    /// Returns the first one after this record. If it was left out, it is the first one that was not.
    pub fn first_after(&self, cursor: Seq) -> Option<(Seq, Millis)> {
        self.0.iter().find(|(seq, _)| *seq > cursor).copied()
    }
}

impl FollowUps {
    /// Adds a follow-up about tasks in these windows.
    pub fn add(
        &mut self,
        seq: Seq,
        time: Millis,
        owner: Option<&str>,
        windows: impl Iterator<Item = String>,
    ) {
        let found = self
            .owners
            .iter()
            .position(|one| one.owner.as_deref() == owner);
        // The owner of the latest one is the last.
        let mut of_owner = match found {
            Some(at) => self.owners.remove(at),
            None => OwnerFollowUps {
                owner: owner.map(ToOwned::to_owned),
                ..OwnerFollowUps::default()
            },
        };
        of_owner.all.add(seq, time);
        for window in windows {
            of_owner.windows.entry(window).or_default().add(seq, time);
        }
        self.owners.push(of_owner);
        if self.owners.len() > MAX_OWNERS {
            self.owners.remove(0);
        }
    }

    /// Whether [`FollowUps::forget_gone`] changes anything.
    pub fn has_gone(&self, look: &Snapshot) -> bool {
        let mut windows = self.owners().flat_map(|one| one.windows.keys());
        self.life != look.life || windows.any(|window| !has_window(look, window))
    }

    /// Forgets windows that this look does not have.
    pub fn forget_gone(&mut self, look: &Snapshot) {
        // The windows of another life have other ids, which may be the same numbers.
        let is_same = self.life == look.life;
        for of_owner in &mut self.owners {
            of_owner
                .windows
                .retain(|window, _| is_same && has_window(look, window));
        }
        self.life.clone_from(&look.life);
    }

    /// Returns the follow-ups of each owner.
    pub fn owners(&self) -> impl Iterator<Item = &OwnerFollowUps> {
        self.owners.iter()
    }

    /// Returns the follow-ups of this owner about this window.
    pub fn about(&self, owner: Option<&str>, window: &str) -> Option<&Marks> {
        let mut owners = self.owners();
        let of_owner = owners.find(|one| one.owner.as_deref() == owner)?;
        of_owner.windows.get(window)
    }
}

fn has_window(look: &Snapshot, window: &str) -> bool {
    window
        .parse()
        .is_ok_and(|window| look.tasks.contains_key(&window))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::snapshot;

    fn windows(names: &[&str]) -> impl Iterator<Item = String> {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
            .into_iter()
    }

    #[test]
    fn the_first_and_the_last_marks_are_kept() {
        let mut follow_ups = FollowUps::default();
        for seq in 1..=100 {
            follow_ups.add(seq, seq as Millis * 10, Some("a"), windows(&["@1"]));
        }
        let marks = follow_ups.about(Some("a"), "@1").unwrap();
        assert_eq!(marks.0.len(), KEPT);
        assert_eq!(marks.first_after(0), Some((1, 10)));
        assert_eq!(marks.first_after(2), Some((3, 30)));
        assert_eq!(marks.first_after(50), Some((89, 890)));
        assert_eq!(marks.first_after(99), Some((100, 1000)));
        assert_eq!(marks.first_after(100), None);
        assert_eq!(follow_ups.about(None, "@1"), None);
        assert_eq!(follow_ups.about(Some("a"), "@2"), None);
    }

    #[test]
    fn windows_are_forgotten_with_their_life_and_owners_when_there_are_many() {
        let mut follow_ups = FollowUps::default();
        follow_ups.forget_gone(&snapshot("life 1"));
        follow_ups.add(1, 1, None, windows(&["@1", "@2"]));
        follow_ups.forget_gone(&snapshot("life 1; @1#1 a running pid=7"));
        assert!(follow_ups.about(None, "@1").is_some());
        assert!(follow_ups.about(None, "@2").is_none());
        follow_ups.forget_gone(&snapshot("life 2; @1#1 a running pid=7"));
        assert!(follow_ups.about(None, "@1").is_none());
        assert_eq!(follow_ups.owners().next().unwrap().all.last(), Some((1, 1)));
        for seq in 2..=MAX_OWNERS as Seq {
            follow_ups.add(seq, 1, Some(&seq.to_string()), windows(&[]));
        }
        follow_ups.add(300, 1, None, windows(&[]));
        follow_ups.add(301, 1, Some("new"), windows(&[]));
        let owners: Vec<_> = follow_ups
            .owners()
            .map(|one| one.owner.as_deref())
            .collect();
        assert_eq!(owners.len(), MAX_OWNERS);
        assert!(owners.contains(&None) && !owners.contains(&Some("2")));
    }
}
