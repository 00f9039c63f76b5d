//! The ends of runs that were delivered as notices because a restart follows.

use std::collections::BTreeMap;

use crate::model::{
    Body, DeliveredEvent, EventKind, Ordered as _, Record, SessionLife, Snapshot, Task, WindowId,
};
use crate::restarts::restart_of;

/// The ends whose restarts have not happened. If one never happens, the end is to be delivered as a
/// failure.
#[derive(Debug, Default)]
pub(super) struct AnnouncedRestarts {
    /// The life of the session that the windows belong to.
    life: Option<SessionLife>,
    ends: BTreeMap<WindowId, DeliveredEvent>,
}

impl AnnouncedRestarts {
    /// Returns those that earlier daemons have recorded. `before` is the last look that is known;
    /// without one, nothing is known of the windows.
    pub(super) fn new(before: Option<&Snapshot>, ends: Vec<DeliveredEvent>) -> Self {
        let Some(before) = before else {
            return Self::default();
        };
        let ends = ends.into_iter().map(|end| (end.event.task.window, end));
        Self {
            life: before.life.clone(),
            ends: ends.into_map(),
        }
    }

    /// Processes a look and its records. Returns the ends that no restart will follow although their
    /// windows are as they were: the policy was removed. A window that is gone, or that shows another
    /// run, owes nothing: whoever ended it or ran it again has seen it.
    pub(super) fn look(&mut self, look: &Snapshot, records: &[Record]) -> Vec<DeliveredEvent> {
        if self.life != look.life {
            self.life.clone_from(&look.life);
            self.ends.clear();
        }
        for record in records {
            if let Body::Event(event) = &record.body
                && let EventKind::Exited { replaced: None } = event.kind
                && restart_of(&event.task).is_some()
            {
                let (seq, event) = (record.seq, (**event).clone());
                let window = event.task.window;
                self.ends.insert(window, DeliveredEvent { seq, event });
            }
        }
        let mut prevented = Vec::new();
        self.ends.retain(|window, end| {
            let shown = look.tasks.get(window);
            let Some(task) = shown.filter(|task| is_same_end(task, &end.event.task)) else {
                return false;
            };
            let follows = restart_of(task).is_some();
            if !follows {
                prevented.push(end.clone());
            }
            follows
        });
        prevented
    }

    /// Takes the end of the window's run: its restart is impossible.
    pub(super) fn take(&mut self, window: WindowId) -> Option<DeliveredEvent> {
        self.ends.remove(&window)
    }
}

fn is_same_end(task: &Task, ended: &Task) -> bool {
    !task.is_alive() && task.run == ended.run
}
