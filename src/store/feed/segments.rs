//! The names of a feed's files: `feed.jsonl`, where records are appended, and the closed segments
//! before it.
//!
//! A closed segment is named after its first record, `feed-0000000000000501.jsonl`: sorted by name,
//! all files of a feed are in order. Nothing is appended to a closed segment.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::model::Seq;

/// How many digits a name has. JSON numbers are exact up to this many.
const DIGITS: usize = 16;

/// Identifies a file whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// Whether this is the file at `path`.
    pub(super) fn is_at(self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| Self::of(&found) == self)
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
    let entries = match fs::read_dir(feed.parent().unwrap_or(feed)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let (prefix, suffix) = (prefix(feed), suffix(feed));
    let mut firsts = Vec::new();
    for entry in entries {
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
