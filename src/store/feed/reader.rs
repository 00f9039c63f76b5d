//! Reads a feed: of a running daemon up to the end that it has published, or all files of one that no
//! other process writes.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Place, find, open_segment, present_end};
use super::read::FeedLine;
use super::segments::{FeedEnd, FileId, closed_firsts, read_line};
use crate::model::Seq;

/// Reads a feed from some position on, through its closed segments. An open file keeps being read when it
/// is renamed or removed.
#[derive(Debug)]
pub struct Reader {
    feed: PathBuf,
    /// The file that is being read, by the sequence number of its first record.
    segment: Seq,
    /// The file that `at` refers to, if it is known.
    id: Option<FileId>,
    /// The offset behind the last line that was read.
    at: u64,
    file: Option<BufReader<File>>,
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
    pub fn before(feed: &Path, after: Seq, end: &FeedEnd) -> Result<Self, FeedError> {
        let place = find(feed, after, end).map_err(FeedError::reading(feed))?;
        Ok(Self::at(feed, &place))
    }

    /// Returns a reader that starts at this position.
    pub(super) fn at(feed: &Path, place: &Place) -> Self {
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
    pub fn next(&mut self, end: &FeedEnd) -> Result<Option<FeedLine>, FeedError> {
        let bytes = self.next_bytes(end);
        let bytes = bytes.map_err(FeedError::reading(&self.feed))?;
        Ok(bytes.map(|bytes| FeedLine::parse(&bytes)))
    }

    fn next_bytes(&mut self, end: &FeedEnd) -> io::Result<Option<Vec<u8>>> {
        // An end may be older than one that was read up to.
        while self.segment <= end.segment {
            if self.file.is_none() {
                self.open(end)?;
            }
            if let Some(line) = self.next_line(end.limit_in(self.segment))? {
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

    /// Opens the present segment, unless it is gone. If it is another file than `at` refers to, that is read
    /// from its start.
    fn open(&mut self, end: &FeedEnd) -> io::Result<()> {
        let Some(mut file) = open_segment(&self.feed, self.segment, end)? else {
            return Ok(());
        };
        let id = FileId::of(&file.metadata()?);
        if self.id.is_some_and(|expected| expected != id) {
            self.at = 0;
        }
        self.id = Some(id);
        file.seek(SeekFrom::Start(self.at))?;
        self.file = Some(BufReader::new(file));
        Ok(())
    }

    /// Returns the next complete line of the open file that ends at or before the byte `limit`; `None`
    /// when there is none yet. Blank lines are skipped.
    fn next_line(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        while self.at < limit {
            let mut line = Vec::new();
            let length = read_line(file, &mut line)?;
            if line.last() != Some(&b'\n') || self.at + length > limit {
                // An incomplete line, which is being written. Read it again later.
                file.seek(SeekFrom::Start(self.at))?;
                return Ok(None);
            }
            self.at += length;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Returns the offset behind the last line that was read in the file with this end; 0 in an earlier
    /// one.
    fn at_in(&self, end: &FeedEnd) -> u64 {
        if self.segment == end.segment {
            self.at
        } else {
            0
        }
    }
}

/// Returns the end of the complete writes of a feed that nobody writes, and its epoch if it has a record.
/// Behind it may be a partial write left by a crash. A missing feed is empty.
///
/// # Errors
///
/// When the feed cannot be read.
pub fn end_of_files(feed: &Path) -> Result<(Option<String>, FeedEnd), FeedError> {
    end_from(feed, |files| find(feed, Seq::MAX, files))
}

/// Returns the same of the file where records are appended alone.
pub(super) fn end_of_active(feed: &Path) -> Result<(Option<String>, FeedEnd), FeedError> {
    end_from(feed, |files| Ok(Place::start_of(files.segment)))
}

/// Reads the end from a position on where a write ends.
fn end_from(
    feed: &Path,
    place: impl FnOnce(&FeedEnd) -> io::Result<Place>,
) -> Result<(Option<String>, FeedEnd), FeedError> {
    let found = present_end(feed).and_then(|files| Ok((place(&files)?, files)));
    let (place, files) = found.map_err(FeedError::reading(feed))?;
    let mut reader = Reader::at(feed, &place);
    let (mut epoch, last_seq) = place.frame.map(|frame| (frame.epoch, frame.seq)).unzip();
    let mut end = FeedEnd {
        at: reader.at_in(&files),
        last_seq: last_seq.unwrap_or_default(),
        ..files
    };
    // The last readable line, how many unreadable ones follow it, and how many lines its write lacks.
    let (mut read, mut n_damaged, mut n_to_come) = (end.last_seq, 0, 0);
    let mut epoch_of_write = None;
    while let Some(line) = reader.next(&files)? {
        match line.frame() {
            Some(frame) => {
                (read, n_damaged, n_to_come) = (frame.seq, 0, frame.more);
                epoch_of_write = Some(frame.epoch);
            }
            None => (n_damaged, n_to_come) = (n_damaged + 1, n_to_come.saturating_sub(1)),
        }
        if reader.segment != files.segment {
            // A write is in one file: what a closed one lacks of it is damaged.
            n_to_come = 0;
        }
        // With no record before it, an unreadable line may be anything.
        if n_to_come == 0 && read > 0 {
            epoch = epoch_of_write.take().or(epoch);
            // A line that was a record once has used its number.
            (end.last_seq, end.at) = (read + n_damaged, reader.at_in(&files));
        }
    }
    if end.at == 0 {
        end.segment = end.last_seq + 1;
    }
    Ok((epoch, end))
}
