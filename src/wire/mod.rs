//! The formats for other programs: feed records, snapshots, and requests on the daemon's socket.
//!
//! Every type here is a promise (`docs/feed.md`, and `docs/feed.schema.json`, which is generated
//! from these types and those of [`crate::model`] in them). Fields are camelCase. Readers ignore
//! fields and kinds they do not know.

mod command;
mod consumer;
mod doctor;
mod explain;
mod filter;
mod listing;
mod output;
mod protocol;
mod record;
mod saved;
mod socket;
mod wait;

pub use crate::model::{SecretText, TypedInput};
pub use command::{LaunchedRun, SendRequest};
pub(crate) use consumer::can_have_lost;
pub use consumer::{
    ADAPTER_CLIENTS, Acknowledgement, ConsumeRequest, ConsumerList, ConsumerStatus, MessageReaders,
    SINK_PREFIX, SavedConsumer, check_consumer_name, client_of,
};
pub use doctor::{CheckResult, DoctorCheck, DoctorReport};
pub use explain::{ExplainedState, Explanation};
pub use filter::{ConsumerAudience, Filter, is_owner_of};
pub use listing::{LsTask, LsView, SnapshotLine, TaskBoard, TaskStateName};
pub use output::{LogRequest, SearchMatch, SearchRequest, SearchResult, TaskLog, missing_lines};
pub use protocol::{parse_object, parse_request, request_line};
pub use record::{LiveRecord, StreamRecord, feed_schema};
pub use saved::{SavedFeed, SavedSession};
pub use socket::{
    After, Counters, DaemonConfig, DaemonStatus, EndedTask, EndingRun, LastRecords, ReaderStart,
    Request, Response, SinkStatus, StoredUse,
};
pub use wait::WaitRequest;

#[cfg(test)]
mod tests;
