//! The formats for other programs: feed records, snapshots, and requests on the daemon's socket.
//!
//! Every type here is a promise (`docs/feed.md`, and `docs/feed.schema.json`, which is generated
//! from these types and those of [`crate::model`] in them). Fields are camelCase. Readers ignore
//! fields and kinds they do not know.

mod checkpoint;
mod command;
mod consumer;
mod delivery;
mod doctor;
mod explain;
mod filter;
mod follow;
mod follow_ups;
mod listing;
mod messages;
mod output;
mod protocol;
mod reason;
mod record;
mod saved;
mod schema;
mod snapshot;
mod socket;
mod task;
mod wait;

pub use crate::model::{SecretText, TypedInput};
pub use checkpoint::Checkpoint;
pub use command::{LaunchedRun, SendRequest};
pub(crate) use consumer::can_have_lost;
pub use consumer::{
    Acknowledgement, ConsumeRequest, ConsumerList, ConsumerStatus, SINK_PREFIX, SavedConsumer,
    check_consumer_name,
};
pub use delivery::{ConsumerAudience, DeliveryState, DeliveryStatus};
pub use doctor::{CheckResult, DoctorCheck, DoctorReport};
pub use explain::{ExplainedState, Explanation};
pub use filter::{Filter, is_owner_of};
pub use follow::{FollowOrder, FollowReply};
pub use follow_ups::FollowUps;
pub use listing::{LsTask, LsView, TaskStateName};
pub use messages::{ADAPTER_CLIENTS, Messages, client_of};
pub use output::{LogRequest, SearchMatch, SearchRequest, SearchResult, TaskLog, missing_lines};
pub use protocol::{PROTOCOL, is_older, parse_object, parse_request, request_line};
pub use reason::Reason;
pub use record::{
    Context, Details, DurableRecord, EventFields, EventType, FollowUpOptions, Kind, LiveRecord,
    Message, RecordBody, StreamRecord,
};
pub use saved::{SavedEvent, SavedFeed, SavedSession};
pub use schema::feed_schema;
pub use snapshot::SnapshotLine;
pub use socket::{
    After, Counters, DaemonConfig, DaemonStatus, EndedTask, EndingRun, ReaderStart, Request,
    Response, SinkStatus,
};
use task::OWNER_CHARS;
pub use task::TaskFields;
pub use wait::{WaitRequest, WaitResult};

/// The version of the feed's records.
pub const VERSION: u32 = 1;

/// The maximum length of a session name, in characters.
const SESSION_CHARS: usize = 200;

/// Returns a time as the feed writes it: RFC 3339, UTC, milliseconds.
pub fn rfc3339(millis: crate::model::Millis) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::fmt::temporal::DateTimePrinter::new()
        .precision(Some(3))
        .timestamp_to_string(&time)
}

/// Parses a time written by [`rfc3339`].
pub fn parse_rfc3339(text: &str) -> Option<crate::model::Millis> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests;
