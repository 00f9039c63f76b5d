//! How far a feed was read and acknowledged, and what is left to read: used to decide whether a session
//! is still needed.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::read::{DamagedFile, FeedLine};
use super::reader::{Reader, end_of_files, first_kept};
use super::retention::Ages;
use super::{consumers_of, last_reader_of};
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{BootTime, Error, FEED_VERSION, Kind, Millis, Seq};
use crate::rules::wire::{SavedConsumer, check_consumer_name};

/// How far a feed was read by any reader, and when last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastRead {
    pub epoch: String,
    /// The sequence number of the last follow-up that was read; 0 for none.
    pub seq: Seq,
    pub at: SystemTime,
    /// The same by the feed's clock; `None` where the file cannot be parsed.
    pub counted: Option<Millis>,
}

/// Notes that the feed is read at this time of its clock, and up to which follow-up, which never decreases.
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

/// What a feed contains for other programs than its daemon, and how far it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadProgress {
    /// The feed's epoch; empty when it has no record.
    pub epoch: String,
    pub last_follow_up: Option<Seq>,
    pub last_run: Option<Millis>,
    /// How far it was read by any reader; `None` if it never was.
    pub read: Option<LastRead>,
    pub consumers: Vec<SavedConsumer>,
    /// Times by the feed's clock; `None` if no daemon has written any.
    pub counted: Option<CountedTimes>,
}

/// How many of the feed's last records are read at first.
const FIRST_STEP: u64 = 64;

/// Times by the clock of a feed, which nobody can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedTimes {
    pub now: Millis,
    pub last_run: Option<Millis>,
}

impl ReadProgress {
    /// Returns the progress in the feed at this path. An error means that it is not known what is unread.
    pub(crate) fn load(feed: &Path, now: &BootTime) -> Result<Self, Error> {
        let counted = Ages::of_daemon(feed, now).map(|ages| CountedTimes {
            now: ages.clock().at(now.millis),
            last_run: ages.last_run,
        });
        let mut progress = Self {
            read: last_read(&last_reader_of(feed)),
            counted,
            ..Self::default()
        };
        progress.read_feed(feed)?;
        progress.consumers = read_consumers(&consumers_of(feed)).map_err(Error::of)?;
        Ok(progress)
    }

    /// Reads what the feed at `path` contains, from its end.
    fn read_feed(&mut self, path: &Path) -> Result<(), Error> {
        let (epoch, end) = end_of_files(path)?;
        self.epoch = epoch.unwrap_or_default();
        let first = first_kept(path, &end)?;
        let mut n_records = FIRST_STEP;
        loop {
            let after = end.last_seq.saturating_sub(n_records);
            let mut reader = Reader::before(path, after, &end)?;
            while let Some(line) = reader.next(&end)? {
                match line {
                    FeedLine::Record(record) if record.body.kind() == Kind::FollowUp => {
                        self.last_follow_up = Some(record.seq);
                    }
                    FeedLine::Record(record) if record.body.is_of_run() => {
                        self.last_run = Some(record.time);
                    }
                    FeedLine::Record(_) | FeedLine::Unknown(..) | FeedLine::Damaged => {}
                }
            }
            let is_complete = self.last_follow_up.is_some() && self.last_run.is_some();
            if is_complete || after < first {
                return Ok(());
            }
            n_records = n_records.saturating_mul(16);
        }
    }

    /// Whether there is a follow-up that was not read, or that a consumer has not acknowledged.
    pub(crate) fn has_unread(&self) -> bool {
        let Some(last) = self.last_follow_up else {
            return false;
        };
        let read = self.read.as_ref().filter(|read| read.epoch == self.epoch);
        let has_read = |one: &SavedConsumer| !one.is_sink() && one.read_in(&self.epoch) >= last;
        let is_read = read.is_some_and(|read| read.seq >= last);
        let is_read = is_read || self.consumers.iter().any(has_read);
        let has_acknowledged = |one: &SavedConsumer| one.cursor_in(&self.epoch, last) >= last;
        !is_read || !self.consumers.iter().all(has_acknowledged)
    }
}

// The files of consumers, one for each, named after it.
//
// Names of consumers begin with a letter or digit, so a file whose name begins with a dot is no
// consumer: `.NAME.new` is being written, `.NAME.damaged-1` could not be read.

/// The latest time that a file can have, in milliseconds since 1970.
const LAST_TIME: Millis = 1 << 53;

/// Returns the consumers in this folder, by name. A missing folder has none.
pub fn load_consumers(folder: &Path) -> io::Result<Vec<Result<SavedConsumer, DamagedFile>>> {
    let entries = files::check_owner_of_folder(folder).and_then(|()| fs::read_dir(folder));
    let mut names = Vec::new();
    for entry in files::if_there(entries)?.into_iter().flatten() {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if check_consumer_name(&name).is_ok() {
            names.push(name);
        }
    }
    names.sort();
    let load = |name: &String| {
        let loaded = load(folder, name);
        loaded.map_err(|why| DamagedFile::consumer(folder, name, why))
    };
    Ok(names.iter().map(load).collect())
}

/// The same where all of them have to be readable.
pub(crate) fn read_consumers(folder: &Path) -> io::Result<Vec<SavedConsumer>> {
    let consumers: Result<_, _> = load_consumers(folder)?.into_iter().collect();
    consumers.map_err(io::Error::other)
}

fn load(folder: &Path, name: &str) -> Result<SavedConsumer, String> {
    let saved = files::load_json::<SavedConsumer>(&folder.join(name), FEED_VERSION)?;
    let mut saved = saved.ok_or("it is not there any more")?;
    if saved.name != name {
        return Err("it is the file of another consumer".to_owned());
    }
    // Ages are computed with them.
    saved.created_at = saved.created_at.clamp(0, LAST_TIME);
    saved.used_at = saved.used_at.clamp(0, LAST_TIME);
    Ok(saved)
}

/// Replaces a consumer's file, durable after `sync_consumers`. If that fails, the old file stays.
pub fn store_consumer(folder: &Path, saved: &SavedConsumer) -> io::Result<()> {
    let bytes = files::json_line(saved)?;
    let path = folder.join(&saved.name);
    let fresh = folder.join(format!(".{}.new", saved.name));
    if files::if_there(files::replace_synced(&path, &fresh, &bytes))?.is_none() {
        files::make_folder(folder, OPEN_TO_OTHERS)?;
        files::sync_folder(folder.parent().unwrap_or(folder))?;
        files::replace_synced(&path, &fresh, &bytes)?;
    }
    Ok(())
}

/// Removes a consumer's file. A missing one is fine.
pub(crate) fn remove_consumer(folder: &Path, name: &str) -> io::Result<()> {
    files::if_there(fs::remove_file(folder.join(name))).map(drop)
}

/// Makes the replaced and removed files of this folder durable. A missing folder is fine.
pub(crate) fn sync_consumers(folder: &Path) -> io::Result<()> {
    files::if_there(files::sync_folder(folder)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::saved_consumer as saved;

    fn read_up_to(epoch: &str, seq: Seq) -> LastRead {
        LastRead {
            epoch: epoch.to_owned(),
            seq,
            at: SystemTime::UNIX_EPOCH,
            counted: None,
        }
    }

    #[test]
    fn a_follow_up_is_unread_until_a_reader_and_all_consumers_have_reached_it() {
        let consumer = |epoch: &str, cursor, first_left_out| SavedConsumer {
            epoch: epoch.to_owned(),
            first_left_out,
            ..saved("pi", cursor)
        };
        let acknowledged = consumer("e", 4, None);
        let behind = consumer("e", 3, None);
        let other = consumer("other", 9, None);
        for (last, read, consumers, expected) in [
            (None, None, vec![], false),
            (Some(4), None, vec![], true),
            (Some(4), Some(("e", 3)), vec![], true),
            (Some(4), Some(("e", 4)), vec![], false),
            (Some(4), Some(("other", 9)), vec![], true),
            (Some(4), Some(("e", 9)), vec![&acknowledged], false),
            (Some(4), Some(("e", 9)), vec![&acknowledged, &behind], true),
            (Some(4), Some(("e", 9)), vec![&behind], true),
            (Some(4), Some(("e", 9)), vec![&other], true),
            // The acknowledgement says that it was read, unless it was for another owner.
            (Some(4), None, vec![&acknowledged], false),
            (Some(4), None, vec![&consumer("e", 4, Some(2))], true),
        ] {
            let progress = ReadProgress {
                epoch: "e".to_owned(),
                last_follow_up: last,
                read: read.map(|(epoch, seq)| read_up_to(epoch, seq)),
                consumers: consumers.into_iter().cloned().collect(),
                ..ReadProgress::default()
            };
            assert_eq!(progress.has_unread(), expected, "{progress:?}");
        }
    }

    #[test]
    fn progress_is_not_known_if_a_consumer_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let feed = dir.path().join("feed.jsonl");
        let consumers = consumers_of(&feed);
        let now = BootTime {
            boot: String::new(),
            millis: 0,
        };
        let load = || ReadProgress::load(&feed, &now);
        assert_eq!(load().unwrap(), ReadProgress::default());
        note_read(&last_reader_of(&feed), "e", 7, 0).unwrap();
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

    fn load_all(folder: &Path) -> Vec<SavedConsumer> {
        let loaded = load_consumers(folder).unwrap();
        loaded.into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn what_was_stored_is_loaded_and_what_was_removed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("consumers");
        assert_eq!(load_all(&folder), []);
        remove_consumer(&folder, "a").unwrap();
        sync_consumers(&folder).unwrap();
        for consumer in [saved("b", 1), saved("a", 2), saved("b", 3)] {
            store_consumer(&folder, &consumer).unwrap();
        }
        sync_consumers(&folder).unwrap();
        // What a crash left half written is no consumer.
        fs::write(folder.join(".c.new"), b"{\"v\":1,").unwrap();
        assert_eq!(load_all(&folder), [saved("a", 2), saved("b", 3)]);
        remove_consumer(&folder, "a").unwrap();
        assert_eq!(load_all(&folder), [saved("b", 3)]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_and_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let later = SavedConsumer {
            v: 2,
            ..saved("later", 1)
        };
        let text = |saved: &SavedConsumer| serde_json::to_vec(saved).unwrap();
        let damaged = [
            ("cut", b"{\"v\":1,\"name\":\"cut\"".to_vec()),
            ("empty", Vec::new()),
            ("later", text(&later)),
            ("other", text(&saved("b", 1))),
        ];
        for (name, bytes) in &damaged {
            fs::write(folder.join(name), bytes).unwrap();
        }
        std::os::unix::fs::symlink(folder.join("cut"), folder.join("link")).unwrap();
        let loaded = load_consumers(folder).unwrap();
        let errors: Vec<_> = loaded.into_iter().map(Result::unwrap_err).collect();
        assert_eq!(errors.len(), 5);
        for (error, name) in errors
            .iter()
            .zip(["cut", "empty", "later", "link", "other"])
        {
            let named = format!("the file of consumer `{name}` cannot be read: ");
            assert!(error.to_string().starts_with(&named), "{error}");
            error.set_aside("it starts again");
        }
        assert!(load_consumers(folder).unwrap().is_empty());
        assert_eq!(
            fs::read(folder.join(".later.damaged-1")).unwrap(),
            text(&later)
        );
    }
}
