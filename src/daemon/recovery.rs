//! Recovery: the state from the feed and the saved snapshot.

use std::time::SystemTime;

use crate::config::paths::{Paths, hex};
use crate::model::{Bookmark, Checkpoint, Error, EventKind, OutputMatches, RunNumbers, Snapshot};
use crate::rules::diff::apply;
use crate::rules::engine::RestoredState;
use crate::rules::wire::can_have_lost;
use crate::store::archive;
use crate::store::feed::{
    DamagedFile, Journal, PendingEvents, RecordedLook, SavedSession, load_saved, recover, saved_of,
};

/// How a saved snapshot that cannot be used is handled.
const FROM_FEED: &str = "continuing from the feed alone";

#[derive(Debug)]
pub(super) struct InitialState {
    pub(super) memory: RestoredState,
    /// How much of tmux's data had been processed when `memory` was saved.
    pub(super) bookmark: Bookmark,
    pub(super) journal: Journal,
    pub(super) epoch: String,
    pub(super) pending: PendingEvents,
}

/// Reads the state of the last daemon. `fresh` ignores what it saw, so that the next look is a new baseline.
pub(super) fn begin(paths: &Paths, name: &str, fresh: bool) -> Result<InitialState, Error> {
    let mut saved = load_saved(&saved_of(&paths.feed())).unwrap_or_else(|damaged| {
        damaged.set_aside(FROM_FEED);
        None
    });
    let read = |saved: Option<&SavedSession>| {
        let mut replay = Replay::of(saved, name);
        let recovered = recover(&paths.feed(), saved, |look| replay.carry_on(&look))?;
        Ok::<_, Error>((replay, recovered))
    };
    let (mut replay, mut recovered) = read(saved.as_ref())?;
    let of_feed = saved.as_ref().filter(|saved| {
        let epoch = recovered.epoch.as_ref();
        epoch.is_none_or(|epoch| *epoch == saved.epoch)
    });
    let (end, of_feed) = (recovered.last_seq, of_feed.map(|saved| saved.last_seq));
    if let Some(last_seq) = of_feed.filter(|last_seq| !can_have_lost(end, *last_seq)) {
        // This feed cannot have had its last record.
        let why = format!("its last record is {last_seq}, and the feed ends with {end}");
        DamagedFile::snapshot(&saved_of(&paths.feed()), why).set_aside(FROM_FEED);
        saved = None;
        (replay, recovered) = read(None)?;
    }
    let run_numbers = run_numbers(paths, saved.as_ref());
    replay.bookmark.run_numbers = run_numbers.clone();
    let epoch = epoch(recovered.epoch, saved.as_ref());
    // A feed that was cut: the numbers lost with its end were used.
    let same_feed = saved.as_ref().filter(|saved| saved.epoch == epoch);
    let last_seq = same_feed.map_or(0, |saved| saved.last_seq);
    if last_seq > recovered.last_seq {
        tracing::error!(
            from = recovered.last_seq + 1,
            to = last_seq,
            "the end of the feed is missing: the saved snapshot has later records"
        );
    }
    // Looks of another feed did not follow the saved one.
    if let Some(saved) = saved.as_ref().filter(|saved| saved.epoch != epoch) {
        replay = Replay::of(Some(saved), &replay.snapshot.session);
        replay.bookmark.run_numbers = run_numbers;
    }
    let last_seq = last_seq.max(recovered.last_seq);
    let journal = Journal::open(&paths.feed(), recovered.end, last_seq)?;
    let (last_look, bookmark) = replay.into_state(fresh);
    let memory = RestoredState {
        last_look,
        waiting: recovered.pending.waiting(),
        undelivered: recovered.pending.undelivered.clone(),
        last_seq,
    };
    Ok(InitialState {
        memory,
        bookmark,
        journal,
        epoch,
        pending: recovered.pending,
    })
}

/// Returns the last numbers of runs: those of the stored runs where no daemon has saved them.
fn run_numbers(paths: &Paths, saved: Option<&SavedSession>) -> RunNumbers {
    if let Some(saved) = saved {
        return saved.bookmark.run_numbers.clone();
    }
    archive::run_numbers(&paths.runs()).unwrap_or_else(|error| {
        tracing::warn!(%error, "could not read the stored runs");
        RunNumbers::default()
    })
}

/// The session as the last daemon knew it: the saved snapshot with the looks that were recorded later. Without a saved
/// one, what the feed says of its tasks; windows that it does not mention are new then.
struct Replay {
    snapshot: Snapshot,
    bookmark: Bookmark,
    /// Whether there was a snapshot, or a look that says which life of the session it saw.
    is_known: bool,
}

impl Replay {
    fn of(saved: Option<&SavedSession>, session: &str) -> Self {
        let nothing = Self {
            snapshot: Snapshot::missing(session, 0),
            bookmark: Bookmark::default(),
            is_known: false,
        };
        let Some(saved) = saved else { return nothing };
        match saved.to_snapshot() {
            Ok(snapshot) => Self {
                snapshot,
                bookmark: saved.bookmark.clone(),
                is_known: true,
            },
            Err(error) => {
                tracing::error!(error, "could not parse the saved snapshot");
                nothing
            }
        }
    }

    fn carry_on(&mut self, look: &RecordedLook) {
        let (snapshot, bookmark) = (&mut self.snapshot, &mut self.bookmark);
        let mut is_other_life = false;
        if let Some(Checkpoint { life, deaths_read }) = &look.checkpoint {
            self.is_known = true;
            bookmark.deaths_read = *deaths_read;
            is_other_life = snapshot.life != *life;
            if is_other_life {
                bookmark.launched_at.clear();
                snapshot.tasks.clear();
                snapshot.exists = life.is_some();
                snapshot.life.clone_from(life);
            }
        }
        for event in &look.events {
            let run = event.task.run.unwrap_or(0);
            bookmark.run_numbers.note(&event.task.name, run);
            if let EventKind::Output(OutputMatches { cursor, .. }) = &event.kind {
                let cursor = cursor.clone().map(|cursor| (event.task.window, cursor));
                bookmark.searched.extend(cursor);
            }
            // All tasks of the previous life are gone already.
            if !(is_other_life && matches!(event.kind, EventKind::Disappeared { .. })) {
                apply(snapshot, event);
            }
        }
    }

    /// Returns the state to continue from. A fresh one has only the numbers of runs: their output may be stored.
    fn into_state(self, is_fresh: bool) -> (Option<Snapshot>, Bookmark) {
        if self.is_known && !is_fresh {
            return (Some(self.snapshot), self.bookmark);
        }
        let bookmark = Bookmark {
            run_numbers: self.bookmark.run_numbers,
            ..Bookmark::default()
        };
        (None, bookmark)
    }
}

/// A feed with records has an epoch. One without belongs to the previous daemon's feed if that recorded nothing.
fn epoch(of_feed: Option<String>, saved: Option<&SavedSession>) -> String {
    let of_saved = saved.filter(|saved| saved.last_seq == 0);
    let known = of_feed.or_else(|| Some(of_saved?.epoch.clone()));
    known.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seed = format!("{:?} {}", now, std::process::id());
        hex(seed.as_bytes(), 12)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{describe, snapshot};
    use crate::rules::diff::diff;

    /// Records a look after `saved`, crashes before it is saved, and starts again with the same
    /// state.
    #[track_caller]
    fn check(saved: &str, look: &str, expected: &[&str]) {
        let (before, look) = (snapshot(saved), snapshot(look));
        let events = diff(&before, &look);
        assert_eq!(events.iter().map(describe).collect::<Vec<_>>(), expected);
        let recorded = RecordedLook {
            events,
            checkpoint: Some(Checkpoint {
                life: look.life.clone(),
                deaths_read: Some(5),
            }),
        };
        let mut replay = Replay {
            snapshot: before,
            bookmark: Bookmark::default(),
            is_known: true,
        };
        replay.carry_on(&recorded);
        let before = replay.snapshot;
        assert_eq!(replay.bookmark.deaths_read, Some(5));
        assert_eq!(before.life, look.life);
        let again: Vec<String> = diff(&before, &look).iter().map(describe).collect();
        assert!(again.is_empty(), "{again:?}");
    }

    #[test]
    fn what_a_crash_kept_from_being_saved_is_not_reported_again() {
        let runs = "life 1; @1#1 a running pid=7";
        let replaced = ["exited @1#1 ? replaced", "rerun @1#2"];
        check(runs, "life 1; @1#2 a running pid=8", &replaced);
        let ended = format!(
            "life 1; ended @2#1 b dead 3 pid=9; {}",
            &runs["life 1; ".len()..]
        );
        check(runs, &ended, &["exited @2#1 3"]);
        // In another life of the session.
        let both = format!("{runs}; @2#1 b dead 0 pid=9");
        let other = "life 2; @1#1 c running pid=8";
        check(&both, other, &["started @1#1", "disappeared @1#1"]);
        check(runs, "missing", &["disappeared @1#1"]);
    }
}
