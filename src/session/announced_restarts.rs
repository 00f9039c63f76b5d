//! The ends of runs that were delivered as notices because a restart follows.

use std::collections::BTreeMap;

use crate::model::{
    Body, DeliveredEvent, EventKind, GoneReason, Ordered as _, Record, SessionLife, Snapshot, Task,
    WindowId,
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

/// The end of a run whose restart was announced, and will not happen.
#[derive(Debug)]
pub(super) struct PreventedRestart {
    pub(super) end: DeliveredEvent,
    /// Why, where the user cannot know; `None` where the policy was removed.
    pub(super) why: Option<&'static str>,
}

/// What follows an end whose restart was announced, given a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterLook {
    /// The restart, as announced.
    Restart,
    /// Nothing that its owner has to know.
    Nothing,
    /// No restart; its owner does not know. Holds why, unless the policy was removed.
    Prevented(Option<&'static str>),
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

    /// Processes a look and its records. Returns the ends that no restart will follow although nobody
    /// has seen to that: the policy was removed, or the window or the pane is elsewhere. A window that is
    /// closed, or that shows another run, has nothing to deliver: whoever ended it or ran it again has seen it.
    pub(super) fn look(&mut self, look: &Snapshot, records: &[Record]) -> Vec<PreventedRestart> {
        // A session that is missing may have lost its last window to another one.
        if self.life != look.life && look.life.is_some() {
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
            let after = what_follows(*window, &end.event.task, look);
            if let AfterLook::Prevented(why) = after {
                let end = end.clone();
                prevented.push(PreventedRestart { end, why });
            }
            after == AfterLook::Restart
        });
        prevented
    }

    /// Takes the end of the window's run: its restart is impossible.
    pub(super) fn take(&mut self, window: WindowId) -> Option<DeliveredEvent> {
        self.ends.remove(&window)
    }
}

/// Returns what a look says of the restart that was announced at this end.
fn what_follows(window: WindowId, ended: &Task, look: &Snapshot) -> AfterLook {
    let Some(task) = look.tasks.get(&window) else {
        return match look.gone.get(&window) {
            Some(GoneReason::Moved) => {
                AfterLook::Prevented(Some("its window was moved to another session"))
            }
            Some(
                GoneReason::UserKilled
                | GoneReason::AgentKilled
                | GoneReason::OtherAgentKilled
                | GoneReason::TimedOut,
            )
            | None => AfterLook::Nothing,
        };
    };
    if task.run != ended.run {
        AfterLook::Nothing
    } else if task.run.is_some() && task.pane != ended.pane {
        // Another pane is the window's primary one now.
        AfterLook::Prevented(Some("its pane was moved out of its window"))
    } else if task.is_alive() {
        AfterLook::Nothing
    } else if restart_of(task).is_some() {
        AfterLook::Restart
    } else {
        AfterLook::Prevented(None)
    }
}
