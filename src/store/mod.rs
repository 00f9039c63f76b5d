//! The disk of a daemon: a thread that appends to the feed and saves the snapshot, one that saves the
//! positions of consumers, one that stores the output of ended runs, and one that serves readers.
//!
//! The event loop never waits for the disk: it queues records and gets a report of how far they
//! are written. Readers depend on this module alone.
//!
//! A record is on the disk before anything else shows its event. The session keeps back until the report that
//! the disk has taken or refused it: notices, the status line, the answer of a wait that ended with an event,
//! deliveries, and cutting tmux's record of deaths. Records that arrive during a sync are written by the next
//! one, all together. If the disk refuses, they stay in memory and are tried again every second; if too many
//! wait, no more looks are taken.
//!
//! A reader subscribes to `Live` without asking the event loop, and reads the files up to the end that the
//! writer publishes. It needs no signal when segments are closed or removed: an open file is read to its end
//! whatever its name is by then, and a removed one shows as missing numbers, which become a `gap`.
//!
//! Positions have a thread of their own, because each is a file: on one thread a record would wait for the
//! syncs of all consumers that acknowledge at once, nine times as long with ten of them.

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
