//! Reading records back, whole lines only.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::FeedError;
use crate::files;
use crate::model::Seq;
use crate::wire::DurableRecord;

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
    /// A record of a later version: all that is known is what every record has.
    Unknown(Frame),
    /// Nothing that could be read: it was a record once.
    Damaged,
}

impl Line {
    fn parse(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            Ok(record) => Self::Record(record),
            Err(error) => match serde_json::from_slice(bytes) {
                Ok(frame) => Self::Unknown(frame),
                Err(_) => {
                    tracing::warn!(%error, "a line of the feed is damaged");
                    Self::Damaged
                }
            },
        }
    }

    /// Returns what every record has, if the line can be read.
    pub(super) fn frame(&self) -> Option<Frame> {
        match self {
            Self::Record(record) => Some(Frame {
                seq: record.seq,
                epoch: record.epoch.clone(),
                more: record.more,
            }),
            Self::Unknown(frame) => Some(frame.clone()),
            Self::Damaged => None,
        }
    }
}

/// What every durable record has, whatever it says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Frame {
    /// Its number.
    pub seq: Seq,
    /// Its feed.
    pub epoch: String,
    /// How many records of the same write follow.
    #[serde(default)]
    pub more: u32,
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
    pub(super) fn next_bytes(&mut self, limit: u64) -> Result<Option<Vec<u8>>, FeedError> {
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

/// Everything that a feed has.
#[derive(Debug, Default)]
pub struct Kept {
    /// The records that can be read.
    pub records: Vec<DurableRecord>,
    /// The first and the last number of each stretch of records that are missing.
    pub lost: Vec<(Seq, Seq)>,
    /// The number of the last record, whether it can be read or not.
    pub last_seq: Seq,
}

/// Returns all that a feed has, without the torn tail of an unfinished write.
///
/// # Errors
///
/// When the file cannot be read. A file that is not there has no records.
pub fn read_all(path: &Path) -> Result<Kept, FeedError> {
    let mut sequence = Sequence::after(0);
    let mut kept = Kept::default();
    let end = each_whole(path, |line| match line {
        Line::Record(record) => {
            kept.lost.extend(sequence.read(record.seq));
            kept.records.push(*record);
        }
        Line::Unknown(frame) => kept.lost.extend(sequence.read(frame.seq)),
        Line::Damaged => {}
    })?;
    kept.last_seq = end.last_seq;
    kept.lost.extend(sequence.end_at(end.last_seq));
    Ok(kept)
}

/// Where the whole writes of a feed end.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The number of the last record, whether it can be read or not.
    pub(super) last_seq: Seq,
    /// The byte behind it.
    pub(super) at: u64,
}

/// Passes on the lines of all writes that are whole, which are those that a crash did not tear.
pub(super) fn each_whole(path: &Path, mut each: impl FnMut(Line)) -> Result<End, FeedError> {
    let mut reader = Reader::new(path, 0);
    let mut end = End::default();
    let mut write = Vec::new();
    // Lines of the write under way that are still to come.
    let mut to_come = 0;
    // The number of the last line that can be read, and how many behind it cannot.
    let (mut read, mut damaged) = (0, 0);
    while let Some(Position { line, end: at }) = reader.next(u64::MAX)? {
        match line.frame() {
            Some(frame) => (read, damaged, to_come) = (frame.seq, 0, frame.more),
            None => {
                damaged += 1;
                to_come = to_come.saturating_sub(1);
            }
        }
        write.push(line);
        // With no record before it, a line that cannot be read may be anything.
        if to_come == 0 && read > 0 {
            write.drain(..).for_each(&mut each);
            // A line that was a record once has had its number.
            end = End {
                last_seq: read + damaged,
                at,
            };
        }
    }
    Ok(end)
}
