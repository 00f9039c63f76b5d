//! The names of a feed's files: `feed.jsonl`, where records are appended, and the closed segments
//! before it.
//!
//! A closed segment is named after its first record, `feed-0000000000000501.jsonl`: sorted by name,
//! all files of a feed are in order. Nothing is appended to a closed segment.

use std::fs::{self, Metadata};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
        if segment == self.segment {
            self.at
        } else {
            u64::MAX
        }
    }
}

/// Returns the path of the closed segment that begins with the record `first`, of the feed at
/// `feed`.
pub(super) fn segment_path(feed: &Path, first: Seq) -> PathBuf {
    feed.with_file_name(format!("{PREFIX}{first:0DIGITS$}{SUFFIX}"))
}

/// Returns the first records of all closed segments, in order, including those that are about to be
/// removed.
fn all_firsts(feed: &Path) -> io::Result<Vec<Seq>> {
    let entries = files::if_there(fs::read_dir(feed.parent().unwrap_or(feed)))?;
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
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
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

// The first record that a feed keeps, durable before anything is removed.
//
// A crash may interrupt the removal of segments at any point. What lies before the first kept record
// is gone for readers all the same, so that a record that was reported as gone does not come back.

/// The name of the file.
const NAME: &str = "retention.json";

/// The version of the file.
const VERSION: u32 = 1;

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Floor {
    v: u32,
    /// The epoch of the feed that `first_seq` refers to.
    epoch: String,
    /// The sequence number of the first record that is kept.
    first_seq: Seq,
}

fn path(feed: &Path) -> PathBuf {
    feed.with_file_name(NAME)
}

/// Returns the first record that the feed keeps: 1 if nothing was removed.
pub(crate) fn first_kept(feed: &Path) -> Seq {
    load(feed).map_or(1, |floor| floor.first_seq)
}

/// Returns the first records of the closed segments that are kept, in order.
pub(super) fn closed_firsts(feed: &Path) -> io::Result<Vec<Seq>> {
    let mut firsts = all_firsts(feed)?;
    if !firsts.is_empty() {
        let kept = first_kept(feed);
        firsts.retain(|first| *first >= kept);
    }
    Ok(firsts)
}

fn load(feed: &Path) -> Option<Floor> {
    files::load_json(&path(feed), VERSION).unwrap_or_else(|why| {
        tracing::warn!(why, "{NAME} cannot be used: ignored");
        None
    })
}

/// Removes the closed segments before the one that begins with the record `first`. After a crash at any
/// point either all of them belong to the feed or none. What is not removed is removed by the next call.
pub(crate) fn remove_before(feed: &Path, epoch: &str, first: Seq) -> io::Result<()> {
    let floor = Floor {
        v: VERSION,
        epoch: epoch.to_owned(),
        first_seq: first,
    };
    let bytes = files::json_line(&floor)?;
    let path = path(feed);
    files::replace_synced(&path, &path.with_extension("json.new"), &bytes)?;
    files::sync_folder(feed.parent().unwrap_or(feed))?;
    remove_files(feed, first)
}

/// Finishes a removal that was interrupted. What was removed from another feed, one with another
/// epoch than this, is forgotten.
pub(crate) fn finish_removal(feed: &Path, epoch: &str) -> io::Result<()> {
    match load(feed) {
        Some(floor) if floor.epoch == epoch => remove_files(feed, floor.first_seq),
        Some(_) => fs::remove_file(path(feed)),
        None => Ok(()),
    }
}

/// Removes the oldest first, so that what is left has no gap.
fn remove_files(feed: &Path, first: Seq) -> io::Result<()> {
    for removed in all_firsts(feed)? {
        if removed < first {
            fs::remove_file(segment_path(feed, removed))?;
        }
    }
    Ok(())
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
