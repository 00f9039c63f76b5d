//! Reads all files of a feed, also while a daemon appends to it, closes a segment or removes one.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Part, Place, find};
use super::floor::closed_firsts;
use super::read::FeedLine;
use super::segments::LineFile;
use super::segments::{FileId, segment_path};
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
        let first = Part::first(feed).map_err(FeedError::reading(feed))?;
        Ok(Self::behind(feed, Place::start_of(first)))
    }

    /// Returns the lines from about the record `after` on: all records behind it, and some before
    /// it.
    ///
    /// # Errors
    ///
    /// When the feed cannot be read. A missing one has no lines.
    pub fn after(feed: &Path, after: Seq) -> Result<Self, FeedError> {
        let place = find(feed, after).map_err(FeedError::reading(feed))?;
        Ok(Self::behind(feed, place))
    }

    /// Returns the lines of the file where records are appended.
    pub(super) fn of_active(feed: &Path) -> Result<Self, FeedError> {
        let closed = closed_firsts(feed).map_err(FeedError::reading(feed))?;
        let behind = closed.last().copied().unwrap_or_default();
        Ok(Self::behind(feed, Place::start_of(Part::Active { behind })))
    }

    /// Returns the lines behind a position where a record ends.
    pub(super) fn behind(feed: &Path, place: Place) -> Self {
        let end = End {
            last_seq: place.seq(),
            at: match place.part {
                Part::Active { .. } => place.at,
                Part::Closed(_) => 0,
            },
        };
        Self {
            files: FilesInOrder {
                feed: feed.to_owned(),
                part: place.part,
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
        }
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

/// The files of a feed, one after the other.
#[derive(Debug)]
struct FilesInOrder {
    /// The file where records are appended.
    feed: PathBuf,
    part: Part,
    /// The file that `at` refers to, if it is known.
    id: Option<FileId>,
    /// Where to start in the file, before it is opened.
    at: u64,
    file: Option<LineFile>,
}

impl FilesInOrder {
    fn next_step(&mut self) -> io::Result<Step> {
        loop {
            let Some(file) = &mut self.file else {
                if !self.open()? {
                    return Ok(Step::End);
                }
                continue;
            };
            if let Some(line) = file.next_line(u64::MAX)? {
                return Ok(Step::Line(line));
            }
            match self.part {
                Part::Closed(first) => {
                    self.go_to(Part::behind(&self.feed, first)?);
                    return Ok(Step::EndOfSegment);
                }
                Part::Active { .. } if file.id().is_at(&self.feed) => return Ok(Step::End),
                Part::Active { behind } => {
                    // It was closed meanwhile. Records may have been appended before that.
                    if let Some(line) = file.next_line(u64::MAX)? {
                        return Ok(Step::Line(line));
                    }
                    let id = file.id();
                    let closed = closed_firsts(&self.feed)?;
                    let ours = closed.iter().find(|first| {
                        **first > behind && id.is_at(&segment_path(&self.feed, **first))
                    });
                    let part = Part::behind(&self.feed, ours.copied().unwrap_or(behind))?;
                    self.go_to(part);
                    return Ok(Step::EndOfSegment);
                }
            }
        }
    }

    fn go_to(&mut self, part: Part) {
        self.part = part;
        self.id = None;
        self.at = 0;
        self.file = None;
    }

    /// Opens the present part, or the next one that exists. Returns whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        loop {
            let path = match self.part {
                Part::Closed(first) => segment_path(&self.feed, first),
                Part::Active { .. } => self.feed.clone(),
            };
            let opened = files::if_there(LineFile::open(&path, self.at, self.id))?;
            match self.part {
                Part::Closed(first) if opened.is_none() => {
                    self.go_to(Part::behind(&self.feed, first)?);
                }
                Part::Closed(_) => {
                    self.file = opened;
                    return Ok(true);
                }
                Part::Active { behind } => match Part::behind(&self.feed, behind)? {
                    // It was closed before it was opened, and perhaps others after it.
                    part @ Part::Closed(_) => self.part = part,
                    Part::Active { .. } => {
                        self.file = opened;
                        return Ok(self.file.is_some());
                    }
                },
            }
        }
    }

    /// Returns the offset behind the last line in the file where records are appended; 0 in a closed
    /// segment.
    fn at_in_active(&self) -> u64 {
        match (self.part, &self.file) {
            (Part::Active { .. }, Some(file)) => file.at(),
            (Part::Active { .. }, None) | (Part::Closed(_), _) => 0,
        }
    }
}
