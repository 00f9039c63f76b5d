//! The vocabulary of the crate: tasks, snapshots, events, records.
//!
//! Plain data. What programs get as it is, is serialised here, under the names of the format; what has
//! another shape there is defined in [`crate::wire`]. Frozen lines and the schema protect both.

mod animation;
mod backoff;
mod bookmark;
mod end_order;
pub mod environment;
mod error;
mod event;
mod find_task;
mod gone_reason;
mod id;
mod millis;
mod now;
mod open_question;
mod ordered;
mod owner;
mod port_holder;
pub mod programs;
mod progress;
mod record;
mod run_end;
mod run_numbers;
mod signal;
mod snapshot;
mod task;
mod task_board;
mod task_name;
mod task_spec;
#[cfg(test)]
pub(crate) mod test_notation;
pub mod text;
mod tty;
mod typed_input;
mod wait;
mod wire_name;

pub use animation::{is_same_except_signs, without_animation, without_last_sign};
pub(crate) use backoff::Backoff;
pub use bookmark::{Bookmark, RunAway};
pub use end_order::{EndOrder, LeftProcess};
pub use error::{Error, ErrorKind, with_causes};
pub use event::{AnswerBy, Event, EventKind, Level, OutputMatches, Prompt, PromptKind, ReplacedBy};
pub use gone_reason::GoneReason;
pub use id::{PaneId, ParseIdError, SessionId, WindowId};
pub use now::{AgeClock, BootTime, Millis, Now, age, limit_words, took, whole_millis, written};
pub use open_question::{OpenQuestion, are_same_rows, has_same_words};
pub(crate) use ordered::Ordered;
pub use owner::{ASKER_CHARS, machine_of_environment, owner_of_environment};
pub use port_holder::{PortHolder, port_words};
pub use progress::{Progress, ProgressState};
pub use record::{Body, DeliveredEvent, Delivery, Record, Seq, ShellDelivery};
pub use run_end::RunEnd;
pub use run_numbers::RunNumbers;
pub use signal::Signal;
pub use snapshot::{SessionLife, Snapshot, StatusCounts};
pub use task::{CursorPosition, Difference, Exit, Life, QUOTED_CHARS, QUOTED_LINES, Screen, Task};
pub use task_board::{BoardTask, TaskBoard};
pub use task_name::{TASK_NAME_RULE, is_task_name};
pub(crate) use task_spec::lossless;
pub use task_spec::{
    Launch, NextRestart, NotifyOn, ReplacedRun, Replaces, RestartPolicy, Slot, StopChoice,
    StopPlan, StopSettings, TaskRestarts, TaskSettings, TaskSpec, is_token, quote_where_needed,
    shown_command,
};
pub use tty::{Foreground, ReadCall, Stop, TtyEvidence, TtyUse};
pub use typed_input::{SecretText, TypedInput};
pub use wait::{Condition, WaitOutcome};
pub(crate) use wire_name::shown_by_wire_name;
