//! How far a feed was read, and what is left to read: used to decide whether a session is still
//! needed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::FeedError;
use super::ages::Ages;
use super::consumer_files::{DamagedConsumer, load_consumers};
use super::find::LinesBackwards;
use super::inventory::files_backwards;
use super::read::FeedLine;
use crate::files;
use crate::model::{BootTime, Error, Kind, Millis, Record, Seq};
use crate::wire::SavedConsumer;

/// How far a feed was read by any reader, and when last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRead {
    /// The feed's epoch.
    pub epoch: String,
    /// The sequence number of the last follow-up that was read; 0 for none.
    pub seq: Seq,
    /// When it was last read.
    pub at: SystemTime,
    /// The same by the feed's clock; `None` where the file cannot be parsed.
    pub counted: Option<Millis>,
}

/// Stores in the file at `path` that the feed is being read at this time of its clock, and up to which
/// follow-up. The stored number never decreases for the same feed.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn note_read(path: &Path, epoch: &str, seq: Seq, now: Millis) -> io::Result<()> {
    let before = last_read(path).filter(|before| before.epoch == epoch);
    let seq = before.map_or(seq, |before| before.seq.max(seq));
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    files::replace(path, &fresh, format!("{epoch} {seq} {now}\n").as_bytes())
}

/// Returns what was stored last; `None` when the feed was never read.
fn last_read(path: &Path) -> Option<LastRead> {
    let at = fs::symlink_metadata(path).ok()?.modified().ok()?;
    // If the file cannot be parsed, its time is still known.
    let text = files::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split_whitespace();
    let mut next = || words.next().unwrap_or_default();
    Some(LastRead {
        epoch: next().to_owned(),
        seq: next().parse().unwrap_or_default(),
        counted: next().parse().ok(),
        at,
    })
}

/// What a feed contains for other programs than its daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// The feed's epoch; empty when it has no record.
    pub epoch: String,
    /// The sequence number of the last follow-up.
    pub last_follow_up: Option<Seq>,
    /// When a run last began or ended.
    pub last_run: Option<Millis>,
}

/// Returns the contents of the feed at `path`, read from its end. A missing one has none.
///
/// # Errors
///
/// When the feed cannot be read.
pub(super) fn holdings(path: &Path) -> Result<Holdings, FeedError> {
    read_holdings(path).map_err(FeedError::reading(path))
}

fn read_holdings(path: &Path) -> io::Result<Holdings> {
    let mut holdings = Holdings::default();
    for file in files_backwards(path)? {
        let end = file.metadata()?.len();
        let mut lines = LinesBackwards::before(file, end);
        while holdings.last_follow_up.is_none() || holdings.last_run.is_none() {
            let Some(line) = lines.next_line()? else {
                break;
            };
            if !line.trim_ascii().is_empty()
                && let FeedLine::Record(record) = FeedLine::parse(&line)
            {
                holdings.add(*record);
            }
        }
    }
    Ok(holdings)
}

impl Holdings {
    /// Adds a record that is earlier than those before.
    fn add(&mut self, record: Record) {
        if record.body.kind() == Kind::FollowUp {
            self.last_follow_up = self.last_follow_up.or(Some(record.seq));
        }
        if record.body.is_of_run() {
            self.last_run = self.last_run.or(Some(record.time));
        }
        if self.epoch.is_empty() {
            self.epoch = record.epoch;
        }
    }

    /// Whether there is a follow-up that was not read, or that a consumer has not acknowledged.
    fn has_unread(&self, read: Option<&LastRead>, consumers: &[SavedConsumer]) -> bool {
        let Some(last) = self.last_follow_up else {
            return false;
        };
        let read = read.filter(|read| read.epoch == self.epoch);
        let is_read = read.is_some_and(|read| read.seq >= last)
            || consumers
                .iter()
                .filter(|consumer| !consumer.is_sink())
                .any(|consumer| consumer.read_in(&self.epoch) >= last);
        let is_acknowledged = consumers
            .iter()
            .all(|consumer| consumer.cursor_in(&self.epoch, last) >= last);
        !is_read || !is_acknowledged
    }
}

/// What a feed contains, and how far it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadProgress {
    pub feed: Holdings,
    /// How far it was read by any reader; `None` if it never was.
    pub read: Option<LastRead>,
    pub consumers: Vec<SavedConsumer>,
    /// Times by the feed's clock; `None` if no daemon has written any.
    pub counted: Option<CountedTimes>,
}

/// Times by the clock of a feed, which nobody can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedTimes {
    /// What it shows now.
    pub now: Millis,
    /// When a run last began or ended.
    pub last_run: Option<Millis>,
}

impl ReadProgress {
    /// Returns the progress in the feed at `feed`, whose consumers are in a folder, and whose readers
    /// note in a file how far they are. What is missing is empty.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read: what is unread is not known then.
    pub(crate) fn load(
        feed: &Path,
        consumers: &Path,
        last_reader: &Path,
        now: &BootTime,
    ) -> Result<Self, Error> {
        let counted = Ages::of_daemon(feed, now).map(|ages| CountedTimes {
            now: ages.clock().at(now.millis),
            last_run: ages.last_run,
        });
        let feed = holdings(feed)?;
        let consumers = load_consumers(consumers).map_err(Error::of)?;
        Ok(Self {
            feed,
            consumers: consumers
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(|damaged: DamagedConsumer| Error::of(damaged))?,
            read: last_read(last_reader),
            counted,
        })
    }

    /// Whether there is a follow-up that was not read, or that a consumer has not acknowledged.
    pub(crate) fn has_unread(&self) -> bool {
        self.feed.has_unread(self.read.as_ref(), &self.consumers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ConsumerAudience;

    fn read_up_to(epoch: &str, seq: Seq) -> LastRead {
        LastRead {
            epoch: epoch.to_owned(),
            seq,
            at: SystemTime::UNIX_EPOCH,
            counted: None,
        }
    }

    #[test]
    fn a_follow_up_is_unread_until_a_reader_has_reached_it() {
        let holds = |last| Holdings {
            epoch: "e".to_owned(),
            last_follow_up: last,
            last_run: None,
        };
        assert!(!holds(None).has_unread(None, &[]));
        assert!(holds(Some(4)).has_unread(None, &[]));
        assert!(holds(Some(4)).has_unread(Some(&read_up_to("e", 3)), &[]));
        assert!(!holds(Some(4)).has_unread(Some(&read_up_to("e", 4)), &[]));
        assert!(holds(Some(4)).has_unread(Some(&read_up_to("other", 9)), &[]));
    }

    #[test]
    fn a_follow_up_is_unread_while_a_consumer_has_not_acknowledged_it() {
        let feed = Holdings {
            epoch: "e".to_owned(),
            last_follow_up: Some(4),
            last_run: None,
        };
        let consumer = |epoch: &str, cursor, first_left_out| SavedConsumer {
            v: 1,
            name: "pi".to_owned(),
            epoch: epoch.to_owned(),
            cursor,
            first_left_out,
            created_at: 0,
            used_at: 0,
            used_after: 0,
            audience: ConsumerAudience::default(),
        };
        let read = read_up_to("e", 9);
        let behind = consumer("e", 3, None);
        let acknowledged = consumer("e", 4, None);
        assert!(!feed.has_unread(Some(&read), std::slice::from_ref(&acknowledged)));
        let both = [acknowledged.clone(), behind];
        assert!(feed.has_unread(Some(&read), &both));
        assert!(feed.has_unread(Some(&read), &both[1..]));
        assert!(feed.has_unread(Some(&read), &[consumer("other", 9, None)]));
        // The acknowledgement says that it was read, unless it was for another owner.
        assert!(!feed.has_unread(None, &[acknowledged]));
        assert!(feed.has_unread(None, &[consumer("e", 4, Some(2))]));
    }

    #[test]
    fn progress_is_not_known_if_a_consumer_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let [feed, consumers, last_reader] =
            ["feed.jsonl", "consumers", "last-reader"].map(|name| dir.path().join(name));
        let now = BootTime {
            boot: String::new(),
            millis: 0,
        };
        let load = || ReadProgress::load(&feed, &consumers, &last_reader, &now);
        assert_eq!(load().unwrap(), ReadProgress::default());
        note_read(&last_reader, "e", 7, 0).unwrap();
        assert_eq!(load().unwrap().read.unwrap().seq, 7);
        fs::create_dir(&consumers).unwrap();
        assert!(load().is_ok());
        fs::write(consumers.join("pi"), b"{").unwrap();
        assert!(load().is_err());
    }

    #[test]
    fn what_was_read_is_not_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("last-reader");
        assert_eq!(last_read(&path), None);
        let noted = |epoch: &str, seq| {
            note_read(&path, epoch, seq, 5).unwrap();
            let read = last_read(&path).unwrap();
            (read.epoch, read.seq)
        };
        assert_eq!(noted("e", 7), ("e".to_owned(), 7));
        assert_eq!(noted("e", 0), ("e".to_owned(), 7));
        assert_eq!(noted("f", 2), ("f".to_owned(), 2));
        assert_eq!(last_read(&path).unwrap().counted, Some(5));
        fs::write(&path, b"").unwrap();
        assert_eq!(last_read(&path).unwrap().seq, 0);
    }
}
