//! How long the live runs usually take. That is found out once for each run, when it is first seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine;
use crate::model::{Body, EventKind, Millis, Task, WindowId};

/// How long runs usually take, by their windows.
#[derive(Debug, Default)]
pub(super) struct UsualDurations(BTreeMap<WindowId, (Option<u32>, Millis)>);

impl UsualDurations {
    /// Returns how long a task's present run usually takes, while it lives.
    pub(super) fn of(&self, task: &Task) -> Option<Millis> {
        let (run, millis) = self.0.get(&task.window)?;
        (task.is_alive() && *run == task.run).then_some(*millis)
    }

    /// Adds the duration of a task's present run. Only these tasks exist by now.
    pub(super) fn add(&mut self, task: &Task, millis: Millis, all: &BTreeMap<WindowId, Arc<Task>>) {
        self.0.insert(task.window, (task.run, millis));
        self.0.retain(|window, _| all.contains_key(window));
    }
}

/// Returns the windows whose runs have begun by these effects.
pub(super) fn begun_runs(effects: &[engine::EngineEffect]) -> Vec<WindowId> {
    let records = effects.iter().flat_map(|effect| match effect {
        engine::EngineEffect::Append(records) => records.as_slice(),
        engine::EngineEffect::Status(_) => &[],
    });
    let begun = records.filter_map(|record| match &record.body {
        Body::Event(event) if matches!(event.kind, EventKind::Started { .. }) => {
            Some(event.task.window)
        }
        Body::Event(_) | Body::Notice { .. } | Body::FollowUp { .. } => None,
    });
    begun.collect()
}
