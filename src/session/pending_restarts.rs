//! Which tasks are about to be run again because they failed, and when; and the ends of runs that were delivered
//! as notices because a restart follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::*;
use crate::rules::restarts::{Restart, restart_of};

/// The restarts that are due, now or later, and the ends that were delivered as notices because of them.
/// What decides is the look: a window whose run goes on, or that is gone, has none.
#[derive(Debug, Default)]
pub(super) struct PendingRestarts {
    pending: BTreeMap<WindowId, PendingRestart>,
    /// The ends whose restarts have not happened, to be delivered as failures if they never do.
    announced: BTreeMap<WindowId, DeliveredEvent>,
    /// The life of the session that their windows belong to.
    life: Option<SessionLife>,
    /// The launches that the tasks of the last look name; `None` before the first look.
    kept: Option<Tokens>,
}

type Tokens = BTreeSet<String>;

#[derive(Debug)]
struct PendingRestart {
    run: Option<u32>,
    restarts: TaskRestarts,
    restart: Restart,
    /// When it is run again. That has begun if this time is over.
    due: Now,
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
        let ends = ends.into_iter().filter(|_| before.is_some());
        Self {
            life: before.and_then(|before| before.life.clone()),
            announced: ends.map(|end| (end.event.task.window, end)).into_map(),
            ..Self::default()
        }
    }

    /// Notes the ends in a look, whose records these are. Returns those that no restart will follow although
    /// nobody has seen to that: the policy was removed, or the window or the pane is elsewhere. Whoever has closed
    /// a window, or run its task again, has seen the end.
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
                self.announced
                    .insert(event.task.window, DeliveredEvent { seq, event });
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
                // The clock may have been set since the run ended.
                let since = task.ended_at.map_or(0, |at| now.wall.saturating_sub(at));
                let since = Duration::from_millis(u64::try_from(since).unwrap_or(0));
                PendingRestart {
                    run: task.run,
                    restarts: restarts.clone(),
                    restart,
                    due: now.after(restart.after.saturating_sub(since)),
                    impossible: None,
                }
            });
            self.pending.insert(*window, pending);
        }
        planned
    }

    /// Returns the restart that is to be expected in a window.
    fn possible(&self, window: WindowId) -> Option<&PendingRestart> {
        let pending = self.pending.get(&window);
        pending.filter(|pending| pending.impossible.is_none())
    }

    /// Returns when this task is run again, by the last look, and which restart in a row that is.
    pub(super) fn due(&self, task: &Task) -> Option<(Instant, u32)> {
        let pending = self.possible(task.window)?;
        let is_of_it = pending.is_of(task);
        is_of_it.then_some((pending.due.mono, pending.restart.number))
    }

    pub(super) fn next(&self, window: WindowId, now: Now) -> Option<NextRestart> {
        let pending = self.possible(window)?;
        Some(NextRestart {
            in_ms: whole_millis(self.next_in(window, now)?),
            at: pending.due.wall,
            number: pending.restart.number,
            limit: pending.restart.limit,
        })
    }

    pub(super) fn next_in(&self, window: WindowId, now: Now) -> Option<Duration> {
        let due = self.possible(window)?.due.mono;
        Some(due.saturating_duration_since(now.mono))
    }

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
    pub(super) fn note_kept(&mut self, look: &Snapshot) -> Option<(Tokens, Tokens)> {
        let restarts = |task: &Arc<Task>| Some(task.settings.restarts.as_ref()?.token.clone());
        let present: Tokens = look.tasks.values().filter_map(restarts).collect();
        if self.kept.as_ref() == Some(&present) {
            return None;
        }
        let before = self.kept.replace(present.clone()).unwrap_or_default();
        let gone = before.difference(&present).cloned().collect();
        Some((present, gone))
    }
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
