//! Reading records back, whole lines only.

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

/// A line of the feed, and where it ends in the file.
#[derive(Debug)]
pub struct Position {
    /// What the line says.
    pub line: Line,
    /// The byte behind it.
    pub end: u64,
}

/// What a line of the feed says.
#[derive(Debug)]
pub enum Line {
    /// A record.
    Record(Box<DurableRecord>),
    /// A record of a later version.
    Unknown(UnknownRecord),
    /// Nothing that could be read: it was a record once.
    Damaged,
}

/// A record of a kind or version that is not known here: readers pass over it, or pass it on.
#[derive(Debug)]
pub struct UnknownRecord {
    /// What every record has.
    pub frame: Frame,
    /// All of it.
    pub fields: serde_json::Value,
}

impl UnknownRecord {
    /// Reads a line that is no record of this version; `None` when it is none of a later one
    /// either. What has a kind and a version of ours and cannot be read is damaged.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let fields: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        let kind = Kind::deserialize(fields.get("kind")?);
        let is_later = fields.get("v")?.as_u64()? > u64::from(VERSION);
        let frame = Frame::deserialize(&fields).ok()?;
        (kind.is_err() || is_later).then_some(Self { frame, fields })
    }
}

impl Line {
    /// Reads a line without its line end, or with it.
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

    /// Returns what every record has, if the line can be read.
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

/// The numbers as they are read, which should have no gaps.
#[derive(Debug, Clone, Copy)]
pub struct Sequence {
    last: Seq,
}

impl Sequence {
    /// Returns the sequence of the numbers behind this one.
    #[must_use]
    pub fn after(last: Seq) -> Self {
        Self { last }
    }

    /// Whether this number was read, or passed over.
    #[must_use]
    pub fn has(&self, seq: Seq) -> bool {
        seq <= self.last
    }

    /// Takes the next number; returns the first and the last of those that should have come
    /// before it.
    pub fn read(&mut self, seq: Seq) -> Option<(Seq, Seq)> {
        let gap = self.end_at(seq.saturating_sub(1));
        self.last = self.last.max(seq);
        gap
    }

    /// Takes it that the numbers end with this one; returns the first and the last of those that
    /// should have come.
    pub fn end_at(&mut self, last: Seq) -> Option<(Seq, Seq)> {
        let gap = (self.last < last).then_some((self.last + 1, last));
        self.last = self.last.max(last);
        gap
    }
}

/// Reads a feed from its beginning or from where it left off.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// `None` until the file is there.
    file: Option<BufReader<File>>,
    /// The byte behind the last line that was read.
    at: u64,
}

impl Reader {
    /// Returns a reader that begins at this byte, the end of a line.
    #[must_use]
    pub fn new(path: &Path, at: u64) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            at,
        }
    }

    /// Returns a reader that begins near the record `after`, before it: at the front where it cannot
    /// be found.
    #[must_use]
    pub fn before(path: &Path, after: Seq) -> Self {
        let place = find(path, after).unwrap_or_else(|error| {
            tracing::warn!(%error, "could not search the feed");
            Place::default()
        });
        Self::new(path, place.at)
    }

    /// Begins again at the front of the file that is there now.
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

    /// Returns the next whole line that ends at or before the byte `limit`, whatever it says.
    /// Blank ones say nothing.
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
            // Half a line: somebody is writing it. Read it again later.
            self.file = None;
            return Ok(None);
        }
        self.at += line.len() as u64;
        Ok(Some(line))
    }
}

/// Where the whole writes of a feed end.
#[derive(Debug, Default, Clone, Copy)]
pub struct End {
    /// The number of the last record, whether it can be read or not.
    pub last_seq: Seq,
    /// The byte behind it.
    pub at: u64,
}

/// Reads the lines of all writes that are whole, which are those that a crash did not tear. It holds
/// one write at a time.
#[derive(Debug)]
pub struct WholeLines {
    reader: Reader,
    /// Lines of a whole write that are still to be returned.
    whole: VecDeque<Line>,
    /// Lines of the write that is being read.
    write: Vec<Line>,
    /// How many lines of that write are still to come.
    to_come: u32,
    /// The number of the last line that could be read.
    read: Seq,
    /// How many lines behind it could not.
    damaged: u64,
    end: End,
    /// That of the record behind which reading began.
    epoch: Option<String>,
}

impl WholeLines {
    /// Returns the lines from the front of the file.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self::behind(path, Place::default())
    }

    /// Returns the lines from about the record `after` on: all records behind it, and some before
    /// it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. A file that is not there has no lines.
    pub fn after(path: &Path, after: Seq) -> Result<Self, FeedError> {
        Ok(Self::behind(path, find(path, after)?))
    }

    /// Returns the lines behind a place where a record ends.
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

    /// Returns the next line; `None` when there is none that is whole.
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
            // With no record before it, a line that cannot be read may be anything.
            if self.to_come == 0 && self.read > 0 {
                self.whole.extend(self.write.drain(..));
                // A line that was a record once has had its number.
                let last_seq = self.read + self.damaged;
                self.end = End { last_seq, at };
            }
        }
        Ok(self.whole.pop_front())
    }

    /// Returns the epoch of the record behind which reading began; `None` at the front.
    #[must_use]
    pub fn epoch(&self) -> Option<&str> {
        self.epoch.as_deref()
    }

    /// Returns where the last whole write ends that was read so far.
    #[must_use]
    pub fn end(&self) -> End {
        self.end
    }
}

/// Passes on all lines of writes that are whole.
pub(super) fn each_whole(path: &Path, mut each: impl FnMut(Line)) -> Result<End, FeedError> {
    let mut lines = WholeLines::new(path);
    while let Some(line) = lines.next_line()? {
        each(line);
    }
    Ok(lines.end())
}
