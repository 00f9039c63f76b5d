//! Which segments of a feed are kept, by size and age: the rules, the clock, and the files there are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::segments::{FeedEnd, closed_firsts, segment_path};
use crate::config::FeedConfig;
use crate::files;
use crate::model::{AgeClock, BootTime, FEED_VERSION, Millis, Seq};

/// How many segments a feed of its full size has.
const SEGMENTS: u64 = 8;

/// How many times larger than its size a feed becomes before unacknowledged records are removed.
const HARD_LIMIT: u64 = 4;

/// A closed segment of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The sequence number of its first record.
    pub(crate) first: Seq,
    pub(crate) bytes: u64,
    /// When it was closed, by the feed's [`AgeClock`].
    pub(crate) closed_at: Millis,
}

/// A consumer, as retention takes it into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The last record that it has acknowledged.
    pub(crate) cursor: Seq,
    /// When it was last used, by the feed's [`AgeClock`]: now, if a process reads as it.
    pub(crate) used_at: Millis,
}

/// The files of a feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FeedFiles {
    /// The closed segments, in order.
    pub(crate) closed: Vec<Segment>,
    pub(crate) end: FeedEnd,
}

impl FeedFiles {
    /// Returns the size of all files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|segment| segment.bytes).sum();
        closed + self.end.at
    }

    /// Returns the sequence number of the first record.
    pub(crate) fn first_seq(&self) -> Seq {
        let first = self.closed.first();
        first.map_or(self.end.segment, |segment| segment.first)
    }

    /// Returns the closed segments, each with the first record behind it.
    fn closed_with_ends(&self) -> impl Iterator<Item = (&Segment, Seq)> {
        let starts = self.closed.iter().skip(1).map(|segment| segment.first);
        self.closed.iter().zip(starts.chain([self.end.segment]))
    }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

impl FeedConfig {
    /// Whether a file of this size, whose first record was made at `first_at`, is to be closed before
    /// the next write. `has_undelivered` says whether it has events that are not delivered yet: those should
    /// be in one file with their delivery. Both times are in milliseconds since 1970: a clock that was
    /// set back closes the file as one that was set ahead, which loses nothing.
    pub(crate) fn closes(
        &self,
        bytes: u64,
        first_at: Option<Millis>,
        has_undelivered: bool,
        now: Millis,
    ) -> bool {
        let is_old = first_at
            .is_some_and(|at| now.abs_diff(at) > millis(self.keep_age).unsigned_abs() / SEGMENTS);
        let size = self.keep_size / SEGMENTS;
        bytes >= 2 * size || (!has_undelivered && bytes > 0 && (bytes >= size || is_old))
    }

    /// Returns the first record to keep at this time of the feed's clock. What lies before it is beyond the bounds
    /// and needed by no consumer, or beyond the hard limit. Records from `needed` on are always kept.
    pub(crate) fn first_to_keep(
        &self,
        files: &FeedFiles,
        holders: &[Holder],
        needed: Seq,
        now: Millis,
    ) -> Seq {
        let mut bytes = files.bytes();
        for (segment, behind) in files.closed_with_ends() {
            let is_held = holders.iter().any(|holder| self.holds(holder, behind, now));
            let is_over = bytes > HARD_LIMIT.saturating_mul(self.keep_size);
            let goes = is_over || (self.is_due(segment, bytes, now) && !is_held);
            if !goes || needed < behind {
                return segment.first;
            }
            bytes -= segment.bytes;
        }
        files.end.segment
    }

    /// Returns how many bytes would be removed if this consumer did not need them.
    pub(crate) fn held_bytes(&self, files: &FeedFiles, holder: &Holder, now: Millis) -> u64 {
        let (mut bytes, mut held) = (files.bytes(), 0);
        for (segment, behind) in files.closed_with_ends() {
            if !self.is_due(segment, bytes, now) {
                break;
            }
            bytes -= segment.bytes;
            if self.holds(holder, behind, now) {
                held += segment.bytes;
            }
        }
        held
    }

    /// Whether a segment is larger or older than allowed, if these are its bytes and those behind it.
    fn is_due(&self, segment: &Segment, bytes: u64, now: Millis) -> bool {
        bytes > self.keep_size || now - segment.closed_at > millis(self.keep_age)
    }

    /// Whether a consumer was there lately and has not acknowledged all records before `behind`.
    fn holds(&self, holder: &Holder, behind: Seq, now: Millis) -> bool {
        now - holder.used_at <= millis(self.keep_for_consumers) && holder.cursor + 1 < behind
    }
}

// The clock by which a feed's records expire, and what was noted by it.
//
// The machine's clock can be set: it is wrong until the network is there, or after a battery has run out.
// Nothing may expire by that. So ages are counted by the time since the boot, and the file `ages.json` carries
// the count over to the next boot. The time while the machine is off is not counted.

const NAME: &str = "ages.json";

/// The greatest time that the file can have. No feed gets that old, so a later time is damage.
const LAST: Millis = 1 << 53;

/// The contents of the file. Times are in milliseconds, by this clock where nothing else is said.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ages {
    v: u32,
    /// The boot in which it was written.
    boot: String,
    /// The time since that boot, when it was written.
    since_boot: Millis,
    /// The time when it was written.
    counted: Millis,
    /// When a run last began or ended; `None` if that was not noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_run: Option<Millis>,
    /// When each closed segment was closed, by its first record.
    #[serde(default)]
    closed: BTreeMap<Seq, Millis>,
    #[serde(skip)]
    path: PathBuf,
}

impl Ages {
    /// Returns the clock of the feed at `feed`. Without its file, or with a damaged one, it begins at 0.
    pub(crate) fn load(feed: &Path, now: &BootTime) -> Self {
        Self::of_daemon(feed, now).unwrap_or_else(|| Self {
            v: FEED_VERSION,
            boot: now.boot.clone(),
            since_boot: now.millis,
            counted: 0,
            last_run: None,
            closed: BTreeMap::new(),
            path: feed.with_file_name(NAME),
        })
    }

    /// Returns the clock of a feed that a daemon of this version has written; `None` if none has.
    pub(super) fn of_daemon(feed: &Path, now: &BootTime) -> Option<Self> {
        let path = feed.with_file_name(NAME);
        let is_time = |at: i64| (0..=LAST).contains(&at);
        let check = |saved: Self| match is_time(saved.counted) && is_time(saved.since_boot) {
            true => Ok(saved),
            false => Err("a time in it is damaged".to_owned()),
        };
        let loaded = files::load_json(&path, FEED_VERSION);
        let checked = loaded.and_then(|saved| saved.map(check).transpose());
        let mut ages = checked.unwrap_or_else(|why| {
            tracing::warn!(why, "{NAME} cannot be used: ages are counted from now on");
            None
        })?;
        if ages.boot == now.boot && !now.boot.is_empty() {
            ages.counted += (now.millis - ages.since_boot).max(0);
        }
        for at in ages.closed.values_mut().chain(&mut ages.last_run) {
            // What lies in the future is damage: nothing expires too early by it.
            *at = ages.counted.min(*at);
        }
        ages.boot.clone_from(&now.boot);
        (ages.since_boot, ages.path) = (now.millis, path);
        Some(ages)
    }

    pub(crate) fn clock(&self) -> AgeClock {
        AgeClock {
            at_boot: self.counted - self.since_boot,
        }
    }

    /// Returns when a segment was closed; one that was not noted, just now.
    fn closed_at(&self, first: Seq, now: Millis) -> Millis {
        self.closed.get(&first).copied().unwrap_or(now)
    }

    /// Notes which closed segments there are. Returns whether that is news.
    pub(crate) fn note_closed(&mut self, segments: &[Segment]) -> bool {
        let closed = segments.iter().map(|one| (one.first, one.closed_at));
        let before = std::mem::replace(&mut self.closed, closed.collect());
        before != self.closed
    }

    /// Writes the file, for the next daemon and for other programs.
    pub(crate) fn store(&mut self, now: &BootTime) -> io::Result<()> {
        self.counted = self.clock().at(now.millis);
        self.boot.clone_from(&now.boot);
        self.since_boot = now.millis;
        let bytes = files::json_line(self)?;
        files::replace(&self.path, &self.path.with_extension("json.new"), &bytes)
    }
}

/// Returns the closed segments that are kept, in order, at this time of the feed's clock.
pub(crate) fn closed_segments(feed: &Path, ages: &Ages, now: Millis) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for first in closed_firsts(feed)? {
        // It may have been removed meanwhile.
        let found = files::if_there(fs::symlink_metadata(segment_path(feed, first)))?;
        segments.extend(found.map(|found| Segment {
            first,
            bytes: found.len(),
            closed_at: ages.closed_at(first, now),
        }));
    }
    Ok(segments)
}

pub(crate) fn has_files(feed: &Path) -> bool {
    feed.exists() || closed_firsts(feed).is_ok_and(|firsts| !firsts.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const BOUNDS: FeedConfig = FeedConfig {
        keep_size: 80,
        keep_age: Duration::from_millis(800),
        keep_for_consumers: Duration::from_millis(100),
    };
    const NOW: Millis = 10_000;

    /// Segments of 10 bytes and 10 records, the last one written at `NOW`, each 10 before the next;
    /// and a file of 5 bytes where records are appended.
    fn files(n_closed: u64) -> FeedFiles {
        let closed = (0..n_closed).map(|n| Segment {
            first: 10 * n + 1,
            bytes: 10,
            closed_at: NOW - 10 * Millis::try_from(n_closed - 1 - n).unwrap(),
        });
        FeedFiles {
            closed: closed.collect(),
            end: FeedEnd {
                segment: 10 * n_closed + 1,
                at: 5,
                ..FeedEnd::default()
            },
        }
    }

    fn holder(cursor: Seq, ago: Millis) -> Holder {
        Holder {
            cursor,
            used_at: NOW - ago,
        }
    }

    #[test]
    fn the_oldest_segments_go_until_the_rest_fits_or_somebody_needs_them() {
        for (n_closed, holders, needed, expected) in [
            (0, &[][..], Seq::MAX, 1),
            (7, &[], Seq::MAX, 1),
            (8, &[], Seq::MAX, 11),
            (20, &[], Seq::MAX, 131),
            // What the next daemon needs stays.
            (20, &[], 30, 21),
            (20, &[], 1, 1),
            // A consumer keeps what it has not acknowledged for some time.
            (20, &[holder(0, 100)], Seq::MAX, 1),
            (20, &[holder(0, 101)], Seq::MAX, 131),
            (20, &[holder(9, 0)], Seq::MAX, 1),
            (20, &[holder(10, 0)], Seq::MAX, 11),
            (20, &[holder(57, 0), holder(99, 0)], Seq::MAX, 51),
            (20, &[holder(200, 0)], Seq::MAX, 131),
            // Nothing is kept for it beyond the hard limit: 32 segments and the last file are too many.
            (31, &[holder(0, 0)], Seq::MAX, 1),
            (32, &[holder(0, 0)], Seq::MAX, 11),
            (40, &[holder(0, 0)], Seq::MAX, 91),
            (40, &[holder(0, 0)], 45, 41),
        ] {
            let kept = BOUNDS.first_to_keep(&files(n_closed), holders, needed, NOW);
            assert_eq!(kept, expected, "{n_closed} {holders:?} {needed}");
        }
        // What is too old goes whatever its size.
        let kept =
            [780, 781, 801].map(|age| BOUNDS.first_to_keep(&files(3), &[], Seq::MAX, NOW + age));
        assert_eq!(kept, [1, 11, 31]);
    }

    #[test]
    fn what_a_consumer_holds_is_what_would_be_removed_without_it() {
        let held = |n_closed, holder| BOUNDS.held_bytes(&files(n_closed), &holder, NOW);
        assert_eq!(held(7, holder(0, 0)), 0);
        assert_eq!(held(20, holder(0, 0)), 130);
        assert_eq!(held(20, holder(57, 0)), 80);
        assert_eq!(held(20, holder(200, 0)), 0);
        assert_eq!(held(20, holder(0, 101)), 0);
    }

    #[test]
    fn a_file_is_closed_when_it_is_large_or_old_and_nothing_in_it_is_undelivered() {
        let closes = |bytes, age, has_undelivered| {
            BOUNDS.closes(bytes, Some(NOW - age), has_undelivered, NOW)
        };
        assert!(!closes(9, 0, false));
        assert!(closes(10, 0, false));
        assert!(!closes(19, 0, true));
        assert!(closes(20, 0, true), "it does not wait for ever");
        assert!(!closes(5, 100, false));
        assert!(closes(5, 101, false));
        assert!(!closes(5, 101, true));
        assert!(!closes(0, 101, false));
        // Its first record was made before the clock was set back.
        assert!(!closes(5, -100, false));
        assert!(closes(5, -101, false));
        assert!(!BOUNDS.closes(5, None, false, NOW));
    }

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
