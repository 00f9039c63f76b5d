//! What changed between two snapshots: a pure function of both, and its reverse.
//!
//! Waiting for input is not decided here. It needs more than two snapshots; see `input_episodes`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::*;

/// Returns the events between two looks at the same session, in the order in which they are
/// reported: tasks by window, within a task by run, disappearances last.
///
/// The caller handles the very first snapshot: it is the baseline, which has no events.
///
/// ```
/// use tmux_task::rules::diff::diff;
/// use tmux_task::model::Snapshot;
///
/// let look = Snapshot::missing("work", 0);
/// assert!(diff(&look, &look).is_empty());
/// ```
pub fn diff(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    if !is_another_life(before, after) {
        return between(before, after);
    }
    // The ids of the old life are no longer valid, but the exits of its runs may still be known.
    let ended: BTreeSet<_> = after.ended.iter().filter_map(process).into_set();
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
        asked_by: after.asked_by.clone(),
        ..Snapshot::default()
    };
    events.extend(disappeared(&old(unknown), &nothing));
    events
}

/// Whether the ids of the two snapshots are unrelated: another server, or another session of the
/// same name.
pub fn is_another_life(before: &Snapshot, after: &Snapshot) -> bool {
    match (&before.life, &after.life) {
        (Some(before), Some(after)) => before != after,
        (None, _) | (_, None) => false,
    }
}

#[derive(Clone, Copy)]
struct RunInSnapshot<'a> {
    task: &'a Task,
    /// Whether it is in [`Snapshot::ended`].
    ended: bool,
}

/// The last launch in a window that has replaced a live run.
#[derive(Clone, Copy)]
struct Launch<'a> {
    replaced: u32,
    /// For whom it was: the owner of the window's present run.
    owner: Option<&'a str>,
}

impl Launch<'_> {
    fn has_replaced(&self, run: &Task) -> bool {
        run.pid == Some(self.replaced)
    }

    /// Returns who has ended this run, as its owner is told.
    fn by(&self, run: &Task) -> ReplacedBy {
        match (run.owner.as_deref(), self.owner) {
            (Some(theirs), Some(owner)) if theirs != owner => ReplacedBy::OtherAgent,
            (Some(_) | None, Some(_) | None) => ReplacedBy::Launcher,
        }
    }
}

/// Returns the last launch in this window, if it has replaced a live run.
fn launcher_replaced(look: &Snapshot, window: WindowId) -> Option<Launch<'_>> {
    let replaced = *look.launcher_replaced.get(&window)?;
    let owner = look.tasks.get(&window)?.owner.as_deref();
    Some(Launch { replaced, owner })
}

fn between(before: &Snapshot, after: &Snapshot) -> Vec<Event> {
    let ended = after
        .ended
        .iter()
        .filter(|task| killed(before, after, task.window).is_none_or(|run| run.run != task.run))
        .map(|task| RunInSnapshot { task, ended: true });
    let ended_windows: BTreeSet<WindowId> = after.ended.iter().map(|ended| ended.window).into_set();
    let has_ended = |window| ended_windows.contains(&window);
    let present = beside(after, before).filter_map(|(task, last)| {
        let is_same = last.is_some_and(|last| Arc::ptr_eq(last, task)) && !has_ended(task.window);
        (!is_same).then_some(RunInSnapshot { task, ended: false })
    });
    let mut runs: BTreeMap<WindowId, Vec<RunInSnapshot<'_>>> = BTreeMap::new();
    for run in ended.chain(present) {
        runs.entry(run.task.window).or_default().push(run);
    }
    let mut events = Vec::new();
    for (window, runs) in &runs {
        let replaced = launcher_replaced(after, *window);
        let mut last = before
            .tasks
            .get(window)
            .map(|task| RunInSnapshot { task, ended: false });
        for run in runs {
            match last {
                None => newcomer(*run, replaced, &mut events),
                // It was reported before the last one.
                Some(last) if run.ended && is_earlier(run.task, last.task) => continue,
                Some(last) => successor(last, *run, replaced, &mut events),
            }
            last = Some(*run);
        }
    }
    events.extend(disappeared(before, after));
    events
}

/// Returns each task of a snapshot with the other snapshot's task of that window. Both are in the
/// order of windows, so it costs less than to look each of them up.
fn beside<'a>(
    snapshot: &'a Snapshot,
    other: &'a Snapshot,
) -> impl Iterator<Item = (&'a Arc<Task>, Option<&'a Arc<Task>>)> {
    let mut others = other.tasks.iter().peekable();
    snapshot.tasks.iter().map(move |(window, task)| {
        while others.next_if(|(other, _)| *other < window).is_some() {}
        let same = others.next_if(|(other, _)| *other == window);
        (task, same.map(|(_, other)| other))
    })
}

/// Whether this run is older than another one of its window.
fn is_earlier(task: &Task, last: &Task) -> bool {
    matches!((task.run, last.run), (Some(run), Some(last)) if run < last)
}

/// Identifies a process of a task; `None` where its pid is not known.
fn process(task: &Task) -> Option<(WindowId, Option<u32>, u32)> {
    Some((task.window, task.run, task.pid?))
}

/// Whether `run` is another run than `last`. Without run numbers, what a look lists separately
/// counts as separate: a run that ended since the previous look is neither one that was dead then
/// nor the present one.
fn is_new_run(last: RunInSnapshot<'_>, run: RunInSnapshot<'_>) -> bool {
    if last.task.run.is_some() && run.task.run.is_some() {
        return run.task.is_new_run_after(last.task);
    }
    let is_other_run = last.ended || (run.ended && !last.task.is_alive());
    let is_same_process =
        process(last.task).is_some_and(|before| process(run.task) == Some(before));
    run.task.is_new_run_after(last.task) || (is_other_run && !is_same_process)
}

/// Adds the events of a window that the previous look did not have.
fn newcomer(run: RunInSnapshot<'_>, launch: Option<Launch<'_>>, events: &mut Vec<Event>) {
    let task = run.task;
    if task.is_alive() && !task.queued {
        events.push(event(EventKind::Started { rerun: false }, task));
    }
    // The flag may be set before the counter has counted.
    let bells = task.bell_count.unwrap_or(0).max(u64::from(task.bell));
    rang(bells, task, events);
    if !task.is_alive() {
        events.push(exited(run, launch));
    }
}

/// Adds the events of a window whose last known run was `last`.
fn successor(
    last: RunInSnapshot<'_>,
    run: RunInSnapshot<'_>,
    launch: Option<Launch<'_>>,
    events: &mut Vec<Event>,
) {
    let (before, task) = (last.task, run.task);
    let new_run = is_new_run(last, run);
    // One that was queued has not begun.
    if new_run && before.is_alive() && !before.queued {
        events.push(replaced(before, task, launch));
    }
    if (new_run || before.queued) && task.is_alive() && !task.queued {
        let rerun = new_run || task.run.is_some_and(|run| run > 1);
        events.push(event(EventKind::Started { rerun }, task));
    }
    rang(bells_between(before, task), task, events);
    if !task.is_alive() && (new_run || before.is_alive()) {
        events.push(exited(run, launch));
    }
}

/// The event for a run whose exit is known. If the launcher ended it, it was replaced.
fn exited(run: RunInSnapshot<'_>, launch: Option<Launch<'_>>) -> Event {
    let launch = launch.filter(|launch| run.ended && launch.has_replaced(run.task));
    let replaced = launch.map(|launch| launch.by(run.task));
    event(EventKind::Exited { replaced }, run.task)
}

/// The event for a live run of which only its successor is known.
fn replaced(last: &Task, task: &Task, launch: Option<Launch<'_>>) -> Event {
    let launch = launch.filter(|launch| launch.has_replaced(last));
    let by = launch.map_or(ReplacedBy::Other, |launch| launch.by(last));
    let mut ended = last.clone();
    ended.life = Life::Dead(Exit::default());
    ended.ended_at = task.started_at.or(last.ended_at);
    event(EventKind::Exited { replaced: Some(by) }, &ended)
}

/// Returns the number of bells. The counter is exact; the flag only says that it rang at all.
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
    beside(before, after)
        .filter_map(|(task, now)| (task.is_alive() && now.is_none()).then_some(task))
        // A run whose exit is known is reported as exited only.
        .filter(|task| {
            let is_told = after.ended.iter().any(|ended| ended.window == task.window);
            !is_told || killed(before, after, task.window).is_some()
        })
        .map(|task| {
            let reason = after.gone.get(&task.window).copied();
            let task = killed(before, after, task.window).unwrap_or(task);
            let mut event = event(EventKind::Disappeared { reason }, task);
            event.task.asked_by = after.asked_by.get(&event.task.window).cloned();
            event
        })
        .collect()
}

/// Returns the live run of this window that was ended on purpose, with its window, as it was at its
/// end: its end and its disappearance are one event.
fn killed<'a>(before: &Snapshot, after: &'a Snapshot, window: WindowId) -> Option<&'a Task> {
    let reason = after.gone.get(&window).filter(|reason| reason.is_end());
    let last = before.tasks.get(&window).filter(|task| task.is_alive());
    let (_, last) = reason.zip(last)?;
    // A later run was ended with the window, and this one has ended before.
    let mut runs = after.ended.iter().rev();
    let run = runs.find(|run| run.window == window)?;
    (run.run == last.run && !after.tasks.contains_key(&window)).then_some(run)
}

fn event(kind: EventKind, task: &Task) -> Event {
    Event {
        kind,
        task: task.clone(),
    }
}

#[cfg(test)]
mod tests;

/// Updates `snapshot` with an event that happened after it.
///
/// Windows that went without an event (dead ones) stay. That is harmless, because their absence
/// from the next look is no event either.
///
/// ```
/// use tmux_task::rules::diff::{apply, diff};
/// use tmux_task::model::Snapshot;
///
/// let (mut saved, later) = (Snapshot::missing("work", 0), Snapshot::missing("work", 1));
/// for event in diff(&saved, &later) {
///     apply(&mut saved, &event);
/// }
/// assert!(diff(&saved, &later).is_empty());
/// ```
pub fn apply(snapshot: &mut Snapshot, event: &Event) {
    let task = &event.task;
    let in_place = snapshot.tasks.get(&task.window);
    if matches!(event.kind, EventKind::Disappeared { .. }) {
        if in_place.is_some_and(|in_place| is_same_run(task, in_place)) {
            snapshot.tasks.remove(&task.window);
        }
    } else if !in_place.is_some_and(|in_place| is_earlier(task, in_place)) {
        // Events read from the feed have no pid. That of a dead task may belong to an earlier life of
        // the server, because its end produced no event.
        let goes_on = |in_place: &&Arc<Task>| {
            in_place.is_alive()
                && is_same_run(task, in_place)
                && !matches!(event.kind, EventKind::Started { .. })
        };
        let known = in_place.filter(goes_on);
        let pid = task.pid.or(known.and_then(|known| known.pid));
        let task = Task {
            pid,
            ..task.clone()
        };
        snapshot.tasks.insert(task.window, Arc::new(task));
        snapshot.exists = true;
    }
}

/// Known fields must agree: another life of the server starts its ids and run numbers from the
/// beginning.
fn is_same_run(task: &Task, in_place: &Task) -> bool {
    let agree = |one: Option<u32>, other: Option<u32>| match (one, other) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => true,
    };
    agree(task.run, in_place.run) && agree(task.pid, in_place.pid)
}
