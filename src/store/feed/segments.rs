//! The names of a feed's files: `feed.jsonl`, where records are appended, and the closed segments
//! before it.
//!
//! A closed segment is named after its first record, `feed-0000000000000501.jsonl`: sorted by name,
//! all files of a feed are in order. Nothing is appended to a closed segment.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files;
use crate::model::Seq;

/// How many digits a name has. JSON numbers are exact up to this many.
const DIGITS: usize = 16;

/// Identifies a file whatever its name is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

/// Returns the path of the closed segment that begins with the record `first`, of the feed at
/// `feed`.
pub(super) fn segment_path(feed: &Path, first: Seq) -> PathBuf {
    feed.with_file_name(format!("{}{first:0DIGITS$}{}", prefix(feed), suffix(feed)))
}

/// Returns the first records of all closed segments, in order, including those that are about to be
/// removed.
pub(super) fn all_firsts(feed: &Path) -> io::Result<Vec<Seq>> {
    let entries = files::if_there(fs::read_dir(feed.parent().unwrap_or(feed)))?;
    let (prefix, suffix) = (prefix(feed), suffix(feed));
    let mut firsts = Vec::new();
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        // A folder was not closed by a daemon. It must not make the segments unreadable.
        if entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(&suffix));
        let is_number =
            |text: &&str| text.len() == DIGITS && text.bytes().all(|digit| digit.is_ascii_digit());
        firsts.extend(
            number
                .filter(is_number)
                .and_then(|text| text.parse::<Seq>().ok()),
        );
    }
    firsts.sort_unstable();
    Ok(firsts)
}

fn prefix(feed: &Path) -> String {
    format!(
        "{}-",
        feed.file_stem().unwrap_or_default().to_string_lossy()
    )
}

fn suffix(feed: &Path) -> String {
    let extension = feed.extension().unwrap_or_default();
    format!(".{}", extension.to_string_lossy())
}

/// The length of the longest line that is read, in bytes. A message about the ends of a thousand tasks
/// has half as many. A longer line is damage, and not worth the memory.
pub(super) const LONGEST: usize = 32 << 20;

/// What is read instead of a line that is too long: no record.
pub(super) const TOO_LONG: &[u8] = b"\0\n";

/// Reads a line with its end into `line`, which is empty. Returns its length, also if it is too long.
/// Without a line end it is the incomplete end of the file.
pub(super) fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let most = LONGEST as u64;
    let mut length = file.take(most).read_until(b'\n', line)? as u64;
    if length < most || line.last() == Some(&b'\n') {
        return Ok(length);
    }
    // It is read to its end in pieces.
    loop {
        line.clear();
        let more = file.take(most).read_until(b'\n', line)? as u64;
        length += more;
        if line.last() == Some(&b'\n') {
            line.clear();
            line.shrink_to_fit();
            line.extend_from_slice(TOO_LONG);
            return Ok(length);
        }
        if more < most {
            return Ok(length);
        }
    }
}

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
            let length = read_line(&mut self.file, &mut line)?;
            if line.last() != Some(&b'\n') || self.at + length > limit {
                // An incomplete line, which is being written. Read it again later.
                self.file.seek(SeekFrom::Start(self.at))?;
                return Ok(None);
            }
            self.at += length;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_none_and_costs_no_memory() {
        let long = LONGEST as u64;
        for n_more in [0, 1, long + 5] {
            let zeros = || io::repeat(b'0').take(long + n_more);
            let rest = &b"\nshort\n"[..];
            let mut file = BufReader::new(zeros().chain(rest));
            let mut line = Vec::new();
            assert_eq!(read_line(&mut file, &mut line).unwrap(), long + n_more + 1);
            assert_eq!(line, TOO_LONG);
            line.clear();
            assert_eq!(read_line(&mut file, &mut line).unwrap(), 6);
            assert_eq!(line, b"short\n");
            // It is being written.
            line.clear();
            let mut file = BufReader::new(zeros());
            assert_eq!(read_line(&mut file, &mut line).unwrap(), long + n_more);
            assert_ne!(line.last(), Some(&b'\n'));
            assert!(line.capacity() <= 2 * LONGEST);
        }
    }
}
