//! The vocabulary of the crate: tasks, snapshots, events, records.
//!
//! Plain data. What programs get as it is, is serialised here, under the names of the format; what has
//! another shape there is defined in [`crate::rules::wire`]. Frozen lines and the schema protect both.

mod end_order;
pub mod environment;
mod error;
mod event;
mod id;
pub(crate) mod lossless;
mod machine;
mod millis;
mod now;
pub mod programs;
mod reason;
mod record;
mod screen;
mod snapshot;
mod task;
mod task_spec;
#[cfg(test)]
#[path = "tests/notation.rs"]
pub(crate) mod test_notation;
pub mod text;
mod tty;
mod wait;

pub use end_order::{EndOrder, EndReport, LeftProcess};
pub use environment::{ASKER_CHARS, machine_of_environment, owner_of_environment};
pub use error::{Error, ErrorKind, with_causes};
pub use event::{
    AnswerBy, Event, EventKind, EventType, Level, OutputMatches, Prompt, PromptKind, ReplacedBy,
};
pub use id::{PaneId, SessionId, TASK_NAME_RULE, WindowId, check_consumer_name, is_task_name};
pub(crate) use id::{is_name, shown_by_wire_name};
pub use machine::{
    FAR_CALL, FarAnswer, FarCall, FarCaller, FarPiece, FarStdin, OURS, host_name_of, is_host_name,
};
pub use now::{
    AgeClock, Backoff, BootTime, Millis, Now, age, limit_words, parse_rfc3339, rfc3339, took,
    whole_millis, written,
};
pub use reason::{GoneReason, Signal};
pub(crate) use record::SavedLook;
pub use record::{
    Body, Checkpoint, Context, DeliveredEvent, Details, FEED_VERSION, FollowUpOptions, Kind,
    Message, Record, SESSION_CHARS, Seq, ShellDelivery,
};
pub use screen::{
    CursorPosition, OpenQuestion, QUOTED_CHARS, QUOTED_LINES, Screen, SecretText, TypedInput,
    are_same_rows, has_same_words, is_same_but_animated, is_same_except_signs, letters,
    without_animation, without_last_sign,
};
pub(crate) use snapshot::Ordered;
pub use snapshot::{Bookmark, RunAway, RunNumbers, SessionLife, Snapshot, StatusCounts};
pub use task::{Difference, Exit, Life, OWNER_CHARS, PortHolder, RunEnd, Task, port_words};
pub use task_spec::{
    Launch, NextRestart, NotifyOn, ReplacedRun, Replaces, RestartPolicy, Slot, StopChoice,
    StopPlan, StopSettings, TaskRestarts, TaskSettings, TaskSpec, WakePolicy, is_token,
    quote_where_needed, shown_command,
};
pub use tty::{Foreground, ReadCall, Stop, TtyEvidence, TtyUse};
pub use wait::{Condition, WaitOutcome, WaitResult};
