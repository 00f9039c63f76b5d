//! The formats for other programs: feed records, snapshots, and requests on the daemon's socket.
//!
//! Every type here is a promise (`docs/feed.md`, and `docs/feed.schema.json`, which is generated
//! from these types and those of [`crate::model`] in them). Fields are camelCase. Readers ignore
//! fields and kinds they do not know.

mod consumer;
mod listing;
mod output;
mod record;
mod socket;

pub use crate::model::{SecretText, TypedInput, check_consumer_name};
pub(crate) use consumer::can_have_lost;
pub use consumer::{
    ADAPTER_CLIENTS, Acknowledgement, ConsumeRequest, ConsumerAudience, ConsumerList,
    ConsumerStatus, Filter, MessageReaders, SINK_PREFIX, SavedConsumer, client_of,
};
pub use listing::{LsTask, LsView, SnapshotLine, TaskBoard, TaskStateName};
pub use output::{
    ExplainedState, Explanation, LogRequest, SearchMatch, SearchRequest, SearchResult, TaskLog,
    WaitRequest, missing_lines,
};
pub use record::{LiveRecord, StreamRecord, feed_schema};
pub use socket::{
    After, Answer, AnswerHead, Caller, CheckResult, Counters, DaemonConfig, DaemonStatus,
    DoctorCheck, DoctorReport, EndedTask, EndedTasks, EndingRun, EndingRuns, LastRecords,
    LaunchRecord, LaunchedRun, ReaderStart, Request, RequestLine, Response, SendRequest,
    SinkStatus, StoredUse, parse_object, parse_request, request_line,
};

#[cfg(test)]
mod tests;
