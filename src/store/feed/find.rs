//! Finds a record's position in a feed without reading everything before it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memrchr;
use serde::Deserialize;

use super::FeedError;
use super::read::Frame;
use super::segments::{FileId, LONGEST, closed_firsts, read_line, segment_path};
use crate::files;
use crate::model::{Millis, Seq, parse_rfc3339};

/// The distance in bytes at which the search ends and the rest is read line by line.
const NEAR: u64 = 64 * 1024;

/// One of the files of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The closed segment that begins with this record.
    Closed(Seq),
    /// The file where records are appended.
    Active,
}

impl Part {
    /// Returns all parts, in order.
    pub(super) fn all(feed: &Path) -> io::Result<Vec<Self>> {
        let closed = closed_firsts(feed)?.into_iter().map(Self::Closed);
        Ok(closed.chain([Self::Active]).collect())
    }

    /// Returns the part where the feed begins.
    fn first(feed: &Path) -> io::Result<Self> {
        let closed = closed_firsts(feed)?;
        Ok(closed
            .first()
            .map_or(Self::Active, |first| Self::Closed(*first)))
    }

    /// Returns the path of its file.
    pub(super) fn path(self, feed: &Path) -> PathBuf {
        match self {
            Self::Closed(first) => segment_path(feed, first),
            Self::Active => feed.to_owned(),
        }
    }
}

/// A position in one of the files at which a line starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which file.
    pub(super) part: Part,
    /// The file that was found there; `None` if it was not opened.
    pub(super) id: Option<FileId>,
    /// The offset in bytes.
    pub(super) at: u64,
    /// The record that ends there; `None` at the start of a file.
    pub(super) frame: Option<Frame>,
}

impl Place {
    /// Returns the start of a part.
    pub(super) fn start_of(part: Part) -> Self {
        Self {
            part,
            id: None,
            at: 0,
            frame: None,
        }
    }

    /// Returns what compares as the positions do.
    pub(super) fn order(&self) -> (Seq, u64) {
        match self.part {
            Part::Closed(first) => (first, self.at),
            Part::Active => (Seq::MAX, self.at),
        }
    }

    /// Returns the sequence number of the record that ends there; 0 at the start of a file.
    pub(super) fn seq(&self) -> Seq {
        self.frame.as_ref().map_or(0, |frame| frame.seq)
    }
}

/// Returns a position before all records after the number `after`, by the names of the segments and
/// binary search: sequence numbers ascend.
pub(super) fn find(feed: &Path, after: Seq) -> io::Result<Place> {
    if let Some(file) = open(feed)?
        && first_record(&file)?.is_some_and(|first| first.seq <= after)
    {
        return search(file, Part::Active, after, u64::MAX);
    }
    let closed = closed_firsts(feed)?;
    let at_or_before = closed.iter().rev().find(|first| **first <= after);
    if let Some(first) = at_or_before
        && let Some(file) = open(&segment_path(feed, *first))?
    {
        return search(file, Part::Closed(*first), after, u64::MAX);
    }
    Ok(Place::start_of(Part::first(feed)?))
}

/// Opens a file; `None` when it is missing.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    files::if_there(files::open(path))
}

/// Searches the first `limit` bytes of a file for the record `after`.
pub(super) fn search(file: File, part: Part, after: Seq, limit: u64) -> io::Result<Place> {
    search_by(file, part, limit, |found| found.frame.seq <= after)
}

/// Searches the first `limit` bytes of a file for the last record that `is_before` holds for.
fn search_by(
    file: File,
    part: Part,
    limit: u64,
    is_before: impl Fn(&FoundRecord) -> bool,
) -> io::Result<Place> {
    let found = file.metadata()?;
    let mut right = found.len().min(limit);
    let mut file = BufReader::new(file);
    let mut left = Place {
        id: Some(FileId::of(&found)),
        ..Place::start_of(part)
    };
    while right.saturating_sub(left.at) > NEAR {
        let middle = left.at + (right - left.at) / 2;
        match write_end_behind(&mut file, middle, right)? {
            Some((at, record)) if is_before(&record) => {
                left.at = at;
                left.frame = Some(record.frame);
            }
            Some(_) | None => right = middle,
        }
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
    for part in Part::all(feed)?.into_iter().rev() {
        let Some(file) = open(&part.path(feed))? else {
            continue;
        };
        let first = first_record(&file)?;
        let Some(first) = first.filter(|first| first.time.is_some_and(|at| at < time)) else {
            continue;
        };
        let is_before =
            |found: &FoundRecord| parse_rfc3339(&found.time).is_some_and(|at| at < time);
        let place = search_by(file, part, u64::MAX, is_before)?;
        return Ok(Some(place.frame.map_or(first.seq - 1, |frame| frame.seq)));
    }
    Ok(None)
}

/// Returns a position where a write ends, about `n_bytes` before the end of the feed; its start if it
/// is shorter.
pub(super) fn find_tail(feed: &Path, n_bytes: u64) -> io::Result<Place> {
    let (mut n_missing, mut later) = (n_bytes, None);
    for part in Part::all(feed)?.into_iter().rev() {
        let Some(file) = open(&part.path(feed))? else {
            continue;
        };
        let found = file.metadata()?;
        if found.len() <= n_missing {
            n_missing -= found.len();
            later = Some(part);
            continue;
        }
        let mut file = BufReader::new(file);
        let middle = found.len() - n_missing;
        // Without the end of a write before it, the position would be in the middle of one.
        if let Some((at, record)) = write_end_behind(&mut file, middle, found.len())? {
            return Ok(Place {
                part,
                id: Some(FileId::of(&found)),
                at,
                frame: Some(record.frame),
            });
        }
        if let Some(later) = later {
            return Ok(Place::start_of(later));
        }
    }
    Ok(Place::start_of(Part::first(feed)?))
}

/// Returns a record behind which at least about `n_bytes` of the feed at `path` lie. `None` if the
/// feed is shorter, or if no such record is found.
///
/// # Errors
///
/// When the feed cannot be read.
pub(crate) fn before_tail(path: &Path, n_bytes: u64) -> Result<Option<Seq>, FeedError> {
    let place = find_tail(path, n_bytes).map_err(FeedError::reading(path))?;
    Ok(place.frame.map(|frame| frame.seq))
}

/// Returns the position at the byte `end` of a part if a readable record ends there.
pub(super) fn place_at(feed: &Path, part: Part, end: u64) -> io::Result<Option<Place>> {
    let Some(file) = open(&part.path(feed))? else {
        return Ok(None);
    };
    let id = FileId::of(&file.metadata()?);
    let line = line_before(file, end)?;
    let frame = line.and_then(|line| serde_json::from_slice::<Frame>(&line).ok());
    Ok(frame.map(|frame| Place {
        part,
        id: Some(id),
        at: end,
        frame: Some(frame),
    }))
}

/// A record as a search reads it.
#[derive(Debug, Deserialize)]
struct FoundRecord {
    #[serde(flatten)]
    frame: Frame,
    #[serde(default)]
    time: String,
}

/// The first record of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRecord {
    /// Its sequence number. If it cannot be read, it is concluded from the records that follow.
    pub(super) seq: Seq,
    /// When it, or the first readable one, was made.
    pub(super) time: Option<Millis>,
}

/// Returns the first record of a file; `None` when it has none that can be read.
pub(super) fn first_record(file: &File) -> io::Result<Option<FirstRecord>> {
    #[derive(Deserialize)]
    struct Fields {
        seq: Seq,
        #[serde(default)]
        time: Option<String>,
    }
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(0))?;
    let (mut line, mut n_damaged) = (Vec::new(), 0);
    loop {
        line.clear();
        read_line(&mut file, &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        match serde_json::from_slice::<Fields>(&line) {
            Ok(fields) => {
                return Ok(Some(FirstRecord {
                    seq: fields.seq.saturating_sub(n_damaged).max(1),
                    time: fields.time.as_deref().and_then(parse_rfc3339),
                }));
            }
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => n_damaged += 1,
        }
    }
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
/// `limit`. Returns it with the byte behind it. Unreadable lines are skipped.
fn write_end_behind(
    file: &mut BufReader<File>,
    at: u64,
    limit: u64,
) -> io::Result<Option<(u64, FoundRecord)>> {
    file.seek(SeekFrom::Start(at))?;
    let mut end = at;
    let mut line = Vec::new();
    // The rest of the line that contains the byte.
    let mut is_cut = true;
    while end < limit {
        line.clear();
        let length = read_line(file, &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        end += length;
        if !std::mem::take(&mut is_cut)
            && let Ok(record) = serde_json::from_slice::<FoundRecord>(&line)
            && record.frame.more == 0
        {
            return Ok(Some((end, record)));
        }
    }
    Ok(None)
}

/// How many bytes are read first; more for longer lines.
const STEP: u64 = 64 * 1024;

/// The complete lines of a file before some byte, the last one first.
#[derive(Debug)]
pub(super) struct LinesBackwards {
    file: File,
    /// The position of `bytes` in the file.
    start: u64,
    /// Bytes that were read and not returned yet. They end with a line.
    bytes: Vec<u8>,
    step: u64,
    /// Whether a part of the line that is being read was dropped.
    is_too_long: bool,
}

impl LinesBackwards {
    /// Returns the lines before the byte `end`. Text without a line end is not a line.
    pub(super) fn before(file: File, end: u64) -> Self {
        Self {
            file,
            start: end,
            bytes: Vec::new(),
            step: STEP,
            is_too_long: false,
        }
    }

    /// Returns the line before the one that was returned last, without its line end. One that is too long
    /// is empty.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            // Without a line end it is an incomplete line, which is skipped.
            let (line_end, is_whole) = match self.bytes.split_last() {
                Some((b'\n', line)) => (line.len(), true),
                Some(_) => (self.bytes.len(), false),
                None if self.start == 0 => return Ok(None),
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            let line_start = match memrchr(b'\n', &self.bytes[..line_end]) {
                Some(before) => before + 1,
                None if self.start == 0 => 0,
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            let mut line = self.bytes.split_off(line_start);
            let is_too_long = std::mem::take(&mut self.is_too_long);
            if is_whole {
                line.truncate(if is_too_long {
                    0
                } else {
                    line_end - line_start
                });
                self.step = STEP;
                return Ok(Some(line));
            }
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        if self.bytes.len() > LONGEST {
            // Only where the line begins is of interest, and that it has an end.
            let end = self.bytes.len() - 1;
            self.bytes.drain(..end);
            self.is_too_long = true;
            self.step = STEP;
        }
        let from = self.start.saturating_sub(self.step);
        let length = usize::try_from(self.start - from).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        self.file.seek(SeekFrom::Start(from))?;
        self.file.read_exact(&mut bytes)?;
        bytes.append(&mut self.bytes);
        (self.bytes, self.start) = (bytes, from);
        self.step *= 2;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[track_caller]
    fn check(text: &str, end: usize, expected: &[&str]) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut lines = LinesBackwards::before(file, end as u64);
        let mut read = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            read.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(read, expected);
    }

    #[test]
    fn whole_lines_are_read_from_the_end() {
        check("", 0, &[]);
        check("a\n", 2, &["a"]);
        check("a\n\nb\n", 5, &["b", "", "a"]);
        check("a\nhalf", 6, &["a"]);
        check("half", 4, &[]);
        check("a\nb\n", 2, &["a"]);
    }

    #[test]
    fn lines_may_be_longer_than_what_is_read_at_once() {
        let long = "x".repeat(3 * 64 * 1024 + 5);
        let text = format!("a\n{long}\nb\n{long}\n");
        check(&text, text.len(), &[&long, "b", &long, "a"]);
        // More is read after a part of it was dropped.
        let too_long = "x".repeat(2 * LONGEST + 3 * 64 * 1024);
        let text = format!("a\n{too_long}\nb\n{long}\n");
        check(&text, text.len(), &[&long, "b", "", "a"]);
        check(&too_long, too_long.len(), &[]);
        let short: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let text = short.join("\n") + "\n";
        let expected: Vec<&str> = short.iter().rev().map(String::as_str).collect();
        check(&text, text.len(), &expected);
    }
}
