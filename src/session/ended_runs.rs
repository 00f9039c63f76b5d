//! The runs that ended or disappeared last: their windows can be closed before a wait for them
//! begins.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::{Body, EventKind, Millis, Record, Snapshot, Task, WindowId};

/// How many are kept. A wait for a run begins soon after the run.
const MOST: usize = 64;

/// A second, in milliseconds.
const SECOND_MS: Millis = 1000;

/// The runs that ended or disappeared last, as they were then.
#[derive(Debug, Default)]
pub(super) struct EndedRuns(VecDeque<Arc<Task>>);

impl EndedRuns {
    /// Adds the runs that these records report as ended or disappeared.
    pub(super) fn add(&mut self, records: &[Record]) {
        for record in records {
            if let Body::Event(event) = &record.body
                && let EventKind::Exited { .. } | EventKind::Disappeared { .. } = event.kind
            {
                // Its pane may be closed or have another run.
                let task = Task {
                    pane: None,
                    ..event.task.clone()
                };
                self.0.push_back(Arc::new(task));
            }
        }
        let excess = self.0.len().saturating_sub(MOST);
        self.0.drain(..excess);
    }

    /// Returns this run as it was last, if it is known.
    pub(super) fn find(&self, window: WindowId, run: Option<u32>) -> Option<&Arc<Task>> {
        let is_it = |task: &&Arc<Task>| task.window == window && task.run == run;
        self.0.iter().rev().find(is_it)
    }

    /// Whether this launched run is among them, and not only one of another session or server that had
    /// the same ids before the launch.
    pub(super) fn contain(&self, launched: &Task) -> bool {
        let Some(ended) = self.find(launched.window, launched.run) else {
            return false;
        };
        // Where only the end is known, tmux may have reported it in whole seconds.
        let at = ended
            .started_at
            .or_else(|| Some(ended.ended_at?.saturating_add(SECOND_MS)));
        at.zip(launched.started_at)
            .is_none_or(|(at, launched)| at >= launched)
    }

    /// Returns the look that a wait for this run is judged by: `look`, with the end of the run where
    /// its window is closed.
    pub(super) fn look_for(&self, entry: &Task, mut look: Snapshot) -> Snapshot {
        let window = entry.window;
        if !look.tasks.contains_key(&window)
            && let Some(task) = self.find(window, entry.run)
            && !task.is_alive()
        {
            look.exists = true;
            look.tasks.insert(window, Arc::clone(task));
        }
        look
    }
}
