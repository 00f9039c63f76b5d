//! Finds a record's position in the file without reading everything before it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::FeedError;
use super::backwards::LinesBackwards;
use super::frame::Frame;
use crate::files;
use crate::model::Seq;

/// The distance in bytes at which the search ends and the rest is read line by line.
const NEAR: u64 = 64 * 1024;

/// A position in the file at which a line starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The offset in bytes.
    pub(super) at: u64,
    /// The record that ends there; `None` at the start.
    pub(super) frame: Option<Frame>,
}

/// Returns a position before all records after the number `after`, by binary search: sequence
/// numbers ascend.
pub(super) fn find(path: &Path, after: Seq) -> Result<Place, FeedError> {
    let found = files::open(path).and_then(|file| search(file, after));
    match found {
        Ok(place) => Ok(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Place::default()),
        Err(source) => Err(FeedError::Io {
            what: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

fn search(file: File, after: Seq) -> io::Result<Place> {
    let mut right = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let mut left = Place::default();
    while right.saturating_sub(left.at) > NEAR {
        let middle = left.at + (right - left.at) / 2;
        match write_end_behind(&mut file, middle, right)? {
            Some(place) if place.frame.as_ref().is_some_and(|frame| frame.seq <= after) => {
                left = place;
            }
            Some(_) | None => right = middle,
        }
    }
    Ok(left)
}

/// Returns the position at the byte `end` if a readable record ends there.
pub(super) fn place_at(path: &Path, end: u64) -> Result<Option<Place>, FeedError> {
    let read = files::open(path).and_then(|file| line_before(file, end));
    let line = match read {
        Ok(line) => line,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(FeedError::Io {
                what: "read",
                path: path.to_owned(),
                source,
            });
        }
    };
    let frame = line.and_then(|line| serde_json::from_slice::<Frame>(&line).ok());
    Ok(frame.map(|frame| Place {
        at: end,
        frame: Some(frame),
    }))
}

/// Returns the line that ends at the byte `end`; `None` when none does.
fn line_before(mut file: File, end: u64) -> io::Result<Option<Vec<u8>>> {
    if end == 0 || file.metadata()?.len() < end {
        return Ok(None);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(end - 1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        return Ok(None);
    }
    LinesBackwards::before(file, end).next_line()
}

/// Reads the first record that ends a write and whose line starts after the byte `at` and before
/// `limit`. Unreadable lines are skipped.
fn write_end_behind(file: &mut BufReader<File>, at: u64, limit: u64) -> io::Result<Option<Place>> {
    file.seek(SeekFrom::Start(at))?;
    let mut end = at;
    let mut line = Vec::new();
    // The rest of the line that contains the byte.
    let mut is_cut = true;
    while end < limit {
        line.clear();
        let length = file.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        end += length as u64;
        if !std::mem::take(&mut is_cut)
            && let Ok(frame) = serde_json::from_slice::<Frame>(&line)
            && frame.more == 0
        {
            let frame = Some(frame);
            return Ok(Some(Place { at: end, frame }));
        }
    }
    Ok(None)
}
