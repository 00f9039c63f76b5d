//! Reads all files of a feed that no other process writes.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Part, Place, find};
use super::read::FeedLine;
use super::segments::{FileId, LineFile};
use crate::files;
use crate::model::Seq;

/// The end of the complete writes of a feed.
#[derive(Debug, Default, Clone, Copy)]
pub struct End {
    /// The sequence number of the last record, whether it can be read or not.
    pub last_seq: Seq,
    /// The offset of the byte behind it in the file where records are appended; 0 when it is in a
    /// closed segment.
    pub at: u64,
}

/// Reads the lines of all complete writes, which are those that a crash did not interrupt. It holds
/// one write at a time.
#[derive(Debug)]
pub struct WholeLines {
    files: FilesInOrder,
    /// Lines of a complete write that are not returned yet.
    whole: VecDeque<FeedLine>,
    /// Lines of the write that is being read.
    write: Vec<FeedLine>,
    /// How many lines of that write are missing.
    to_come: u32,
    /// The sequence number of the last readable line.
    read: Seq,
    /// How many unreadable lines follow it.
    damaged: u64,
    end: End,
    /// The epoch of the record behind which reading began.
    epoch: Option<String>,
}

impl WholeLines {
    /// Returns the lines from the start of the feed. A missing feed has no lines.
    ///
    /// # Errors
    ///
    /// When the files cannot be listed.
    pub fn new(feed: &Path) -> Result<Self, FeedError> {
        Self::after(feed, 0)
    }

    /// Returns the lines from about the record `after` on: all records behind it, and some before
    /// it.
    ///
    /// # Errors
    ///
    /// When the feed cannot be read. A missing one has no lines.
    pub fn after(feed: &Path, after: Seq) -> Result<Self, FeedError> {
        let place = find(feed, after).map_err(FeedError::reading(feed))?;
        Self::behind(feed, place)
    }

    /// Returns the lines of the file where records are appended.
    pub(super) fn of_active(feed: &Path) -> Result<Self, FeedError> {
        Self::behind(feed, Place::start_of(Part::Active))
    }

    /// Returns the lines behind a position where a record ends.
    pub(super) fn behind(feed: &Path, place: Place) -> Result<Self, FeedError> {
        let mut parts = Part::all(feed).map_err(FeedError::reading(feed))?;
        let first = parts.iter().position(|part| *part == place.part);
        parts.drain(..first.unwrap_or_default());
        let end = End {
            last_seq: place.seq(),
            at: match place.part {
                Part::Active => place.at,
                Part::Closed(_) => 0,
            },
        };
        Ok(Self {
            files: FilesInOrder {
                feed: feed.to_owned(),
                parts: parts.into(),
                id: place.id,
                at: place.at,
                file: None,
            },
            whole: VecDeque::new(),
            write: Vec::new(),
            to_come: 0,
            read: end.last_seq,
            damaged: 0,
            end,
            epoch: place.frame.map(|frame| frame.epoch),
        })
    }

    /// Returns the next line; `None` when there is no complete one.
    ///
    /// # Errors
    ///
    /// When the feed cannot be read.
    pub fn next_line(&mut self) -> Result<Option<FeedLine>, FeedError> {
        while self.whole.is_empty() {
            let step = self.files.next_step();
            match step.map_err(FeedError::reading(&self.files.feed))? {
                Step::Line(bytes) => self.add(FeedLine::parse(&bytes)),
                // A write is in one file: what is missing of it is damaged.
                Step::EndOfSegment => self.end_write(0),
                Step::End => return Ok(None),
            }
        }
        Ok(self.whole.pop_front())
    }

    fn add(&mut self, line: FeedLine) {
        match line.frame() {
            Some(frame) => {
                (self.read, self.damaged, self.to_come) = (frame.seq, 0, frame.more);
            }
            None => {
                self.damaged += 1;
                self.to_come = self.to_come.saturating_sub(1);
            }
        }
        self.write.push(line);
        // With no record before it, an unreadable line may be anything.
        if self.to_come == 0 && self.read > 0 {
            self.end_write(self.files.at_in_active());
        }
    }

    /// Passes on what was read of a write, which ends at this byte of the file where records are
    /// appended.
    fn end_write(&mut self, at: u64) {
        self.whole.extend(self.write.drain(..));
        self.to_come = 0;
        // A line that was a record once has used its number.
        let last_seq = self.read + self.damaged;
        self.end = End { last_seq, at };
    }

    /// Returns the epoch of the record behind which reading began; `None` at the start.
    pub fn epoch(&self) -> Option<&str> {
        self.epoch.as_deref()
    }

    /// Returns the end of the last complete write that was read.
    pub fn end(&self) -> End {
        self.end
    }
}

/// The result of reading on.
enum Step {
    /// A complete line.
    Line(Vec<u8>),
    /// A closed segment was read to its end.
    EndOfSegment,
    /// There is no further complete line.
    End,
}

/// The files of a feed, one after the other. Nobody closes or removes one meanwhile: only a daemon does,
/// and while one runs it is asked.
#[derive(Debug)]
struct FilesInOrder {
    /// The file where records are appended.
    feed: PathBuf,
    /// Those that are still to be read, the present one first.
    parts: VecDeque<Part>,
    /// The file that `at` refers to, if it is known.
    id: Option<FileId>,
    /// Where to start in the file, before it is opened.
    at: u64,
    file: Option<LineFile>,
}

impl FilesInOrder {
    fn next_step(&mut self) -> io::Result<Step> {
        let Some(part) = self.parts.front() else {
            return Ok(Step::End);
        };
        if self.file.is_none() {
            let opened = LineFile::open(&part.path(&self.feed), self.at, self.id);
            self.file = files::if_there(opened)?;
        }
        if let Some(file) = &mut self.file
            && let Some(line) = file.next_line(u64::MAX)?
        {
            return Ok(Step::Line(line));
        }
        if *part == Part::Active {
            return Ok(Step::End);
        }
        self.parts.pop_front();
        (self.id, self.at, self.file) = (None, 0, None);
        Ok(Step::EndOfSegment)
    }

    /// Returns the offset behind the last line in the file where records are appended; 0 in a closed
    /// segment.
    fn at_in_active(&self) -> u64 {
        let file = self.file.as_ref();
        let file = file.filter(|_| self.parts.front() == Some(&Part::Active));
        file.map_or(0, LineFile::at)
    }
}
