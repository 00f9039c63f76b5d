//! The feed on disk: append-only files of JSON lines, one folder per task session.
//!
//! Records are appended to `feed.jsonl`. When that is large or old it becomes a closed segment, and
//! the oldest segments are removed within the bounds of the configuration (`feed` of its settings).
//!
//! The files are the only truth: everything that a daemon needs of the past is read from them
//! ([`recover()`]), and every reader is served from them. The saved snapshot only avoids reading
//! older records, and is ignored when the feed has another record at its position.

mod journal;
mod read;
mod reader;
mod readers;
mod recovery;
mod retention;
mod segments;

use std::path::{Path, PathBuf};

pub use journal::Journal;
pub use read::{DamagedFile, FeedLine, Frame, Sequence};
pub use reader::{Reader, end_of_files};
pub use readers::{load_consumers, store_consumer};
pub use recovery::{FeedState, PendingEvents, RecordedLook, SavedSession, load_saved, recover};
pub use segments::{FeedEnd, FileId};

pub(crate) use reader::{before_time, first_kept};
pub(crate) use readers::{
    CountedTimes, LastRead, ReadProgress, note_read, read_consumers, remove_consumer,
    sync_consumers,
};
pub(crate) use recovery::{store_saved, sync_saved};
pub(crate) use retention::{Ages, FeedFiles, Holder, Segment, closed_segments, has_files};
pub(crate) use segments::remove_before;

/// Returns the file of the snapshot that is saved for the feed at this path.
pub(crate) fn saved_of(feed: &Path) -> PathBuf {
    feed.with_file_name("session.json")
}

/// Returns the folder with a file for each of its consumers.
pub(crate) fn consumers_of(feed: &Path) -> PathBuf {
    feed.with_file_name("consumers")
}

/// Returns the file whose modification time is when it was last read.
pub(crate) fn last_reader_of(feed: &Path) -> PathBuf {
    feed.with_file_name("last-reader")
}

#[cfg(test)]
mod tests;
