//! Reads records, complete lines only.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::FeedError;
use super::find::{Place, find};
use super::frame::Frame;
use crate::files;
use crate::model::Seq;
use crate::wire::{DurableRecord, Kind, VERSION};

/// A line of the feed, and its end in the file.
#[derive(Debug)]
pub struct Position {
    /// The parsed line.
    pub line: Line,
    /// The offset of the byte behind it.
    pub end: u64,
}

/// A parsed line of the feed.
#[derive(Debug)]
pub enum Line {
    /// A record.
    Record(Box<DurableRecord>),
    /// A record of a later version.
    Unknown(UnknownRecord),
    /// An unreadable line that was a record once.
    Damaged,
}

/// A record of a kind or version that is not known here. Readers skip it or pass it on.
#[derive(Debug)]
pub struct UnknownRecord {
    /// The common fields.
    pub frame: Frame,
    /// All fields.
    pub fields: serde_json::Value,
}

impl UnknownRecord {
    /// Parses a line that is not a record of this version; `None` when it is not one of a later
    /// version either. A line with a known kind and version that cannot be parsed is damaged.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let fields: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        let kind = Kind::deserialize(fields.get("kind")?);
        let is_later = fields.get("v")?.as_u64()? > u64::from(VERSION);
        let frame = Frame::deserialize(&fields).ok()?;
        (kind.is_err() || is_later).then_some(Self { frame, fields })
    }
}

impl Line {
    /// Parses a line, with or without its line end.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        match serde_json::from_slice::<Box<DurableRecord>>(bytes) {
            Ok(record) if record.names_its_task() => Self::Record(record),
            Ok(record) => {
                tracing::warn!(
                    seq = record.seq,
                    "a line of the feed is damaged: no windowId"
                );
                Self::Damaged
            }
            Err(error) => match UnknownRecord::parse(bytes) {
                Some(record) => Self::Unknown(record),
                None => {
                    tracing::warn!(%error, "a line of the feed is damaged");
                    Self::Damaged
                }
            },
        }
    }

    /// Returns the common fields, if the line can be read.
    #[must_use]
    pub fn frame(&self) -> Option<Frame> {
        match self {
            Self::Record(record) => Some(Frame {
                seq: record.seq,
                epoch: record.epoch.clone(),
                more: record.more,
            }),
            Self::Unknown(record) => Some(record.frame.clone()),
            Self::Damaged => None,
        }
    }
}

/// The sequence numbers that were read, which should have no gaps.
#[derive(Debug, Clone, Copy)]
pub struct Sequence {
    last: Seq,
}

impl Sequence {
    /// Returns the sequence that continues after this number.
    #[must_use]
    pub fn after(last: Seq) -> Self {
        Self { last }
    }

    /// Whether this number was read or skipped.
    #[must_use]
    pub fn has(&self, seq: Seq) -> bool {
        seq <= self.last
    }

    /// Notes the next number. Returns the first and the last missing one before it.
    pub fn read(&mut self, seq: Seq) -> Option<(Seq, Seq)> {
        let gap = self.end_at(seq.saturating_sub(1));
        self.last = self.last.max(seq);
        gap
    }

    /// Notes that the numbers end with this one. Returns the first and the last missing one.
    pub fn end_at(&mut self, last: Seq) -> Option<(Seq, Seq)> {
        let gap = (self.last < last).then_some((self.last + 1, last));
        self.last = self.last.max(last);
        gap
    }
}

/// Reads a feed from its start or from a position.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// `None` until the file exists.
    file: Option<BufReader<File>>,
    /// The offset behind the last line that was read.
    at: u64,
}

impl Reader {
    /// Returns a reader that starts at this byte, the end of a line.
    #[must_use]
    pub fn new(path: &Path, at: u64) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            at,
        }
    }

    /// Returns a reader that starts shortly before the record `after`; at the start of the file
    /// where that cannot be found.
    #[must_use]
    pub fn before(path: &Path, after: Seq) -> Self {
        let place = find(path, after).unwrap_or_else(|error| {
            tracing::warn!(%error, "could not search the feed");
            Place::default()
        });
        Self::new(path, place.at)
    }

    /// Starts over at the start of the present file.
    pub fn restart(&mut self) {
        self.file = None;
        self.at = 0;
    }

    /// Returns the next line that ends at or before the byte `limit`; `None` when there is none
    /// yet.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn next(&mut self, limit: u64) -> Result<Option<Position>, FeedError> {
        let bytes = self.next_bytes(limit)?;
        Ok(bytes.map(|bytes| Position {
            line: Line::parse(&bytes),
            end: self.at,
        }))
    }

    /// Returns the next complete line that ends at or before the byte `limit`, unparsed. Blank
    /// lines are skipped.
    fn next_bytes(&mut self, limit: u64) -> Result<Option<Vec<u8>>, FeedError> {
        loop {
            match self.next_line(limit) {
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                Ok(line) => return Ok(line),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(source) => {
                    return Err(FeedError::Io {
                        what: "read",
                        path: self.path.clone(),
                        source,
                    });
                }
            }
        }
    }

    fn next_line(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if self.at >= limit {
            return Ok(None);
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = files::open(&self.path)?;
                file.seek(SeekFrom::Start(self.at))?;
                self.file.insert(BufReader::new(file))
            }
        };
        let mut line = Vec::new();
        file.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') || self.at + line.len() as u64 > limit {
            // An incomplete line, which is being written. Read it again later.
            self.file = None;
            return Ok(None);
        }
        self.at += line.len() as u64;
        Ok(Some(line))
    }
}

/// The end of the complete writes of a feed.
#[derive(Debug, Default, Clone, Copy)]
pub struct End {
    /// The sequence number of the last record, whether it can be read or not.
    pub last_seq: Seq,
    /// The offset of the byte behind it.
    pub at: u64,
}

/// Reads the lines of all complete writes, which are those that a crash did not interrupt. It holds
/// one write at a time.
#[derive(Debug)]
pub struct WholeLines {
    reader: Reader,
    /// Lines of a complete write that are not returned yet.
    whole: VecDeque<Line>,
    /// Lines of the write that is being read.
    write: Vec<Line>,
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
    /// Returns the lines from the start of the file.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self::behind(path, Place::default())
    }

    /// Returns the lines from about the record `after` on: all records behind it, and some before
    /// it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. A missing file has no lines.
    pub fn after(path: &Path, after: Seq) -> Result<Self, FeedError> {
        Ok(Self::behind(path, find(path, after)?))
    }

    /// Returns the lines behind a position where a record ends.
    pub(super) fn behind(path: &Path, place: Place) -> Self {
        let Place { at, frame } = place;
        Self {
            reader: Reader::new(path, at),
            whole: VecDeque::new(),
            write: Vec::new(),
            to_come: 0,
            read: frame.as_ref().map_or(0, |frame| frame.seq),
            damaged: 0,
            end: End {
                last_seq: frame.as_ref().map_or(0, |frame| frame.seq),
                at,
            },
            epoch: frame.map(|frame| frame.epoch),
        }
    }

    /// Returns the next line; `None` when there is no complete one.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn next_line(&mut self) -> Result<Option<Line>, FeedError> {
        while self.whole.is_empty() {
            let Some(Position { line, end: at }) = self.reader.next(u64::MAX)? else {
                return Ok(None);
            };
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
                self.whole.extend(self.write.drain(..));
                // A line that was a record once has used its number.
                let last_seq = self.read + self.damaged;
                self.end = End { last_seq, at };
            }
        }
        Ok(self.whole.pop_front())
    }

    /// Returns the epoch of the record behind which reading began; `None` at the start.
    #[must_use]
    pub fn epoch(&self) -> Option<&str> {
        self.epoch.as_deref()
    }

    /// Returns the end of the last complete write that was read.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }
}

/// Passes on all lines of complete writes.
pub(super) fn each_whole(path: &Path, mut each: impl FnMut(Line)) -> Result<End, FeedError> {
    let mut lines = WholeLines::new(path);
    while let Some(line) = lines.next_line()? {
        each(line);
    }
    Ok(lines.end())
}
