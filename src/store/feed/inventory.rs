//! What files a feed has, and how large and old they are.

use std::fs;
use std::io;
use std::path::Path;

use super::ages::Ages;
use super::find::{first_record, open};
use super::floor::closed_firsts;
use super::retention::{FeedFiles, Segment};
use super::segments::segment_path;
use crate::files;
use crate::model::{Millis, Seq};

/// Returns the closed segments that are kept, in order, at this time of the feed's clock.
///
/// # Errors
///
/// When the folder cannot be read. A missing one has no segments.
pub(crate) fn closed_segments(feed: &Path, ages: &Ages, now: Millis) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for first in closed_firsts(feed)? {
        // It may have been removed meanwhile.
        let found = files::if_there(fs::symlink_metadata(segment_path(feed, first)))?;
        segments.extend(found.map(|found| Segment {
            first,
            bytes: found.len(),
            closed_at: ages.closed_at(first, now),
        }));
    }
    Ok(segments)
}

/// Returns the files of the feed at `feed`, which has records up to `last_seq`, at this time of its
/// clock.
///
/// # Errors
///
/// When they cannot be read. Missing files are empty.
pub(crate) fn feed_files(
    feed: &Path,
    last_seq: Seq,
    ages: &Ages,
    now: Millis,
) -> io::Result<FeedFiles> {
    let closed = closed_segments(feed, ages, now)?;
    let mut files = FeedFiles {
        closed,
        active_first: last_seq + 1,
        active_bytes: 0,
    };
    if let Some(active) = open(feed)? {
        files.active_bytes = active.metadata()?.len();
        let first = first_record(&active)?;
        files.active_first = first.map_or(files.active_first, |first| first.seq);
    }
    Ok(files)
}

pub(crate) fn has_files(feed: &Path) -> bool {
    feed.exists() || closed_firsts(feed).is_ok_and(|firsts| !firsts.is_empty())
}

/// Opens the files of a feed for reading, the last one first.
pub(super) fn files_backwards(feed: &Path) -> io::Result<Vec<fs::File>> {
    let mut opened = Vec::new();
    let paths = closed_firsts(feed)?
        .into_iter()
        .map(|first| segment_path(feed, first))
        .chain([feed.to_owned()]);
    for path in paths.rev() {
        opened.extend(files::if_there(files::open(&path))?);
    }
    Ok(opened)
}

#[cfg(test)]
mod tests;
