//! The names of a feed's files: `feed.jsonl`, where records are appended, and the closed segments before it.
//!
//! A closed segment is named after its first record, `feed-0000000000000501.jsonl`: sorted by name,
//! all files of a feed are in order. Nothing is appended to a closed segment.

use std::fs::{self, Metadata};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files;
use crate::model::Seq;

/// How many digits a name has. JSON numbers are exact up to this many.
const DIGITS: usize = 16;

/// What is before and behind them.
const PREFIX: &str = "feed-";
const SUFFIX: &str = ".jsonl";

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

/// The end of what is written completely.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedEnd {
    /// The file where records are appended, by the sequence number of its first record. While it is
    /// empty, this is a number behind those of the closed segments.
    pub segment: Seq,
    /// Its identity, whatever its name is by now.
    pub id: FileId,
    /// The offset of the byte behind the last complete write.
    pub at: u64,
    /// The sequence number of the last record.
    pub last_seq: Seq,
    /// How many times the file where records are appended was found to be removed or replaced.
    pub changes: u64,
}

impl FeedEnd {
    /// Returns up to which byte the file that begins with this record is read.
    pub(super) fn limit_in(&self, segment: Seq) -> u64 {
        match segment == self.segment {
            true => self.at,
            false => u64::MAX,
        }
    }
}

/// Returns the path of the closed segment of this feed that begins with the record `first`.
pub(super) fn segment_path(feed: &Path, first: Seq) -> PathBuf {
    feed.with_file_name(format!("{PREFIX}{first:0DIGITS$}{SUFFIX}"))
}

/// Returns the first records of the closed segments, in order. A missing folder has none.
pub(super) fn closed_firsts(feed: &Path) -> io::Result<Vec<Seq>> {
    let entries = files::if_there(fs::read_dir(feed.parent().unwrap_or(feed)))?;
    let mut firsts = Vec::new();
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        // A folder was not closed by a daemon. It must not make the segments unreadable.
        if entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name();
        firsts.extend(name.to_str().and_then(first_in));
    }
    firsts.sort_unstable();
    Ok(firsts)
}

/// Returns the first record of the closed segment of this name, if it is one.
fn first_in(name: &str) -> Option<Seq> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The length of the longest line that is read, in bytes. A message about the ends of a thousand tasks
/// has half as many. A longer line is damage, and not worth the memory.
pub(super) const LONGEST: usize = 32 << 20;

/// What is read instead of a line that is too long: no record.
const TOO_LONG: &[u8] = b"\0\n";

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

/// Removes the closed segments before the record `first`, the oldest first: what is left has no gap.
pub(crate) fn remove_before(feed: &Path, first: Seq) -> io::Result<()> {
    for removed in closed_firsts(feed)? {
        if removed < first {
            fs::remove_file(segment_path(feed, removed))?;
        }
    }
    files::sync_folder(feed.parent().unwrap_or(feed))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

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
