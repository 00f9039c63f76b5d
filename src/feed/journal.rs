//! Appending, so that a crash leaves all of a write or nothing of it.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::read::each_whole;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Record, Seq};
use crate::wire::{Context, DurableRecord};

/// How many bytes may wait for the disk before nothing more is recorded: some thousands of records.
const MOST_UNWRITTEN: usize = 4 << 20;

/// Why the feed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The file cannot be opened, read or written.
    #[error("could not {what} the feed {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The feed's file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// The feed, open for appending. One daemon at a time has it, by its lock.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Where the last whole write ends, in bytes.
    end: u64,
    /// Lines that are still to be written because the disk refused them.
    unwritten: Vec<u8>,
    /// The number of the first of those, and their feed.
    next: Option<(Seq, String)>,
    /// Whether part of a write may stand behind `end`, to be cut off before the next.
    torn: bool,
    /// How often the file turned out to be another one.
    changes: u64,
}

impl Journal {
    /// Opens the feed and cuts off what lies behind `end`, the torn tail of a crash.
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
            // Some file systems cannot; the feed is as good as it can be there.
            tracing::warn!(%error, "could not sync the feed's folder");
        }
        let length = file.metadata().map_err(failed("open"))?.len();
        if length > end {
            file.set_len(end)
                .and_then(|()| file.sync_all())
                .map_err(failed("repair"))?;
        }
        Ok(Self::of(file, path, end))
    }

    /// Goes on behind `end` in this file, which is open for appending.
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

    /// Returns where the last whole write ends, in bytes.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Counts how often somebody took the file away or replaced it: readers begin anew then.
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
    /// When the disk refuses. Nothing is lost then: the records wait for the next call.
    pub fn append(&mut self, records: &[Record], context: &Context) -> Result<(), FeedError> {
        self.queue(records, context);
        self.flush()
    }

    /// Takes these records for the next [`Journal::flush`]; after a crash all of them are in the feed
    /// or none.
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

    /// Whether so much is unwritten that nothing more should be recorded until the disk takes it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.unwritten.len() >= MOST_UNWRITTEN
    }

    /// Writes what is queued, in one write, and waits until it is on the disk.
    ///
    /// # Errors
    ///
    /// When the disk refuses again.
    pub fn flush(&mut self) -> Result<(), FeedError> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.write() {
            // Half a line must not stay: the next write would be glued to it.
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

    /// Sees to it that what is written will be found: the file may have been deleted, replaced or
    /// changed since the last write.
    fn find(&mut self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if is_same(&there, &self.file.metadata()?) => {
                if there.len() > self.end {
                    // No record of ours; the next one would be glued to it.
                    tracing::warn!("cut off what somebody wrote at the end of the feed");
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

    /// Goes on behind what the file has now, if that is of this feed, and else in a new file. The
    /// numbers go on in any case.
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
            // A link, a pipe or another user's file was put in its place.
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
                let aside = self.path.with_extension("jsonl.other");
                fs::rename(&self.path, &aside).map_err(failed("put aside"))?;
                tracing::error!(aside = %aside.display(), "put aside what is not of this feed");
            }
        }
        let anew = Self::open(&self.path, end)?;
        (self.file, self.end) = (anew.file, anew.end);
        self.changes += 1;
        Ok(())
    }
}

/// Makes a new file's name last: a synced file that its folder does not name is lost in a power cut.
/// The folder may be new as well.
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
