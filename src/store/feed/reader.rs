//! Reads a feed: of a running daemon up to the end that it has published, or all files of one that no
//! other process writes.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Part, Place, find, first_record, open, search};
use super::read::FeedLine;
use super::segments::{FileId, LineFile, closed_firsts, segment_path};
use crate::files;
use crate::model::Seq;

/// The end of what is written completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedEnd {
    /// The file where records are appended, by the sequence number of its first record. While it is
    /// empty, this is a number behind those of the closed segments.
    pub segment: Seq,
    /// Its identity, whatever its name is by now.
    pub id: FileId,
    /// The offset of the byte behind the last complete write.
    pub at: u64,
}

/// The end of a feed that no daemon writes.
#[derive(Debug)]
pub(crate) struct StoredEnd {
    /// The feed's epoch; `None` when it has no record.
    pub(crate) epoch: Option<String>,
    /// The sequence number of the last record.
    pub(crate) last_seq: Seq,
    /// Where the last complete write ends.
    pub(crate) end: FeedEnd,
}

/// Returns the end of a feed that no daemon writes. A missing one is empty.
///
/// # Errors
///
/// When the feed cannot be read.
pub(crate) fn end_of_files(feed: &Path) -> Result<StoredEnd, FeedError> {
    let mut lines = WholeLines::after(feed, Seq::MAX)?;
    let mut epoch = lines.epoch().map(ToOwned::to_owned);
    while let Some(line) = lines.next_line()? {
        epoch = line.frame().map(|frame| frame.epoch).or(epoch);
    }
    let last = lines.end();
    let mut end = FeedEnd {
        segment: last.last_seq + 1,
        id: FileId::default(),
        at: last.at,
    };
    if let Some(active) = open(feed).map_err(FeedError::reading(feed))? {
        let found = active.metadata().map_err(FeedError::reading(feed))?;
        end.id = FileId::of(&found);
        let first = first_record(&active).map_err(FeedError::reading(feed))?;
        end.segment = first.map_or(end.segment, |first| first.seq);
    }
    Ok(StoredEnd {
        epoch,
        last_seq: last.last_seq,
        end,
    })
}

/// Reads a feed from some position on, through its closed segments.
#[derive(Debug)]
pub(crate) struct Reader {
    feed: PathBuf,
    /// The file that is being read, by the sequence number of its first record.
    segment: Seq,
    /// The file that `at` refers to, if it is known.
    id: Option<FileId>,
    /// Where to start in the file, before it is opened.
    at: u64,
    file: Option<LineFile>,
}

impl Reader {
    /// Returns a reader that starts at this end.
    pub(crate) fn at_end(feed: &Path, end: &FeedEnd) -> Self {
        Self {
            feed: feed.to_owned(),
            segment: end.segment,
            id: Some(end.id),
            at: end.at,
            file: None,
        }
    }

    /// Returns a reader that starts shortly before the record `after`; at the start of the feed
    /// where that cannot be found. `end` is the feed's present end.
    pub(crate) fn before(feed: &Path, after: Seq, end: &FeedEnd) -> Self {
        let mut reader = Self {
            feed: feed.to_owned(),
            segment: 0,
            id: None,
            at: 0,
            file: None,
        };
        if let Err(error) = reader.search(after, end) {
            tracing::warn!(%error, "could not search the feed");
        }
        reader
    }

    fn search(&mut self, after: Seq, end: &FeedEnd) -> io::Result<()> {
        let mut firsts = closed_firsts(&self.feed)?;
        firsts.retain(|first| *first < end.segment);
        firsts.push(end.segment);
        let at_or_before = firsts.iter().rev().find(|first| **first <= after);
        self.segment = at_or_before.or(firsts.first()).copied().unwrap_or_default();
        if at_or_before.is_none() {
            return Ok(());
        }
        let is_last = self.segment == end.segment;
        let limit = if is_last { end.at } else { u64::MAX };
        let closed = open(&segment_path(&self.feed, self.segment))?;
        let file = match closed {
            None if is_last => open(&self.feed)?,
            closed => closed,
        };
        if let Some(file) = file {
            // Which part it is does not matter: the reader knows its segment.
            let place = search(file, Part::Closed(self.segment), after, limit)?;
            (self.at, self.id) = (place.at, place.id);
        }
        Ok(())
    }

    /// Returns the next line before `end`; `None` when there is none yet. Segments that were removed
    /// are skipped: the numbers of the lines show it.
    ///
    /// # Errors
    ///
    /// When the feed cannot be read.
    pub(crate) fn next(&mut self, end: &FeedEnd) -> Result<Option<FeedLine>, FeedError> {
        let bytes = self.next_bytes(end);
        let bytes = bytes.map_err(FeedError::reading(&self.feed))?;
        Ok(bytes.map(|bytes| FeedLine::parse(&bytes)))
    }

    fn next_bytes(&mut self, end: &FeedEnd) -> io::Result<Option<Vec<u8>>> {
        // An end may be older than one that was read up to.
        while self.segment <= end.segment {
            let is_last = self.segment == end.segment;
            let limit = if is_last { end.at } else { u64::MAX };
            if self.file.is_none() {
                self.file = self.open(end)?;
            }
            if let Some(file) = &mut self.file
                && let Some(line) = file.next_line(limit)?
            {
                return Ok(Some(line));
            }
            if is_last {
                return Ok(None);
            }
            let closed = closed_firsts(&self.feed)?;
            let next = closed.into_iter().find(|first| *first > self.segment);
            self.segment = next.map_or(end.segment, |next| next.min(end.segment));
            (self.id, self.at, self.file) = (None, 0, None);
        }
        Ok(None)
    }

    /// Opens the present segment; `None` when it is gone.
    fn open(&self, end: &FeedEnd) -> io::Result<Option<LineFile>> {
        let closed = segment_path(&self.feed, self.segment);
        let open = |path: &Path| files::if_there(LineFile::open(path, self.at, self.id));
        if let Some(file) = open(&closed)? {
            return Ok(Some(file));
        }
        if self.segment != end.segment {
            return Ok(None);
        }
        match open(&self.feed)? {
            // It is the file that `end` refers to, wherever that is by now.
            Some(file) if file.id() == end.id => Ok(Some(file)),
            // That was closed since: a later end leads there.
            Some(_) | None => open(&closed),
        }
    }
}

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
