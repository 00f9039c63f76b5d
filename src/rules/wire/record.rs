//! The lines of live streams, and the JSON Schema of them and of the feed, generated from the types.

use std::num::NonZeroUsize;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::LsTask;
use crate::model::{Record, Seq, StatusCounts};

/// A record of a live stream that is not stored in the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum LiveRecord {
    /// The first line of every stream.
    Hello {
        /// The version of the records.
        v: u32,
        /// The feed's epoch.
        epoch: String,
        /// The sequence number of the last durable record.
        last_seq: Seq,
        /// The daemon's version.
        version: String,
        /// The task session.
        session_name: String,
    },
    /// The number of tasks by state. Sent after `hello` and at every change.
    Status {
        /// The status line; null when the session is missing.
        text: Option<String>,
        /// Alive and not waiting.
        running: usize,
        /// Alive and waiting for input.
        waiting: usize,
        /// Ended.
        dead: usize,
        /// About to be run again. They are also `dead`. Absent where there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "usize")]
        restarting: Option<NonZeroUsize>,
        /// Why records cannot be written now; they are kept in the daemon's memory. Absent when
        /// they can be written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        problem: Option<String>,
    },
    /// What follows is live.
    Sync,
    /// These records were removed before they could be read.
    Gap {
        /// The first missing sequence number.
        from: Seq,
        /// The last missing sequence number.
        to: Seq,
    },
    /// The tasks, as `ls --json` has them: at first all of them, then those that changed. Only in
    /// streams that ask for it.
    Tasks {
        /// Whether the session exists.
        exists: bool,
        /// Whether these are all tasks. If not, tasks that are not here are as they were.
        complete: bool,
        /// The tasks.
        tasks: Vec<LsTask>,
        /// The ids of windows that are gone since the record before.
        removed: Vec<String>,
    },
    /// A consumer's acknowledgement is on the disk.
    Acked {
        /// The acknowledged sequence number; all before it are acknowledged as well.
        acked: Seq,
    },
    /// Another reader took the consumer over. The last line of the stream.
    Replaced,
}

/// A line of a live stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StreamRecord {
    /// A record of the feed.
    Durable(Box<Record>),
    /// A record for readers of the live stream only.
    Live(LiveRecord),
}

impl From<StatusCounts> for LiveRecord {
    fn from(counts: StatusCounts) -> Self {
        Self::Status {
            text: counts.line(),
            running: counts.running,
            waiting: counts.waiting,
            dead: counts.dead,
            restarting: NonZeroUsize::new(counts.restarting),
            problem: None,
        }
    }
}

/// Returns the JSON Schema of a line of the feed or of a live stream. Readers may rely on it as
/// follows: other fields may be added, and fields that are not required may be missing in lines of
/// an older version.
pub fn feed_schema() -> serde_json::Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(tidy));
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<StreamRecord>();
    schema.insert("title".to_owned(), "A line of a tmux-task feed".into());
    schema.to_value()
}

/// Joins wrapped comments, and drops defaults, which the types contain as `null` already.
fn tidy(schema: &mut Schema) {
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if schema
        .get("default")
        .is_some_and(serde_json::Value::is_null)
    {
        schema.remove("default");
    }
}
