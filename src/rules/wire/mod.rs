//! The formats for other programs: feed records, snapshots, and requests on the daemon's socket.
//!
//! Every type here is a promise (`docs/feed.md`, and `docs/feed.schema.json`, which is generated
//! from these types and those of [`crate::model`] in them). Fields are camelCase. Readers ignore
//! fields and kinds they do not know.

// Requests are public for the fuzz targets alone.
#[doc(hidden)]
mod consumer;
mod listing;
#[doc(hidden)]
mod output;
mod record;
#[doc(hidden)]
mod socket;

pub(crate) use crate::model::{SecretText, TypedInput, check_consumer_name};
pub(crate) use consumer::{
    ADAPTER_CLIENTS, ConsumerList, ConsumerStatus, MessageReaders, SINK_PREFIX, can_have_lost,
    client_of,
};
pub use consumer::{Acknowledgement, ConsumeRequest, ConsumerAudience, Filter, SavedConsumer};
pub use listing::{LsTask, SnapshotLine, TaskStateName};
pub(crate) use listing::{LsView, TaskBoard};
pub(crate) use output::{ExplainedState, Explanation, SearchMatch, SearchResult, TaskLog};
pub use output::{LogRequest, SearchRequest, WaitRequest};
pub use record::{LiveRecord, StreamRecord, feed_schema};
pub use socket::*;

#[cfg(test)]
mod tests;
