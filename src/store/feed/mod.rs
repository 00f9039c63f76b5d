//! The feed on disk: append-only files of JSON lines, one folder per task session.
//!
//! Records are appended to `feed.jsonl`. When that is large or old it becomes a closed segment, and
//! the oldest segments are removed within the bounds of the configuration ([`Retention`]).
//!
//! The files are the only truth: everything that a daemon needs of the past is read from them
//! ([`recover()`]), and every reader is served from them. The saved snapshot only avoids reading
//! older records, and is ignored when the feed has another record at its position.

mod ages;
mod consumer_files;
mod find;
mod floor;
mod inventory;
mod journal;
mod read;
mod reader;
mod readers;
mod recovery;
mod retention;
mod segments;
mod whole_lines;

pub use consumer_files::{load_consumers, store_consumer};
pub use journal::Journal;
pub use read::{FeedError, FeedLine, Sequence, UnknownRecord};
pub use recovery::{DamagedSnapshot, FeedState, PendingEvents, RecordedLook, load_saved, recover};
pub use retention::{FeedFiles, Retention, Segment};
pub use segments::FileId;
pub use whole_lines::{End, WholeLines};

pub(crate) use ages::Ages;
pub(crate) use consumer_files::{remove_consumer, sync_consumers};
pub(crate) use find::{before_tail, before_time};
pub(crate) use floor::{finish_removal, first_kept, remove_before};
pub(crate) use inventory::{closed_segments, feed_files, has_files};
pub(crate) use reader::{FeedEnd, Reader, end_of_files};
pub(crate) use readers::{CountedTimes, LastRead, ReadProgress, note_read};
pub(crate) use recovery::{store_saved, sync_saved};
pub(crate) use retention::Holder;

#[cfg(test)]
mod tests;
