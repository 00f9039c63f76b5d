//! The clock by which a feed's records expire, and what was noted by it.
//!
//! The machine's clock can be set: it is wrong until the network is there, or after a battery has
//! run out. Nothing may expire by that. So ages are counted by the time since the boot, and the file
//! `ages.json` carries the count over to the next boot. The time while the machine is off is not
//! counted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::retention::Segment;
use crate::files;
use crate::model::{AgeClock, BootTime, Millis, Seq};

/// The name of the file.
const NAME: &str = "ages.json";

/// The version of the file.
const VERSION: u32 = 1;

/// The greatest time that the file can have. No feed gets that old, so a later time is damage.
const LAST: Millis = 1 << 53;

/// The contents of the file. Times are in milliseconds, by this clock where nothing else is said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SavedAges {
    v: u32,
    /// The boot in which it was written.
    boot: String,
    /// The time since that boot, when it was written.
    since_boot: Millis,
    /// The time when it was written.
    counted: Millis,
    /// When a run last began or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_run: Option<Millis>,
    /// When each closed segment was closed, by its first record.
    #[serde(default)]
    closed: BTreeMap<Seq, Millis>,
}

#[derive(Debug)]
pub(crate) struct Ages {
    path: PathBuf,
    clock: AgeClock,
    /// When a run last began or ended; `None` if that was not noted.
    pub(crate) last_run: Option<Millis>,
    /// When the closed segments were closed.
    closed: BTreeMap<Seq, Millis>,
}

impl Ages {
    /// Returns the clock of the feed at `feed`. Without its file, or with a damaged one, it begins
    /// at 0, and nothing has an age yet.
    pub(crate) fn load(feed: &Path, now: &BootTime) -> Self {
        Self::of_daemon(feed, now).unwrap_or_else(|| Self {
            path: feed.with_file_name(NAME),
            clock: AgeClock {
                at_boot: -now.millis,
            },
            last_run: None,
            closed: BTreeMap::new(),
        })
    }

    /// Returns the clock of a feed that a daemon of this version has written; `None` if none has.
    pub(super) fn of_daemon(feed: &Path, now: &BootTime) -> Option<Self> {
        let path = feed.with_file_name(NAME);
        let saved = load(&path)?;
        let is_same_boot = saved.boot == now.boot && !now.boot.is_empty();
        let since = if is_same_boot {
            (now.millis - saved.since_boot).max(0)
        } else {
            0
        };
        let counted = saved.counted + since;
        // What lies in the future is damage: nothing expires too early by it.
        let until_now = |at: Millis| at.min(counted);
        Some(Self {
            path,
            clock: AgeClock {
                at_boot: counted - now.millis,
            },
            last_run: saved.last_run.map(until_now),
            closed: saved
                .closed
                .into_iter()
                .map(|(first, at)| (first, until_now(at)))
                .collect(),
        })
    }

    pub(crate) fn clock(&self) -> AgeClock {
        self.clock
    }

    /// Returns when a segment was closed; one that was not noted, just now.
    pub(super) fn closed_at(&self, first: Seq, now: Millis) -> Millis {
        self.closed.get(&first).copied().unwrap_or(now)
    }

    /// Notes which closed segments there are. Returns whether that is news.
    pub(crate) fn note_closed(&mut self, segments: &[Segment]) -> bool {
        let closed = segments
            .iter()
            .map(|segment| (segment.first, segment.closed_at))
            .collect();
        let is_news = self.closed != closed;
        self.closed = closed;
        is_news
    }

    /// Writes the file, for the next daemon and for other programs.
    ///
    /// # Errors
    ///
    /// When it cannot be written. The old one stays.
    pub(crate) fn store(&self, now: &BootTime) -> io::Result<()> {
        let saved = SavedAges {
            v: VERSION,
            boot: now.boot.clone(),
            since_boot: now.millis,
            counted: self.clock.at(now.millis),
            last_run: self.last_run,
            closed: self.closed.clone(),
        };
        let bytes = files::json_line(&saved)?;
        files::replace(&self.path, &self.path.with_extension("json.new"), &bytes)
    }
}

fn load(path: &Path) -> Option<SavedAges> {
    let warn = |error: &io::Error| tracing::warn!(%error, "could not read how old records are");
    let bytes = files::if_there(files::read(path));
    let bytes = bytes.inspect_err(warn).ok()??;
    let is_time = |at: &Millis| (0..=LAST).contains(at);
    match serde_json::from_slice::<SavedAges>(&bytes) {
        Ok(saved)
            if saved.v == VERSION && is_time(&saved.counted) && is_time(&saved.since_boot) =>
        {
            Some(saved)
        }
        Ok(_) => {
            tracing::warn!("{NAME} is damaged or of a later version: ages are counted from now on");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "{NAME} is damaged: ages are counted from now on");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn at(boot: &str, millis: Millis) -> BootTime {
        BootTime {
            boot: boot.to_owned(),
            millis,
        }
    }

    fn segment(first: Seq, closed_at: Millis) -> Segment {
        Segment {
            first,
            bytes: 1,
            closed_at,
        }
    }

    #[test]
    fn ages_count_through_daemons_and_boots_but_not_while_the_machine_is_off() {
        let dir = tempfile::tempdir().unwrap();
        let feed = dir.path().join("feed.jsonl");
        let mut ages = Ages::load(&feed, &at("a", 5000));
        let shown = |ages: &Ages, millis| ages.clock().at(millis);
        assert_eq!(shown(&ages, 5000), 0);
        assert_eq!(shown(&ages, 6000), 1000);
        assert!(ages.note_closed(&[segment(1, 400), segment(7, 900)]));
        ages.last_run = Some(950);
        ages.store(&at("a", 6000)).unwrap();
        // The next daemon in the same boot counts the time without one.
        let ages = Ages::load(&feed, &at("a", 9000));
        assert_eq!(shown(&ages, 9000), 4000);
        assert_eq!((ages.closed_at(1, 4000), ages.last_run), (400, Some(950)));
        assert_eq!(ages.closed_at(20, 4000), 4000);
        // In another boot, or one that has no name, it is not known.
        for boot in ["b", ""] {
            let mut ages = Ages::load(&feed, &at(boot, 20));
            assert_eq!(shown(&ages, 20), 1000);
            assert!(!ages.note_closed(&[segment(1, 400), segment(7, 900)]));
        }
        let ages = Ages::load(&feed, &at("a", 10));
        assert_eq!(shown(&ages, 10), 1000);
    }

    #[test]
    fn a_damaged_file_makes_nothing_old() {
        let dir = tempfile::tempdir().unwrap();
        let feed = dir.path().join("feed.jsonl");
        let now = at("a", 5000);
        let with = |counted: &str, closed: &str| {
            let text = format!(
                r#"{{"v":1,"boot":"a","sinceBoot":5000,"counted":{counted},"closed":{{"1":{closed}}}}}"#
            );
            fs::write(feed.with_file_name(NAME), text).unwrap();
            let ages = Ages::load(&feed, &now);
            let shown = ages.clock().at(5000);
            shown - ages.closed_at(1, shown)
        };
        assert_eq!(with("900", "100"), 800);
        for (counted, closed) in [
            ("900", "901"),
            ("900", "9223372036854775807"),
            ("-1", "-5000"),
            ("9223372036854775807", "0"),
            ("\"900\"", "0"),
            ("900", "\"0\""),
        ] {
            assert_eq!(with(counted, closed), 0, "{counted} {closed}");
        }
    }
}
