//! Which tasks are about to be run again because they failed, and when; the jobs for that; and the ends of
//! runs that were delivered as notices because a restart follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{
    Body, DeliveredEvent, EventKind, GoneReason, NextRestart, Now, Ordered as _, Record,
    SessionLife, Snapshot, Task, TaskRestarts, WindowId, whole_millis,
};
use crate::rules::restarts::{Restart, restart_of};

/// The restarts that are due, now or later, and the ends that were delivered as notices because of them.
/// What decides is the look: a window whose run goes on, or that is gone, has none.
#[derive(Debug, Default)]
pub(super) struct PendingRestarts {
    pending: BTreeMap<WindowId, PendingRestart>,
    /// The ends whose restarts have not happened. If one never happens, the end is to be delivered as a
    /// failure.
    announced: BTreeMap<WindowId, DeliveredEvent>,
    /// The life of the session that their windows belong to.
    life: Option<SessionLife>,
    /// The launches that the tasks of the last look name; `None` before the first look.
    kept: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct PendingRestart {
    /// The run that has failed.
    run: Option<u32>,
    restarts: TaskRestarts,
    restart: Restart,
    /// When it is run again. That has begun if this time is over.
    due: Now,
    /// Why it cannot be run again.
    impossible: Option<String>,
}

impl PendingRestart {
    fn is_of(&self, task: &Task) -> bool {
        (self.run, Some(&self.restarts)) == (task.run, task.settings.restarts.as_ref())
    }
}

impl PendingRestarts {
    /// Returns those of a session whose last known look is `before`, in which earlier daemons have announced
    /// restarts after these ends. Without a look nothing is known of the windows.
    pub(super) fn new(before: Option<&Snapshot>, ends: Vec<DeliveredEvent>) -> Self {
        let Some(before) = before else {
            return Self::default();
        };
        let ends = ends.into_iter().map(|end| (end.event.task.window, end));
        Self {
            life: before.life.clone(),
            announced: ends.into_map(),
            ..Self::default()
        }
    }

    /// Notes the ends in a look, whose records these are. Returns those that no restart will follow although
    /// nobody has seen to that: the policy was removed, or the window or the pane is elsewhere. A window that
    /// is closed, or that shows another run, has nothing to deliver: whoever ended it or ran it again has seen
    /// it.
    pub(super) fn look(&mut self, look: &Snapshot, records: &[Record]) -> Vec<PreventedRestart> {
        // A session that is missing may have lost its last window to another one.
        if self.life != look.life && look.life.is_some() {
            self.life.clone_from(&look.life);
            self.announced.clear();
        }
        for record in records {
            if let Body::Event(event) = &record.body
                && let EventKind::Exited { replaced: None } = event.kind
                && restart_of(&event.task).is_some()
            {
                let (seq, event) = (record.seq, (**event).clone());
                let window = event.task.window;
                self.announced.insert(window, DeliveredEvent { seq, event });
            }
        }
        let mut prevented = Vec::new();
        self.announced.retain(|window, end| {
            let ended = &end.event.task;
            let why = match look.tasks.get(window) {
                None if look.gone.get(window) == Some(&GoneReason::Moved) => {
                    Some("its window was moved to another session")
                }
                None => return false,
                Some(task) if task.run != ended.run => return false,
                // Another pane is the window's primary one now.
                Some(task) if task.run.is_some() && task.pane != ended.pane => {
                    Some("its pane was moved out of its window")
                }
                Some(task) if task.is_alive() => return false,
                Some(task) if restart_of(task).is_some() => return true,
                Some(_) => None,
            };
            prevented.push((end.clone(), why));
            false
        });
        prevented
    }

    /// Plans the restarts that follow from a look. Returns the tasks for which none was planned before.
    pub(super) fn plan(&mut self, look: &Snapshot, now: Now) -> Vec<Arc<Task>> {
        let mut before = std::mem::take(&mut self.pending);
        let mut planned = Vec::new();
        for (window, task) in &look.tasks {
            let (Some(restart), Some(restarts)) = (restart_of(task), &task.settings.restarts)
            else {
                continue;
            };
            let known = before.remove(window).filter(|known| known.is_of(task));
            let pending = known.unwrap_or_else(|| {
                planned.push(Arc::clone(task));
                PendingRestart {
                    run: task.run,
                    restarts: restarts.clone(),
                    restart,
                    due: now.after(still(task, restart, now)),
                    impossible: None,
                }
            });
            self.pending.insert(*window, pending);
        }
        planned
    }

    /// Returns when this task is run again, and which restart in a row that is; `None` if it is not, by
    /// the last look.
    pub(super) fn due(&self, task: &Task) -> Option<(Instant, u32)> {
        let pending = self.pending.get(&task.window)?;
        let is_wanted = pending.impossible.is_none() && pending.is_of(task);
        is_wanted.then_some((pending.due.mono, pending.restart.number))
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
        let still = pending.due.mono.saturating_duration_since(now.mono);
        pending.impossible.is_none().then_some(still)
    }

    /// Returns why a task whose run has failed cannot be run again.
    pub(super) fn why_impossible(&self, window: WindowId) -> Option<String> {
        self.pending.get(&window)?.impossible.clone()
    }

    /// Notes that a restart has started nothing: it is due again then.
    pub(super) fn put_off(&mut self, window: WindowId, until: Now) {
        if let Some(pending) = self.pending.get_mut(&window) {
            pending.due = until;
        }
    }

    /// Notes that a task cannot be run again, and why. Returns its end if a restart was announced.
    pub(super) fn give_up(&mut self, window: WindowId, why: String) -> Option<DeliveredEvent> {
        if let Some(pending) = self.pending.get_mut(&window) {
            pending.impossible = Some(why);
        }
        self.announced.remove(&window)
    }

    /// Notes the launches that the look's tasks name. If that has changed, or this is the first look, after
    /// which an earlier daemon may have left environments of others, returns them by their tokens, and those
    /// that a task named in an earlier look and none names any more.
    pub(super) fn note_kept(
        &mut self,
        look: &Snapshot,
    ) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        let tasks = look.tasks.values();
        let present: BTreeSet<String> = tasks
            .filter_map(|task| Some(task.settings.restarts.as_ref()?.token.clone()))
            .collect();
        if self.kept.as_ref() == Some(&present) {
            return None;
        }
        let before = self.kept.replace(present.clone()).unwrap_or_default();
        let gone = before.difference(&present).cloned().collect();
        Some((present, gone))
    }
}

/// Returns how long it takes until a restart is due. The clock may have been set since the run ended.
fn still(task: &Task, restart: Restart, now: Now) -> Duration {
    let since = task.ended_at.map_or(0, |at| now.wall.saturating_sub(at));
    let since = Duration::from_millis(u64::try_from(since).unwrap_or(0));
    restart.after.saturating_sub(since)
}

/// The end of a run whose restart was announced, and will not happen; with why, where the user cannot know:
/// not where the policy was removed.
pub(super) type PreventedRestart = (DeliveredEvent, Option<&'static str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::snapshot;

    #[test]
    fn the_first_look_and_each_change_say_which_environments_are_kept() {
        let mut restarts = PendingRestarts::default();
        let mut note = |look: &str| {
            let noted = restarts.note_kept(&snapshot(look));
            noted.map(|(present, gone)| (present.len(), gone.len()))
        };
        // An earlier daemon may have left some, also where no task has a policy.
        assert_eq!(note("@1 a running"), Some((0, 0)));
        assert_eq!(note("@1 a running"), None);
        assert_eq!(note("@1 a running restarts=5,1000,0"), Some((1, 0)));
        assert_eq!(note("@1 a dead 1 restarts=5,1000,0"), None);
        assert_eq!(note("missing"), Some((0, 1)));
    }
}
