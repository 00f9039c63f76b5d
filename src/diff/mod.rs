//! What changed between two snapshots: a plain function of both.
//!
//! Waiting for input is not decided here: it needs more than two snapshots and belongs to
//! [`crate::dedupe`].

mod apply;

pub use apply::apply;

use std::collections::BTreeMap;

use crate::model::{Event, EventKind, Exit, Life, ReplacedBy, Snapshot, Task, WindowId};

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
    if is_another_life(before, after) {
        let nothing = Snapshot::missing(before.session.clone(), after.captured_at);
        let mut events = between(&nothing, after);
        events.extend(disappeared(before, &nothing));
        return events;
    }
    between(before, after)
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

fn between(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    let mut runs: BTreeMap<WindowId, Vec<&Task>> = BTreeMap::new();
    for task in after.ended.iter().chain(after.tasks.values()) {
        runs.entry(task.window).or_default().push(task);
    }
    let mut events = Vec::new();
    for (window, runs) in &runs {
        let replaced = after.launcher_replaced.get(window).copied();
        let mut last = before.tasks.get(window);
        for run in runs {
            match last {
                None => newcomer(run, &mut events),
                Some(last) => successor(last, run, replaced, &mut events),
            }
            last = Some(run);
        }
    }
    events.extend(disappeared(before, after));
    events
}

/// A window that the look before did not have.
fn newcomer(task: &Task, events: &mut Vec<Event>) {
    if task.is_alive() {
        events.push(event(EventKind::Started { rerun: false }, task));
    }
    let bells = match task.bell_count {
        Some(count) => count,
        None => u64::from(task.bell),
    };
    rang(bells, task, events);
    if !task.is_alive() {
        events.push(event(EventKind::Exited { replaced: None }, task));
    }
}

/// What a window shows after it showed `last`.
fn successor(last: &Task, task: &Task, launcher_replaced: Option<u32>, events: &mut Vec<Event>) {
    let new_run = task.is_new_run_after(last);
    if new_run && last.is_alive() {
        events.push(replaced(last, task, launcher_replaced));
    }
    if new_run && task.is_alive() {
        events.push(event(EventKind::Started { rerun: true }, task));
    }
    rang(bells_between(last, task), task, events);
    if !task.is_alive() && (new_run || last.is_alive()) {
        events.push(event(EventKind::Exited { replaced: None }, task));
    }
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
        (None, None) => u64::from(task.bell && !last.bell),
        (before, Some(after)) => after.saturating_sub(before.unwrap_or(0)),
        (Some(_), None) => 0,
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
