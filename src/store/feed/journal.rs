//! Appends to the feed, so that after a crash a write is there completely or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::read::failed;
use super::reader::{end_of_active, first_record};
use super::segments::{FeedEnd, FileId, closed_firsts, segment_path};
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Context, Error, Millis, Record, Seq};

/// How many bytes may be unwritten before recording stops: some thousands of records.
const MOST_UNWRITTEN: usize = 4 << 20;

/// The feed, opened for appending. One daemon at a time has it open, ensured by its lock.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// The end of the last complete write.
    end: FeedEnd,
    /// When the first record of the file was made; `None` when that is not known.
    first_at: Option<Millis>,
    /// Lines to be written, because the disk refused them or they are queued.
    unwritten: Vec<u8>,
    /// The first and the last of those.
    queued: Option<QueuedRecords>,
    /// Whether there may be a partial write behind `end`, to be cut off before the next one.
    torn: bool,
}

/// The records that are to be written.
#[derive(Debug)]
struct QueuedRecords {
    first: Seq,
    first_at: Millis,
    epoch: String,
    last: Seq,
}

impl Journal {
    /// Opens the file where records are appended, cuts off what is behind the byte `end`, a partial write left
    /// by a crash, and syncs what is before it. A file without a complete write, where `end` is 0, is kept
    /// under another name. `last_seq` is the last record of the feed, which may be in a closed segment.
    pub fn open(path: &Path, end: u64, last_seq: Seq) -> Result<Self, Error> {
        Self::try_open(path, end, last_seq).map_err(failed("open", path))
    }

    fn try_open(path: &Path, end: u64, last_seq: Seq) -> io::Result<Self> {
        let file = files::open_to_append(path)?;
        let length = file.metadata()?.len();
        if length > 0 && end == 0 {
            // No complete write of ours. It may be anything, so nothing of it is lost.
            put_aside(path)?;
            return Self::try_open(path, end, last_seq);
        }
        if length > end {
            file.set_len(end)?;
            file.sync_all()?;
        }
        // A daemon that was killed may have written what it did not sync: nobody is sent it before
        // it is on the disk.
        if end > 0 {
            file.sync_data()?;
        }
        if let Err(error) = sync_folders(path) {
            // Some file systems cannot; then the feed is as safe as possible there.
            tracing::warn!(%error, "could not sync the feed's folder");
        }
        let mut journal = Self::of(file, path, end, last_seq)?;
        if end > 0
            && let Some(first) = first_record(&files::open(path)?)?
        {
            let closed = closed_firsts(path)?;
            let behind = closed.last().map_or(0, |last| last + 1);
            journal.end.segment = first.seq.max(behind);
            journal.first_at = first.time;
        }
        Ok(journal)
    }

    /// Continues behind the byte `end` of this file, which is open for appending.
    pub(crate) fn of(file: File, path: &Path, end: u64, last_seq: Seq) -> io::Result<Self> {
        let id = FileId::of(&file.metadata()?);
        Ok(Self {
            file,
            path: path.to_owned(),
            end: FeedEnd {
                segment: last_seq + 1,
                id,
                at: end,
                last_seq,
                changes: 0,
            },
            first_at: None,
            unwritten: Vec::new(),
            queued: None,
            torn: false,
        })
    }

    /// Returns where the last complete write ends.
    pub fn end(&self) -> FeedEnd {
        self.end
    }

    /// Returns when the first record of the file was made; `None` when that is not known.
    pub fn first_at(&self) -> Option<Millis> {
        self.first_at
    }

    /// Makes the file a closed segment and continues in a new one. What is queued is written there. Does
    /// nothing if the file is empty, or not as it was written: the next write finds out. If the disk
    /// refuses, the next write continues in the file that is there, or in a new one.
    pub fn close_segment(&mut self) -> Result<(), Error> {
        let closed = self.try_close_segment();
        closed.map_err(failed("close a segment of", &self.path))
    }

    fn try_close_segment(&mut self) -> io::Result<()> {
        let there = fs::symlink_metadata(&self.path);
        let is_as_written = there
            .is_ok_and(|there| FileId::of(&there) == self.end.id && there.len() == self.end.at);
        let closed = segment_path(&self.path, self.end.segment);
        if self.end.at == 0 || self.torn || !is_as_written {
            return Ok(());
        }
        if fs::symlink_metadata(&closed).is_ok() {
            put_aside(&closed)?;
        }
        fs::rename(&self.path, &closed)?;
        self.reopen(0)
    }

    /// Returns the feed's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Queues these records for the next [`Journal::flush`]. After a crash all of them are in the feed or none.
    pub fn queue(&mut self, records: &[Record], context: &Context) {
        if let (Some(first), Some(last)) = (records.first(), records.last()) {
            let queued = self.queued.get_or_insert_with(|| QueuedRecords {
                first: first.seq,
                first_at: first.time,
                epoch: context.epoch.clone(),
                last: last.seq,
            });
            queued.last = last.seq;
        }
        let mut more = u32::try_from(records.len()).unwrap_or(u32::MAX);
        for record in records {
            more = more.saturating_sub(1);
            let line = record.clone().stamped(more, context);
            serde_json::to_writer(&mut self.unwritten, &line)
                .expect("a record is plain data and a vector takes every write");
            self.unwritten.push(b'\n');
        }
    }

    /// Returns how many bytes the next [`Journal::flush`] has to write.
    pub fn n_unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether so much is unwritten that recording should stop until the disk accepts it.
    pub fn is_full(&self) -> bool {
        self.unwritten.len() >= MOST_UNWRITTEN
    }

    /// Writes everything queued, in one write, and waits until it is on the disk.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.write() {
            // An incomplete line must not stay: the next write would be joined to it.
            if let Err(error) = self.cut() {
                tracing::error!(%error, "could not cut a half-written record off the feed");
            }
            return Err(failed("write", &self.path)(source));
        }
        if let Some(queued) = self.queued.take() {
            if self.end.at == 0 {
                self.end.segment = queued.first;
                self.first_at = Some(queued.first_at);
            }
            self.end.last_seq = queued.last;
        }
        self.end.at += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.cut()?;
        self.find()?;
        self.torn = true;
        self.file.write_all(&self.unwritten)?;
        self.file.sync_data()?;
        self.torn = false;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.end.at)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Makes sure that the written data will be found: the file may have been deleted, replaced or
    /// changed since the last write.
    fn find(&mut self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if FileId::of(&there) == self.end.id => {
                if there.len() > self.end.at {
                    // Not a record of ours; the next one would be joined to it.
                    tracing::warn!("cut off foreign data at the end of the feed");
                    self.file.set_len(self.end.at)?;
                }
                if there.len() >= self.end.at {
                    return Ok(());
                }
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
        tracing::error!(
            path = %self.path.display(),
            "the feed's file was deleted, replaced or cut; going on in what is there now"
        );
        self.take_up()
    }

    /// Continues behind what the file contains now, if that belongs to this feed, else in a new
    /// file. Sequence numbers continue in any case.
    fn take_up(&mut self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            files::make_folder(folder, OPEN_TO_OTHERS)?;
        }
        let (epoch, last) = match end_of_active(&self.path) {
            Ok(end) => end,
            // A link, a pipe or another user's file is in its place.
            Err(error) if files::is_refusal(&error) => Default::default(),
            Err(error) => return Err(error),
        };
        let fits = self.queued.as_ref().is_some_and(|queued| {
            epoch.as_ref() == Some(&queued.epoch) && last.last_seq < queued.first
        });
        let end = if fits { last.at } else { 0 };
        if !fits {
            let there = fs::symlink_metadata(&self.path);
            let is_something = there.is_ok_and(|there| there.len() > 0 || !there.is_file());
            if is_something {
                put_aside(&self.path)?;
            }
        }
        self.reopen(end)?;
        // Readers start over.
        self.end.changes += 1;
        Ok(())
    }

    /// Opens the file that has its name now, and goes on behind the byte `end`.
    fn reopen(&mut self, end: u64) -> io::Result<()> {
        let fresh = Self::try_open(&self.path, end, self.end.last_seq)?;
        let changes = self.end.changes;
        self.file = fresh.file;
        self.end = FeedEnd {
            changes,
            ..fresh.end
        };
        self.first_at = fresh.first_at;
        Ok(())
    }
}

/// Keeps a file that is not of this feed under another name.
fn put_aside(path: &Path) -> io::Result<()> {
    let aside = files::put_aside(path, path, "other")?;
    tracing::error!(aside = %aside.display(), "put aside what is not of this feed");
    Ok(())
}

/// Makes a new file's name durable: a synced file without a synced folder entry is lost in a power
/// cut. The folder may be new as well.
fn sync_folders(path: &Path) -> io::Result<()> {
    let folders = path.ancestors().skip(1).take(2);
    for folder in folders.filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
