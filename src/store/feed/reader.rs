//! Reads a feed from some record on: of a running daemon up to the end that it has published, or all files of
//! one that no other process writes. Where a record is, is found without reading everything before it.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::read::{FeedLine, Frame, failed};
use super::segments::{FeedEnd, FileId, closed_firsts, read_line, segment_path};
use crate::files;
use crate::model::{Error, Millis, Seq};

/// The distance in bytes at which the binary search ends and the rest is read record by record.
const NEAR: u64 = 64 * 1024;

/// Reads a feed from some position on, through its closed segments. An open file keeps being read when it
/// is renamed or removed.
#[derive(Debug)]
pub struct Reader {
    feed: PathBuf,
    /// The file that is being read, by the sequence number of its first record.
    segment: Seq,
    /// The file that `at` refers to, if it is known.
    id: Option<FileId>,
    /// The offset behind the last line that was read.
    at: u64,
    file: Option<BufReader<File>>,
}

impl Reader {
    /// Returns a reader that starts at this end.
    pub(crate) fn at_end(feed: &Path, end: &FeedEnd) -> Self {
        Self {
            id: Some(end.id),
            at: end.at,
            ..Self::at_start_of(feed, end.segment)
        }
    }

    /// Returns a reader that starts shortly before the record `after`. `end` is the feed's present end.
    pub fn before(feed: &Path, after: Seq, end: &FeedEnd) -> Result<Self, Error> {
        let found = find(feed, after, end).map_err(failed("read", feed));
        found.map(|(reader, _)| reader)
    }

    fn at_start_of(feed: &Path, segment: Seq) -> Self {
        Self {
            feed: feed.to_owned(),
            segment,
            id: None,
            at: 0,
            file: None,
        }
    }

    /// Returns the next line before `end`; `None` when there is none yet. Segments that were removed
    /// are skipped: the numbers of the lines show it.
    pub fn next(&mut self, end: &FeedEnd) -> Result<Option<FeedLine>, Error> {
        self.try_next(end).map_err(failed("read", &self.feed))
    }

    fn try_next(&mut self, end: &FeedEnd) -> io::Result<Option<FeedLine>> {
        // An end may be older than one that was read up to.
        while self.segment <= end.segment {
            if self.file.is_none() {
                self.open(end)?;
            }
            if let Some(line) = self.next_line(end.limit_in(self.segment))? {
                return Ok(Some(FeedLine::parse(&line)));
            }
            if self.segment == end.segment {
                return Ok(None);
            }
            let closed = closed_firsts(&self.feed)?;
            let next = closed.into_iter().find(|first| *first > self.segment);
            self.segment = next.map_or(end.segment, |next| next.min(end.segment));
            (self.id, self.at, self.file) = (None, 0, None);
        }
        Ok(None)
    }

    /// Opens the present segment, if it is there. One that `at` does not refer to is read from its start.
    fn open(&mut self, end: &FeedEnd) -> io::Result<()> {
        let Some(mut file) = open_segment(&self.feed, self.segment, end)? else {
            return Ok(());
        };
        let id = FileId::of(&file.metadata()?);
        if self.id.is_some_and(|expected| expected != id) {
            self.at = 0;
        }
        self.id = Some(id);
        file.seek(SeekFrom::Start(self.at))?;
        self.file = Some(BufReader::new(file));
        Ok(())
    }

    /// Returns the next complete line that is not blank and ends at or before the byte `limit`.
    fn next_line(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        while self.at < limit {
            let mut line = Vec::new();
            let length = read_line(file, &mut line)?;
            if line.last() != Some(&b'\n') || self.at + length > limit {
                // An incomplete line, which is being written. Read it again later.
                file.seek(SeekFrom::Start(self.at))?;
                return Ok(None);
            }
            self.at += length;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Returns the offset behind the last line in the file with this end; 0 in an earlier one.
    fn at_in(&self, end: &FeedEnd) -> u64 {
        match self.segment == end.segment {
            true => self.at,
            false => 0,
        }
    }
}

/// Returns the end of the complete writes of a feed that nobody writes, and its epoch if it has a record.
/// Behind it may be a partial write left by a crash. A missing feed is empty.
pub fn end_of_files(feed: &Path) -> Result<(Option<String>, FeedEnd), Error> {
    end_from(feed, |files| find(feed, Seq::MAX, files)).map_err(failed("read", feed))
}

/// Returns the same of the file where records are appended alone.
pub(super) fn end_of_active(feed: &Path) -> io::Result<(Option<String>, FeedEnd)> {
    end_from(feed, |files| {
        Ok((Reader::at_start_of(feed, files.segment), None))
    })
}

/// Reads the end from a position on where a write ends.
fn end_from(
    feed: &Path,
    position: impl FnOnce(&FeedEnd) -> io::Result<(Reader, Option<Frame>)>,
) -> io::Result<(Option<String>, FeedEnd)> {
    let files = present_end(feed)?;
    let (mut reader, frame) = position(&files)?;
    let (mut epoch, last_seq) = frame.map(|frame| (frame.epoch, frame.seq)).unzip();
    let mut end = FeedEnd {
        at: reader.at_in(&files),
        last_seq: last_seq.unwrap_or_default(),
        ..files
    };
    // The last readable line, how many unreadable ones follow it, and how many lines its write lacks.
    let (mut read, mut n_damaged, mut n_to_come) = (end.last_seq, 0, 0);
    let mut epoch_of_write = None;
    while let Some(line) = reader.try_next(&files)? {
        match line.frame() {
            Some(frame) => {
                (read, n_damaged, n_to_come) = (frame.seq, 0, frame.more);
                epoch_of_write = Some(frame.epoch);
            }
            None => (n_damaged, n_to_come) = (n_damaged + 1, n_to_come.saturating_sub(1)),
        }
        if reader.segment != files.segment {
            // A write is in one file: what a closed one lacks of it is damaged.
            n_to_come = 0;
        }
        // With no record before it, an unreadable line may be anything.
        if n_to_come == 0 && read > 0 {
            epoch = epoch_of_write.take().or(epoch);
            // A line that was a record once has used its number.
            (end.last_seq, end.at) = (read + n_damaged, reader.at_in(&files));
        }
    }
    if end.at == 0 {
        end.segment = end.last_seq + 1;
    }
    Ok((epoch, end))
}

/// Returns the end of the files of a feed that nobody writes, with what a crash left behind it.
fn present_end(feed: &Path) -> io::Result<FeedEnd> {
    let closed = closed_firsts(feed)?;
    let behind = closed.last().map_or(1, |last| last + 1);
    let Some(file) = open(feed)? else {
        return Ok(FeedEnd {
            segment: behind,
            ..FeedEnd::default()
        });
    };
    let (found, first) = (file.metadata()?, first_record(&file)?);
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

/// Returns the number of the first record that is kept, of a feed with this end.
pub(crate) fn first_kept(feed: &Path, end: &FeedEnd) -> Result<Seq, Error> {
    let firsts = firsts(feed, end).map_err(failed("read", feed))?;
    Ok(firsts[0])
}

/// Opens the file that begins with this record, which may have been closed since; `None` when it is gone.
fn open_segment(feed: &Path, segment: Seq, end: &FeedEnd) -> io::Result<Option<File>> {
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

/// Returns a reader behind the last write up to the record `after`, and the last record of that write, by
/// binary search; `None` at the start of a file. Of the last file, what is before `end` is searched.
pub(super) fn find(feed: &Path, after: Seq, end: &FeedEnd) -> io::Result<(Reader, Option<Frame>)> {
    let firsts = firsts(feed, end)?;
    for segment in firsts.iter().copied().rev().filter(|first| *first <= after) {
        // The last one may be empty.
        if let Some(file) = open_segment(feed, segment, end)?
            && first_record(&file)?.is_some()
        {
            let limit = end.limit_in(segment);
            let (at, frame) = search_by(&file, limit, |found| found.seq <= after)?;
            // Otherwise the record is in the middle of the file's first write.
            if frame.is_some() {
                let reader = Reader {
                    id: Some(FileId::of(&file.metadata()?)),
                    at,
                    ..Reader::at_start_of(feed, segment)
                };
                return Ok((reader, frame));
            }
        }
    }
    Ok((Reader::at_start_of(feed, firsts[0]), None))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    files::if_there(files::open(path))
}

/// Returns the end of the last write before `limit` that `is_before` holds for, and its last record.
fn search_by(
    file: &File,
    limit: u64,
    is_before: impl Fn(&Frame) -> bool,
) -> io::Result<(u64, Option<Frame>)> {
    let mut right = file.metadata()?.len().min(limit);
    let mut file = BufReader::new(file);
    let (mut at, mut last) = (0, None);
    while right.saturating_sub(at) > NEAR {
        let middle = at + (right - at) / 2;
        match write_end_behind(&mut file, middle, right)? {
            Some((end, record)) if is_before(&record) => (at, last) = (end, Some(record)),
            Some(_) | None => right = middle,
        }
    }
    file.seek(SeekFrom::Start(at))?;
    while let Some((end, record)) = next_write_end(&mut file, at, limit)?
        && is_before(&record)
    {
        (at, last) = (end, Some(record));
    }
    Ok((at, last))
}

/// Returns a record before all those that were made at this time or later, if there is one. It is found by
/// binary search, so it relies on times that ascend: behind a clock that was set back, it may be later.
pub(crate) fn before_time(path: &Path, time: Millis) -> Result<Option<Seq>, Error> {
    find_time(path, time).map_err(failed("read", path))
}

fn find_time(feed: &Path, time: Millis) -> io::Result<Option<Seq>> {
    let end = present_end(feed)?;
    let is_before = |found: &Frame| found.time.is_some_and(|at| at < time);
    for segment in firsts(feed, &end)?.into_iter().rev() {
        if let Some(file) = open_segment(feed, segment, &end)?
            && let Some(first) = first_record(&file)?.filter(is_before)
        {
            let (_, frame) = search_by(&file, u64::MAX, is_before)?;
            return Ok(Some(frame.map_or(first.seq - 1, |frame| frame.seq)));
        }
    }
    Ok(None)
}

/// Returns the first readable record of a file, with the number of the very first one.
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
                let seq = found.seq.saturating_sub(n_damaged).max(1);
                return Ok(Some(Frame { seq, ..found }));
            }
            Err(_) if line.trim_ascii().is_empty() => {}
            Err(_) => n_damaged += 1,
        }
    }
}

/// Returns the first record that ends a write and begins behind the byte `at`, with the byte behind it.
fn write_end_behind(
    file: &mut BufReader<&File>,
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
    file: &mut BufReader<&File>,
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
