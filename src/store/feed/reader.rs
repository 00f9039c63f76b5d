//! Reads a feed: of a running daemon up to the end that it has published, or all files of one that no
//! other process writes.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Place, find, present_end};
use super::read::FeedLine;
use super::segments::{FeedEnd, FileId, LineFile, closed_firsts, segment_path};
use crate::files;
use crate::model::Seq;

/// Returns the end of a feed that no daemon writes, and its epoch if it has a record. A missing one is empty.
///
/// # Errors
///
/// When the feed cannot be read.
pub(crate) fn end_of_files(feed: &Path) -> Result<(Option<String>, FeedEnd), FeedError> {
    let lines = WholeLines::after(feed, Seq::MAX)?;
    let files = lines.files;
    let last = lines.read_to_end()?;
    let segment = match last.at {
        0 => last.last_seq + 1,
        _ => files.segment,
    };
    let end = FeedEnd {
        segment,
        at: last.at,
        last_seq: last.last_seq,
        ..files
    };
    Ok((last.epoch, end))
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

    /// Returns a reader that starts shortly before the record `after`. `end` is the feed's present end.
    ///
    /// # Errors
    ///
    /// When the feed cannot be searched.
    pub(crate) fn before(feed: &Path, after: Seq, end: &FeedEnd) -> Result<Self, FeedError> {
        let place = find(feed, after, end).map_err(FeedError::reading(feed))?;
        Ok(Self::at(feed, &place))
    }

    /// Returns a reader that starts at this position.
    fn at(feed: &Path, place: &Place) -> Self {
        Self {
            feed: feed.to_owned(),
            segment: place.segment,
            id: place.id,
            at: place.at,
            file: None,
        }
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
            if self.file.is_none() {
                self.file = self.open(end)?;
            }
            if let Some(file) = &mut self.file
                && let Some(line) = file.next_line(end.limit_in(self.segment))?
            {
                return Ok(Some(line));
            }
            if self.segment == end.segment {
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

    /// Returns the offset behind the last line that was read in the file with this end; 0 in an earlier
    /// one.
    fn at_in(&self, end: &FeedEnd) -> u64 {
        if self.segment == end.segment {
            self.file.as_ref().map_or(self.at, LineFile::at)
        } else {
            0
        }
    }
}

/// The end of the complete writes of a feed.
#[derive(Debug, Default)]
pub struct End {
    /// The epoch of the last record that can be read; `None` when there is none.
    pub epoch: Option<String>,
    /// The sequence number of the last record, whether it can be read or not.
    pub last_seq: Seq,
    /// The offset of the byte behind it in the file where records are appended; 0 when it is in a
    /// closed segment.
    pub at: u64,
}

/// Reads the lines of all complete writes, which are those that a crash did not interrupt, of a feed that
/// nobody writes meanwhile. It holds one write at a time.
#[derive(Debug)]
pub struct WholeLines {
    reader: Reader,
    /// The end of the files.
    files: FeedEnd,
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
        Self::from_place(feed, |files| find(feed, after, files))
    }

    /// Returns the lines of the file where records are appended.
    pub(super) fn of_active(feed: &Path) -> Result<Self, FeedError> {
        Self::from_place(feed, |files| Ok(Place::start_of(files.segment)))
    }

    /// Returns the lines behind a position in the files with this end, where a record ends.
    pub(super) fn from_place(
        feed: &Path,
        place: impl FnOnce(&FeedEnd) -> io::Result<Place>,
    ) -> Result<Self, FeedError> {
        let found = present_end(feed).and_then(|files| Ok((place(&files)?, files)));
        let (place, files) = found.map_err(FeedError::reading(feed))?;
        let reader = Reader::at(feed, &place);
        let last = place.frame.map(|frame| (frame.epoch, frame.seq));
        let (epoch, last_seq) = last.unzip();
        let last_seq = last_seq.unwrap_or_default();
        Ok(Self {
            whole: VecDeque::new(),
            write: Vec::new(),
            to_come: 0,
            read: last_seq,
            damaged: 0,
            end: End {
                epoch,
                last_seq,
                at: reader.at_in(&files),
            },
            reader,
            files,
        })
    }

    /// Returns the next line; `None` when there is no complete one.
    ///
    /// # Errors
    ///
    /// When the feed cannot be read.
    pub fn next_line(&mut self) -> Result<Option<FeedLine>, FeedError> {
        while self.whole.is_empty() {
            let segment = self.reader.segment;
            let line = self.reader.next(&self.files)?;
            if self.reader.segment != segment {
                // A write is in one file: what is missing of it is damaged.
                self.end_write(0);
            }
            match line {
                Some(line) => self.add(line),
                None if self.whole.is_empty() => return Ok(None),
                None => {}
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
            self.end_write(self.reader.at_in(&self.files));
        }
    }

    /// Passes on what was read of a write, which ends at this byte of the file where records are
    /// appended.
    fn end_write(&mut self, at: u64) {
        let last = self.write.iter().rev().find_map(FeedLine::frame);
        if let Some(frame) = last {
            self.end.epoch = Some(frame.epoch);
        }
        self.whole.extend(self.write.drain(..));
        self.to_come = 0;
        // A line that was a record once has used its number.
        (self.end.last_seq, self.end.at) = (self.read + self.damaged, at);
    }

    /// Reads what is left. Returns the end of the last complete write.
    ///
    /// # Errors
    ///
    /// When the feed cannot be read.
    pub(super) fn read_to_end(mut self) -> Result<End, FeedError> {
        while self.next_line()?.is_some() {}
        Ok(self.end)
    }

    /// Returns the end of the last complete write that was read.
    pub fn end(&self) -> &End {
        &self.end
    }
}
