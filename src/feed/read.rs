//! Reading records back, whole lines only.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::FeedError;
use crate::model::Seq;
use crate::wire::DurableRecord;

/// A record, and where its line ends in the file.
#[derive(Debug)]
pub struct Position {
    /// The record.
    pub record: DurableRecord,
    /// The byte behind its line.
    pub end: u64,
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

    /// Returns the next record that ends at or before the byte `limit`; `None` when there is none
    /// yet. Lines that are no record are passed over.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn next(&mut self, limit: u64) -> Result<Option<Position>, FeedError> {
        while let Some(line) = self.next_bytes(limit)? {
            match serde_json::from_slice(&line) {
                Ok(record) => {
                    return Ok(Some(Position {
                        record,
                        end: self.at,
                    }));
                }
                Err(error) => {
                    tracing::warn!(%error, end = self.at, "passed over a line of the feed");
                }
            }
        }
        Ok(None)
    }

    /// Returns the next whole line that ends at or before the byte `limit`, whatever it says.
    pub(super) fn next_bytes(&mut self, limit: u64) -> Result<Option<Vec<u8>>, FeedError> {
        match self.next_line(limit) {
            Ok(line) => Ok(line),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FeedError::Io {
                what: "read",
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// Returns the byte behind the last line that was read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn next_line(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if self.at >= limit {
            return Ok(None);
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = File::open(&self.path)?;
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

/// Returns all records after the number `after`, without the torn tail of an unfinished write.
///
/// # Errors
///
/// When the file cannot be read. A file that is not there has no records.
pub fn read_all(path: &Path, after: Seq) -> Result<Vec<DurableRecord>, FeedError> {
    let mut reader = Reader::new(path, 0);
    let mut records = Vec::new();
    while let Some(position) = reader.next(u64::MAX)? {
        if position.record.seq > after {
            records.push(position.record);
        }
    }
    let whole = records
        .iter()
        .rposition(|record| record.more == 0)
        .map_or(0, |last| last + 1);
    records.truncate(whole);
    Ok(records)
}
