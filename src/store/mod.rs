//! The disk of a daemon: a thread that appends to the feed and saves the snapshot, one that saves the
//! positions of consumers, one that stores the output of ended runs, and one that serves readers.
//!
//! The event loop never waits for the disk: it queues records and gets a report of how far they
//! are written. Readers depend on this module alone.

pub(crate) mod archive;
mod consumers;
pub mod feed;
mod handle;
mod live;
mod position;
mod stream;
mod writer;

pub(crate) use archive::{Archiver, KeptRun, UsualDuration};
pub(crate) use consumers::Lease;
pub(crate) use handle::{ReaderThread, Store, run_on};
pub(crate) use live::{Live, StoreSetup};
pub(crate) use stream::{StoredFeed, Subscription, serve};

#[cfg(test)]
mod tests;
