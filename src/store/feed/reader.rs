//! Reads the feed of a running daemon up to the end that it has published.

use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Part, first_record, open, search};
use super::floor::closed_firsts;
use super::read::FeedLine;
use super::segments::LineFile;
use super::segments::{FileId, segment_path};
use super::whole_lines::WholeLines;
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
