//! Which tasks are about to be run again because they failed, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::restart_job::EnvironmentCleanup;
use crate::model::{NextRestart, Now, Snapshot, Task, TaskRestarts, WindowId, whole_millis};
use crate::restarts::{Restart, restart_of};

/// The restarts that are due, now or later. What decides is the look: a window whose run goes on, or
/// that is gone, has none.
#[derive(Debug, Default)]
pub(super) struct PendingRestarts {
    pending: BTreeMap<WindowId, PendingRestart>,
    /// The launches that the tasks of the last look name; `None` before the first look.
    kept: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct PendingRestart {
    /// The run that has failed.
    run: Option<u32>,
    restarts: TaskRestarts,
    restart: Restart,
    due: Now,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It is not due yet.
    Pending,
    /// The command is queued or runs, or its result has not been looked at.
    Starting,
    /// It cannot be run again, for this reason.
    Impossible(String),
}

impl PendingRestart {
    fn due_at(&self) -> Option<Instant> {
        (self.state == State::Pending).then_some(self.due.mono)
    }

    fn is_of(&self, task: &Task) -> bool {
        (self.run, Some(&self.restarts)) == (task.run, task.restarts.as_ref())
    }
}

impl PendingRestarts {
    /// Plans the restarts that follow from a look.
    pub(super) fn plan(&mut self, look: &Snapshot, now: Now) {
        let mut before = std::mem::take(&mut self.pending);
        for (window, task) in &look.tasks {
            let (Some(restart), Some(restarts)) = (restart_of(task), &task.restarts) else {
                continue;
            };
            let known = before.remove(window).filter(|known| known.is_of(task));
            let pending = known.unwrap_or_else(|| PendingRestart {
                run: task.run,
                restarts: restarts.clone(),
                restart,
                due: now.after(still(task, restart, now)),
                state: State::Pending,
            });
            self.pending.insert(*window, pending);
        }
    }

    /// Returns when the next restart is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.pending
            .values()
            .filter_map(PendingRestart::due_at)
            .min()
    }

    /// Returns the restart of a task that waits for one.
    pub(super) fn next(&self, window: WindowId, now: Now) -> Option<NextRestart> {
        let in_ms = whole_millis(self.next_in(window, now)?);
        let pending = self.pending.get(&window)?;
        let Restart { number, limit, .. } = pending.restart;
        Some(NextRestart {
            in_ms,
            at: pending.due.wall,
            number,
            limit,
        })
    }

    /// Returns in what time a task is restarted that waits for that.
    pub(super) fn next_in(&self, window: WindowId, now: Now) -> Option<Duration> {
        let pending = self.pending.get(&window)?;
        match &pending.state {
            State::Pending => Some(pending.due.mono.saturating_duration_since(now.mono)),
            State::Starting => Some(Duration::ZERO),
            State::Impossible(_) => None,
        }
    }

    /// Returns why a task whose run has failed cannot be run again.
    pub(super) fn why_impossible(&self, window: WindowId) -> Option<String> {
        match &self.pending.get(&window)?.state {
            State::Impossible(why) => Some(why.clone()),
            State::Pending | State::Starting => None,
        }
    }

    /// Takes the windows whose restarts are due, with their numbers.
    pub(super) fn take_due(&mut self, now: Now) -> Vec<(WindowId, u32)> {
        let mut due = Vec::new();
        for (window, pending) in &mut self.pending {
            if pending.due_at().is_some_and(|at| at <= now.mono) {
                pending.state = State::Starting;
                due.push((*window, pending.restart.number));
            }
        }
        due
    }

    /// Whether a restart was begun whose result no look has shown yet.
    pub(super) fn is_starting(&self, window: WindowId) -> bool {
        let pending = self.pending.get(&window);
        pending.is_some_and(|pending| pending.state == State::Starting)
    }

    /// Notes that a restart has started nothing: it is due again then.
    pub(super) fn put_off(&mut self, window: WindowId, until: Now) {
        if let Some(pending) = self.pending.get_mut(&window) {
            pending.due = until;
            pending.state = State::Pending;
        }
    }

    /// Notes that a task cannot be run again, and why.
    pub(super) fn give_up(&mut self, window: WindowId, why: String) {
        if let Some(pending) = self.pending.get_mut(&window) {
            pending.state = State::Impossible(why);
        }
    }

    /// Notes the launches that the look's tasks name. Returns them, and those that are gone, if that
    /// has changed or is the first look: an earlier daemon may have left environments of others.
    pub(super) fn note_kept(&mut self, look: &Snapshot) -> Option<EnvironmentCleanup> {
        let tasks = look.tasks.values();
        let present: BTreeSet<String> = tasks
            .filter_map(|task| Some(task.restarts.as_ref()?.token.clone()))
            .collect();
        if self.kept.as_ref() == Some(&present) {
            return None;
        }
        let before = self.kept.replace(present.clone()).unwrap_or_default();
        let gone = before.difference(&present).cloned().collect();
        Some(EnvironmentCleanup { present, gone })
    }
}

/// Returns how long it takes until a restart is due. The clock may have been set since the run ended.
fn still(task: &Task, restart: Restart, now: Now) -> Duration {
    let since = task.ended_at.map_or(0, |at| now.wall.saturating_sub(at));
    let since = Duration::from_millis(u64::try_from(since).unwrap_or(0));
    restart.after.saturating_sub(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::snapshot;

    #[test]
    fn the_first_look_and_each_change_say_which_environments_are_kept() {
        let mut restarts = PendingRestarts::default();
        let mut note = |look: &str| {
            let noted = restarts.note_kept(&snapshot(look));
            noted.map(|cleanup| (cleanup.present.len(), cleanup.gone.len()))
        };
        // An earlier daemon may have left some, also where no task has a policy.
        assert_eq!(note("@1 a running"), Some((0, 0)));
        assert_eq!(note("@1 a running"), None);
        assert_eq!(note("@1 a running restarts=5,1000,0"), Some((1, 0)));
        assert_eq!(note("@1 a dead 1 restarts=5,1000,0"), None);
        assert_eq!(note("missing"), Some((0, 1)));
    }
}
