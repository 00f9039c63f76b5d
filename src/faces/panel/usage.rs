//! What the tasks' processes use: when to read it, and what two readings say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::board::TaskKey;
use crate::model::Ordered as _;
use crate::ops::TreeUsage;

/// How often processor time and memory of the tasks that are shown are read.
const SAMPLE: Duration = Duration::from_secs(2);

/// The same when one of them was not in the last sample.
const NEW_SAMPLE: Duration = Duration::from_millis(500);

/// What a task's processes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// Percent of one processor, once it was measured twice.
    pub(super) cpu: Option<u64>,
    /// Bytes.
    pub(super) memory: u64,
}

/// A sample to take.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SampleOrder {
    /// The tasks with their first process.
    pub(super) tasks: Vec<(TaskKey, u32)>,
    now: Instant,
}

/// The last sample.
#[derive(Debug, Default)]
pub(super) struct LastSample {
    /// What was used, by pid.
    used: BTreeMap<u32, TreeUsage>,
    /// When it was taken, or when one was first thought of; `None` before that.
    at: Option<Instant>,
}

impl LastSample {
    /// Returns the sample to take of these tasks, if it is time to.
    pub(super) fn order(
        &mut self,
        tasks: Vec<(TaskKey, u32)>,
        now: Instant,
    ) -> Option<SampleOrder> {
        let passed = now.saturating_duration_since(*self.at.get_or_insert(now));
        let is_new = tasks.iter().any(|(_, pid)| !self.used.contains_key(pid));
        let pause = if is_new { NEW_SAMPLE } else { SAMPLE };
        (passed >= pause).then_some(SampleOrder { tasks, now })
    }

    /// Takes what was read for an order, by pid, and returns what the tasks use. One whose process
    /// is gone is left out.
    pub(super) fn take(
        &mut self,
        order: SampleOrder,
        used: BTreeMap<u32, TreeUsage>,
    ) -> BTreeMap<TaskKey, Usage> {
        let SampleOrder { tasks, now } = order;
        let passed = now.saturating_duration_since(self.at.unwrap_or(now));
        let usage = tasks.into_iter().filter_map(|(key, pid)| {
            let now = used.get(&pid)?;
            let before = self.used.get(&pid);
            let cpu = before.map(|before| percent(*before, *now, passed));
            let memory = now.memory;
            Some((key, Usage { cpu, memory }))
        });
        let usage = usage.into_map();
        self.used = used;
        self.at = Some(now);
        usage
    }
}

/// Returns how much of one processor was used between two samples, in percent.
fn percent(before: TreeUsage, now: TreeUsage, passed: Duration) -> u64 {
    let used = now.cpu.saturating_sub(before.cpu).as_millis();
    let passed = passed.as_millis().max(1);
    u64::try_from(used * 100 / passed).unwrap_or(u64::MAX)
}
