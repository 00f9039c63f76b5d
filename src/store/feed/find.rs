//! Finds a record's position in a feed without reading everything before it.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::Path;

use super::FeedError;
use super::read::Frame;
use super::segments::{FeedEnd, FileId, closed_firsts, read_line, segment_path};
use crate::files;
use crate::model::{Millis, Seq};

/// The distance in bytes at which the binary search ends and the rest is read record by record.
const NEAR: u64 = 64 * 1024;

/// A position in one of the files at which a line starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which file, by the number of its first record.
    pub(super) segment: Seq,
    /// The file that was found there; `None` if it was not opened.
    pub(super) id: Option<FileId>,
    /// The offset in bytes.
    pub(super) at: u64,
    /// The record that ends there; `None` at the start of a file.
    pub(super) frame: Option<Frame>,
}

impl Place {
    /// Returns the start of a file.
    pub(super) fn start_of(segment: Seq) -> Self {
        Self {
            segment,
            id: None,
            at: 0,
            frame: None,
        }
    }
}

/// Returns the end of the files of a feed that nobody writes, with what may be the beginning of a write
/// that a crash interrupted.
pub(super) fn present_end(feed: &Path) -> io::Result<FeedEnd> {
    let closed = closed_firsts(feed)?;
    let behind = closed.last().map_or(1, |last| last + 1);
    let Some(file) = open(feed)? else {
        return Ok(FeedEnd {
            segment: behind,
            ..FeedEnd::default()
        });
    };
    let found = file.metadata()?;
    let first = first_record(&file)?;
    Ok(FeedEnd {
        segment: first.map_or(behind, |first| first.seq.max(behind)),
        id: FileId::of(&found),
        at: found.len(),
        ..FeedEnd::default()
    })
}

/// Returns the first records of the files up to this end, in order.
fn firsts(feed: &Path, end: &FeedEnd) -> io::Result<Vec<Seq>> {
    let mut firsts = closed_firsts(feed)?;
    firsts.retain(|first| *first < end.segment);
    firsts.push(end.segment);
    Ok(firsts)
}

/// Opens the file that begins with the record `segment`; `None` when it is gone. The one at the end has
/// the name of a closed one if it was closed since.
pub(super) fn open_segment(feed: &Path, segment: Seq, end: &FeedEnd) -> io::Result<Option<File>> {
    let closed = segment_path(feed, segment);
    let found = open(&closed)?;
    if found.is_some() || segment != end.segment {
        return Ok(found);
    }
    match open(feed)? {
        // It is the file that `end` refers to, wherever that is by now.
        Some(file) if FileId::of(&file.metadata()?) == end.id => Ok(Some(file)),
        // That was closed since: a later end leads there.
        Some(_) | None => open(&closed),
    }
}

/// Returns the position behind the last write up to the record `after`, by the first records of the
/// segments and binary search: sequence numbers ascend. Of the last file, what is before `end` is searched.
pub(super) fn find(feed: &Path, after: Seq, end: &FeedEnd) -> io::Result<Place> {
    let firsts = firsts(feed, end)?;
    for segment in firsts.iter().copied().rev().filter(|first| *first <= after) {
        // The last one may be empty.
        if let Some(file) = open_segment(feed, segment, end)?
            && first_record(&file)?.is_some()
        {
            let limit = end.limit_in(segment);
            let place = search_by(file, segment, limit, |found| found.seq <= after)?;
            // Otherwise the record is in the middle of the file's first write.
            if place.frame.is_some() {
                return Ok(place);
            }
        }
    }
    Ok(Place::start_of(firsts[0]))
}

/// Opens a file; `None` when it is missing.
fn open(path: &Path) -> io::Result<Option<File>> {
    files::if_there(files::open(path))
}

/// Searches the first `limit` bytes of a file for the last write that `is_before` holds for.
fn search_by(
    file: File,
    segment: Seq,
    limit: u64,
    is_before: impl Fn(&Frame) -> bool,
) -> io::Result<Place> {
    let found = file.metadata()?;
    let mut right = found.len().min(limit);
    let mut file = BufReader::new(file);
    let mut left = Place {
        id: Some(FileId::of(&found)),
        ..Place::start_of(segment)
    };
    while right.saturating_sub(left.at) > NEAR {
        let middle = left.at + (right - left.at) / 2;
        match write_end_behind(&mut file, middle, right)? {
            Some((at, record)) if is_before(&record) => {
                left.at = at;
                left.frame = Some(record);
            }
            Some(_) | None => right = middle,
        }
    }
    file.seek(SeekFrom::Start(left.at))?;
    while let Some((at, record)) = next_write_end(&mut file, left.at, limit)?
        && is_before(&record)
    {
        left.at = at;
        left.frame = Some(record);
    }
    Ok(left)
}

/// Returns a record before all those that were made at this time or later; `None` if there is none
/// before them. It is found by the first records of the segments and by binary search, so it relies on
/// times that ascend: behind a clock that was set back, it may be a later record.
///
/// # Errors
///
/// When the feed cannot be read.
pub(crate) fn before_time(path: &Path, time: Millis) -> Result<Option<Seq>, FeedError> {
    find_time(path, time).map_err(FeedError::reading(path))
}

fn find_time(feed: &Path, time: Millis) -> io::Result<Option<Seq>> {
    let end = present_end(feed)?;
    for segment in firsts(feed, &end)?.into_iter().rev() {
        let Some(file) = open_segment(feed, segment, &end)? else {
            continue;
        };
        let first = first_record(&file)?;
        let Some(first) = first.filter(|first| first.time.is_some_and(|at| at < time)) else {
            continue;
        };
        let is_before = |found: &Frame| found.time.is_some_and(|at| at < time);
        let place = search_by(file, segment, u64::MAX, is_before)?;
        return Ok(Some(place.frame.map_or(first.seq - 1, |frame| frame.seq)));
    }
    Ok(None)
}

/// Returns the first record of a file that can be read, with the number of the very first one, which is
/// concluded from it; `None` when there is none.
pub(super) fn first_record(file: &File) -> io::Result<Option<Frame>> {
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(0))?;
    let (mut line, mut n_damaged) = (Vec::new(), 0);
    loop {
        line.clear();
        read_line(&mut file, &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        match serde_json::from_slice::<Frame>(&line) {
            Ok(found) => {
                return Ok(Some(Frame {
                    seq: found.seq.saturating_sub(n_damaged).max(1),
                    ..found
                }));
            }
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => n_damaged += 1,
        }
    }
}

/// Reads the first record that ends a write and whose line starts after the byte `at` and before
/// `limit`. Returns it with the byte behind it. Unreadable lines are skipped.
fn write_end_behind(
    file: &mut BufReader<File>,
    at: u64,
    limit: u64,
) -> io::Result<Option<(u64, Frame)>> {
    file.seek(SeekFrom::Start(at))?;
    let mut rest_of_line = Vec::new();
    let length = read_line(file, &mut rest_of_line)?;
    next_write_end(file, at + length, limit)
}

/// The same from the start of the line at the byte `at`, where the file is read now.
fn next_write_end(
    file: &mut BufReader<File>,
    at: u64,
    limit: u64,
) -> io::Result<Option<(u64, Frame)>> {
    let (mut end, mut line) = (at, Vec::new());
    while end < limit {
        line.clear();
        end += read_line(file, &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        if let Ok(record) = serde_json::from_slice::<Frame>(&line)
            && record.more == 0
        {
            return Ok(Some((end, record)));
        }
    }
    Ok(None)
}
