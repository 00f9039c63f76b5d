//! Appends to the feed, so that after a crash a write is there completely or not at all.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::read::each_whole;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Record, Seq};
use crate::wire::{Context, DurableRecord};

/// How many bytes may be unwritten before recording stops: some thousands of records.
const MOST_UNWRITTEN: usize = 4 << 20;

/// Why the feed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The file cannot be opened, read or written.
    #[error("could not {what} the feed {}", .path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The feed's file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The feed, opened for appending. One daemon at a time has it open, ensured by its lock.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Where the last complete write ends, in bytes.
    end: u64,
    /// Lines to be written, because the disk refused them or they are queued.
    unwritten: Vec<u8>,
    /// The sequence number of the first of those, and their epoch.
    next: Option<(Seq, String)>,
    /// Whether there may be a partial write behind `end`, to be cut off before the next one.
    torn: bool,
    /// How many times the file was found to be another one.
    changes: u64,
}

impl Journal {
    /// Opens the feed and cuts off what is behind `end`: a partial write left by a crash. A file
    /// without a complete write, where `end` is 0, is kept under another name.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or cut.
    pub fn open(path: &Path, end: u64) -> Result<Self, FeedError> {
        let failed = |what| {
            let path = path.to_owned();
            move |source| FeedError::Io { what, path, source }
        };
        let is_new = fs::symlink_metadata(path).is_err();
        let file = files::open_to_append(path).map_err(failed("open"))?;
        if is_new && let Err(error) = sync_folders(path) {
            // Some file systems cannot; then the feed is as safe as possible there.
            tracing::warn!(%error, "could not sync the feed's folder");
        }
        let length = file.metadata().map_err(failed("open"))?.len();
        if length > 0 && end == 0 {
            // No complete write of ours. It may be anything, so nothing of it is lost.
            put_aside(path)?;
            return Self::open(path, end);
        }
        if length > end {
            file.set_len(end)
                .and_then(|()| file.sync_all())
                .map_err(failed("repair"))?;
        }
        Ok(Self::of(file, path, end))
    }

    /// Continues behind `end` in this file, which is open for appending.
    pub(crate) fn of(file: File, path: &Path, end: u64) -> Self {
        Self {
            file,
            path: path.to_owned(),
            end,
            unwritten: Vec::new(),
            next: None,
            torn: false,
            changes: 0,
        }
    }

    /// Returns where the last complete write ends, in bytes.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns how many times the file was removed or replaced: readers then start over.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the feed's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes these records, and all that an earlier failure left unwritten, in one write, and
    /// waits until they are on the disk.
    ///
    /// # Errors
    ///
    /// When the disk refuses. Nothing is lost then: the records are written by the next call.
    pub fn append(&mut self, records: &[Record], context: &Context) -> Result<(), FeedError> {
        self.queue(records, context);
        self.flush()
    }

    /// Queues these records for the next [`Journal::flush`]. After a crash all of them are in the
    /// feed or none.
    pub fn queue(&mut self, records: &[Record], context: &Context) {
        if let (None, Some(first)) = (&self.next, records.first()) {
            self.next = Some((first.seq, context.epoch.clone()));
        }
        let mut more = u32::try_from(records.len()).unwrap_or(u32::MAX);
        for record in records {
            more = more.saturating_sub(1);
            let line = DurableRecord::new(record, more, context);
            serde_json::to_writer(&mut self.unwritten, &line)
                .expect("a record is plain data and a vector takes every write");
            self.unwritten.push(b'\n');
        }
    }

    /// Returns how many bytes the next [`Journal::flush`] has to write.
    #[must_use]
    pub fn n_unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether an earlier failure left records unwritten.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Whether so much is unwritten that recording should stop until the disk accepts it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.unwritten.len() >= MOST_UNWRITTEN
    }

    /// Writes everything queued, in one write, and waits until it is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk refuses again.
    pub fn flush(&mut self) -> Result<(), FeedError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.write() {
            // An incomplete line must not stay: the next write would be joined to it.
            if let Err(error) = self.cut() {
                tracing::error!(%error, "could not cut a half-written record off the feed");
            }
            return Err(FeedError::Io {
                what: "write",
                path: self.path.clone(),
                source,
            });
        }
        self.end += self.unwritten.len() as u64;
        self.unwritten.clear();
        self.next = None;
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
            self.file.set_len(self.end)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Makes sure that the written data will be found: the file may have been deleted, replaced or
    /// changed since the last write.
    fn find(&mut self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if is_same(&there, &self.file.metadata()?) => {
                if there.len() > self.end {
                    // Not a record of ours; the next one would be joined to it.
                    tracing::warn!("cut off foreign data at the end of the feed");
                    self.file.set_len(self.end)?;
                }
                if there.len() >= self.end {
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
            .map_err(|FeedError::Io { source, .. }| source)
    }

    /// Continues behind what the file contains now, if that belongs to this feed, else in a new
    /// file. Sequence numbers continue in any case.
    fn take_up(&mut self) -> Result<(), FeedError> {
        let failed = |what| {
            let path = self.path.clone();
            move |source| FeedError::Io { what, path, source }
        };
        if let Some(folder) = self.path.parent() {
            files::make_folder(folder, OPEN_TO_OTHERS).map_err(failed("make the folder of"))?;
        }
        let (mut last, mut epoch) = (0, None);
        let read = each_whole(&self.path, |line| {
            if let Some(frame) = line.frame() {
                last = frame.seq;
                epoch = Some(frame.epoch);
            }
        });
        let mut end = match read {
            Ok(read) => read.at,
            // A link, a pipe or another user's file is in its place.
            Err(FeedError::Io { source, .. }) if files::is_refusal(&source) => 0,
            Err(error) => return Err(error),
        };
        let fits = match (&self.next, &epoch) {
            (Some((next, ours)), Some(epoch)) => epoch == ours && last < *next,
            (None, _) | (_, None) => false,
        };
        if !fits {
            end = 0;
            let there = fs::symlink_metadata(&self.path);
            let is_something = there.is_ok_and(|there| there.len() > 0 || !there.is_file());
            if is_something {
                put_aside(&self.path)?;
            }
        }
        let reopened = Self::open(&self.path, end)?;
        (self.file, self.end) = (reopened.file, reopened.end);
        self.changes += 1;
        Ok(())
    }
}

/// Keeps a file that is not of this feed under another name.
fn put_aside(path: &Path) -> Result<(), FeedError> {
    let aside = path.with_extension("jsonl.other");
    fs::rename(path, &aside).map_err(|source| FeedError::Io {
        what: "put aside",
        path: path.to_owned(),
        source,
    })?;
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

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
