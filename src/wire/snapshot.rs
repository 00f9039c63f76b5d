//! Snapshots for other programs: the input of `replay` and the output of `ls --json`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SESSION_CHARS, TaskFields};
use crate::model::{Millis, Snapshot, text};

/// Everything observed of the task session at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotLine {
    /// The task session.
    pub session_name: String,
    /// Whether it exists.
    pub exists: bool,
    /// When the look was taken, in milliseconds since 1970.
    pub captured_at: Millis,
    /// The tasks, by window. A window that is listed more than once had several runs since the
    /// previous look; the last one is the present one.
    pub tasks: Vec<TaskFields>,
}

impl From<&Snapshot> for SnapshotLine {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            session_name: text::one_line(snapshot.session.as_bytes(), SESSION_CHARS),
            exists: snapshot.exists,
            captured_at: snapshot.captured_at,
            tasks: snapshot
                .tasks
                .values()
                .map(|task| TaskFields::from(&**task))
                .collect(),
        }
    }
}

impl SnapshotLine {
    /// Returns the snapshot; an error names the field that cannot be read.
    pub fn to_snapshot(&self) -> Result<Snapshot, String> {
        let mut snapshot = Snapshot {
            exists: self.exists,
            ..Snapshot::missing(
                text::one_line(self.session_name.as_bytes(), SESSION_CHARS),
                self.captured_at,
            )
        };
        if !self.exists && !self.tasks.is_empty() {
            return Err("tasks: a session that does not exist has none".to_owned());
        }
        for fields in &self.tasks {
            let task = Arc::new(fields.to_task()?);
            if let Some(earlier) = snapshot.tasks.insert(task.window, task) {
                snapshot.ended.push(Arc::unwrap_or_clone(earlier));
            }
        }
        Ok(snapshot)
    }
}
