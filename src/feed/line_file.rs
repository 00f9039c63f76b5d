//! Reads complete lines of one file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use super::segments::FileId;
use crate::files;

/// A file that is read line by line. It keeps being read when it is renamed or removed.
#[derive(Debug)]
pub(super) struct LineFile {
    file: BufReader<File>,
    id: FileId,
    /// The offset behind the last line that was read.
    at: u64,
}

impl LineFile {
    /// Opens a file of ours and starts at the byte `at`, the end of a line. Starts at the beginning
    /// if `expected` is another file.
    pub(super) fn open(path: &Path, at: u64, expected: Option<FileId>) -> io::Result<Self> {
        let mut file = files::open(path)?;
        let id = FileId::of(&file.metadata()?);
        let at = match expected {
            Some(expected) if expected != id => 0,
            Some(_) | None => at,
        };
        file.seek(SeekFrom::Start(at))?;
        let file = BufReader::new(file);
        Ok(Self { file, id, at })
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Returns the offset behind the last line that was read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the next complete line that ends at or before the byte `limit`; `None` when there is
    /// none yet. Blank lines are skipped.
    pub(super) fn next_line(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        while self.at < limit {
            let mut line = Vec::new();
            self.file.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') || self.at + line.len() as u64 > limit {
                // An incomplete line, which is being written. Read it again later.
                self.file.seek(SeekFrom::Start(self.at))?;
                return Ok(None);
            }
            self.at += line.len() as u64;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}
