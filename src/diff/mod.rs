//! What changed between two snapshots: a plain function of both.
//!
//! Waiting for input is not decided here: it needs more than two snapshots and belongs to
//! [`crate::input_episodes`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Event, EventKind, Exit, Life, ReplacedBy, Snapshot, Task, WindowId};

mod apply;

pub use apply::apply;

/// Returns the events between two looks at the same session, in the order in which they are told:
/// tasks by window, within a task by run, disappearances last.
///
/// The caller decides what the first snapshot ever seen means (nothing: it is the baseline).
///
/// ```
/// use tmux_task::diff::diff;
/// use tmux_task::model::Snapshot;
///
/// let look = Snapshot::missing("work", 0);
/// assert!(diff(&look, &look).is_empty());
/// ```
#[must_use]
pub fn diff(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    if !is_another_life(before, after) {
        return between(before, after);
    }
    // The ids of the old life mean nothing now, but how its runs ended may be known all the same.
    let ended: BTreeSet<_> = after.ended.iter().filter_map(process).collect();
    let has_ended = |task: &Task| process(task).is_some_and(|process| ended.contains(&process));
    let (known, unknown) = before
        .tasks
        .clone()
        .into_iter()
        .partition(|(_, task)| has_ended(task));
    let old = |tasks| Snapshot {
        tasks,
        ..Snapshot::default()
    };
    let mut events = between(&old(known), after);
    let nothing = Snapshot {
        gone: after.gone.clone(),
        ..Snapshot::default()
    };
    events.extend(disappeared(&old(unknown), &nothing));
    events
}

/// Whether the ids of the two snapshots have nothing to do with each other: another server, or
/// another session of the same name.
#[must_use]
pub fn is_another_life(before: &Snapshot, after: &Snapshot) -> bool {
    match (&before.life, &after.life) {
        (Some(before), Some(after)) => before != after,
        (None, _) | (_, None) => false,
    }
}

/// A run of a window that `after` tells of.
#[derive(Clone, Copy)]
struct Seen<'a> {
    task: &'a Task,
    /// Whether it is one of [`Snapshot::ended`].
    ended: bool,
}

fn between(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    let ended = after.ended.iter().map(|task| Seen { task, ended: true });
    let ended_windows: BTreeSet<WindowId> = after.ended.iter().map(|ended| ended.window).collect();
    let has_ended = |window| ended_windows.contains(&window);
    let is_same = |task: &Arc<Task>| {
        let last = before.tasks.get(&task.window);
        last.is_some_and(|last| Arc::ptr_eq(last, task)) && !has_ended(task.window)
    };
    let present = after.tasks.values().filter(|task| !is_same(task));
    let present = present.map(|task| Seen { task, ended: false });
    let mut runs: BTreeMap<WindowId, Vec<Seen<'_>>> = BTreeMap::new();
    for seen in ended.chain(present) {
        runs.entry(seen.task.window).or_default().push(seen);
    }
    let mut events = Vec::new();
    for (window, runs) in &runs {
        let replaced = after.launcher_replaced.get(window).copied();
        let mut last = before
            .tasks
            .get(window)
            .map(|task| Seen { task, ended: false });
        for run in runs {
            match last {
                None => newcomer(*run, replaced, &mut events),
                Some(last) if run.ended && is_earlier(run.task, last.task) => continue,
                Some(last) => successor(last, *run, replaced, &mut events),
            }
            last = Some(*run);
        }
    }
    events.extend(disappeared(before, after));
    events
}

/// Whether this is a run before the one that was seen last: it was told then.
fn is_earlier(task: &Task, last: &Task) -> bool {
    matches!((task.run, last.run), (Some(run), Some(last)) if run < last)
}

/// What tells a process of a task from others, where it is known.
fn process(task: &Task) -> Option<(WindowId, Option<u32>, u32)> {
    Some((task.window, task.run, task.pid?))
}

fn is_same_process(one: &Task, other: &Task) -> bool {
    process(one).is_some() && process(one) == process(other)
}

/// Whether `seen` is another run than `last`. Where nobody counted, what a look tells apart is
/// told apart: a run that ended since the look before is neither one that was dead then nor the
/// present one.
fn is_new_run(last: Seen<'_>, seen: Seen<'_>) -> bool {
    if last.task.run.is_some() && seen.task.run.is_some() {
        return seen.task.is_new_run_after(last.task);
    }
    let told_apart = last.ended || (seen.ended && !last.task.is_alive());
    seen.task.is_new_run_after(last.task) || (told_apart && !is_same_process(last.task, seen.task))
}

/// A window that the look before did not have.
fn newcomer(seen: Seen<'_>, launcher_replaced: Option<u32>, events: &mut Vec<Event>) {
    let task = seen.task;
    if task.is_alive() {
        events.push(event(EventKind::Started { rerun: false }, task));
    }
    // The flag may be on before the counter has counted.
    let bells = task.bell_count.unwrap_or(0).max(u64::from(task.bell));
    rang(bells, task, events);
    if !task.is_alive() {
        events.push(exited(seen, launcher_replaced));
    }
}

/// What a window shows after it showed `last`.
fn successor(
    last: Seen<'_>,
    seen: Seen<'_>,
    launcher_replaced: Option<u32>,
    events: &mut Vec<Event>,
) {
    let (before, task) = (last.task, seen.task);
    let new_run = is_new_run(last, seen);
    if new_run && before.is_alive() {
        events.push(replaced(before, task, launcher_replaced));
    }
    if new_run && task.is_alive() {
        events.push(event(EventKind::Started { rerun: true }, task));
    }
    rang(bells_between(before, task), task, events);
    if !task.is_alive() && (new_run || before.is_alive()) {
        events.push(exited(seen, launcher_replaced));
    }
}

/// The end of a run that is known: a run that the launcher ended did not end by itself.
fn exited(seen: Seen<'_>, launcher_replaced: Option<u32>) -> Event {
    let by_launcher = seen.ended && seen.task.pid.is_some() && seen.task.pid == launcher_replaced;
    let replaced = by_launcher.then_some(ReplacedBy::Launcher);
    event(EventKind::Exited { replaced }, seen.task)
}

/// The end of a live run of which only the run that took its place is known.
fn replaced(last: &Task, task: &Task, launcher_replaced: Option<u32>) -> Event {
    let by_launcher = last.pid.is_some() && last.pid == launcher_replaced;
    let by = if by_launcher {
        ReplacedBy::Launcher
    } else {
        ReplacedBy::Other
    };
    let mut ended = last.clone();
    ended.life = Life::Dead(Exit::default());
    ended.ended_at = task.started_at.or(last.ended_at);
    event(EventKind::Exited { replaced: Some(by) }, &ended)
}

/// The counter tells exactly; without one the flag tells only that it rang at all.
fn bells_between(last: &Task, task: &Task) -> u64 {
    match (last.bell_count, task.bell_count) {
        (before, Some(after)) => after.saturating_sub(before.unwrap_or(0)),
        (Some(_) | None, None) => u64::from(task.bell && !last.bell),
    }
}

fn rang(bells: u64, task: &Task, events: &mut Vec<Event>) {
    if bells > 0 {
        events.push(event(EventKind::Notify { bells }, task));
    }
}

fn disappeared(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    before
        .tasks
        .values()
        .filter(|task| task.is_alive())
        .filter(|task| !after.tasks.contains_key(&task.window))
        // A run whose end is known has exited, and nothing else.
        .filter(|task| !after.ended.iter().any(|ended| ended.window == task.window))
        .map(|task| {
            let reason = after.gone.get(&task.window).copied();
            event(EventKind::Disappeared { reason }, task)
        })
        .collect()
}

fn event(kind: EventKind, task: &Task) -> Event {
    Event {
        kind,
        task: task.clone(),
    }
}

#[cfg(test)]
mod tests;
