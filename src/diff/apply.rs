//! The reverse of a diff: applies an event to a snapshot.

use std::sync::Arc;

use crate::model::{Event, EventKind, Snapshot, Task};

/// Updates `snapshot` with an event that happened after it.
///
/// Windows that went without an event (dead ones) stay. That is harmless, because their absence
/// from the next look is no event either.
///
/// ```
/// use tmux_task::diff::{apply, diff};
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
    } else if !in_place.is_some_and(|in_place| is_older_run(task, in_place)) {
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

fn is_older_run(task: &Task, in_place: &Task) -> bool {
    matches!((task.run, in_place.run), (Some(run), Some(in_place)) if run < in_place)
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
