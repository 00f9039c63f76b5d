//! The feed on disk: an append-only file of JSON lines, one folder per task session.
//!
//! The file is the only truth: everything that a daemon needs of the past is read from it
//! ([`recover()`]), and every reader is served from it. The saved snapshot only avoids reading
//! older records, and is ignored when the file has another record at its position.

mod backwards;
mod consumer_files;
mod find;
mod frame;
mod journal;
mod pending;
mod read;
mod readers;
mod recover;
mod saved;

pub use consumer_files::{load_consumers, remove_consumer, store_consumer, sync_consumers};
pub use frame::Frame;
pub use journal::{FeedError, Journal};
pub use pending::PendingEvents;
pub use read::{End, Line, Position, Reader, Sequence, UnknownRecord, WholeLines};
pub use readers::{Holdings, LastRead, holdings, last_read, note_read};
pub use recover::{FeedState, RecordedLook, recover};
pub use saved::{DamagedSnapshot, load_saved, store_saved};

#[cfg(test)]
mod tests;
