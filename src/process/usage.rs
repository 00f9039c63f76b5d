//! How much processor time and memory the processes below some processes use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::stat;
use crate::files::PROC;
use crate::model::Ordered as _;

/// What a process and its descendants have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TreeUsage {
    /// Processor time of the living processes and of the children that they have waited for.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes. Pages that processes share count for each of them.
    pub(crate) memory: u64,
}

/// Returns the use of each of these processes and its descendants; nothing for those that are gone,
/// or where the system does not report it (only Linux does). All of `/proc` is read once.
pub(crate) fn tree_usage(roots: &[u32]) -> BTreeMap<u32, TreeUsage> {
    if roots.is_empty() {
        return BTreeMap::new();
    }
    sums(&stat::numbers_in(PROC).filter_map(used).into_map(), roots)
}

/// Returns the sums by root, of processes with their parents.
fn sums(processes: &BTreeMap<u32, (u32, TreeUsage)>, roots: &[u32]) -> BTreeMap<u32, TreeUsage> {
    let mut sums = roots
        .iter()
        .filter(|pid| processes.contains_key(pid))
        .map(|pid| (*pid, TreeUsage::default()))
        .into_map();
    let above = |pid: &u32| Some(processes.get(pid)?.0);
    for (pid, (_, used)) in processes {
        // The table is not of one instant, so it may contain a circle.
        let mut seen = BTreeSet::new();
        let line = std::iter::successors(Some(*pid), above);
        for ancestor in line.take_while(|ancestor| seen.insert(*ancestor)) {
            if let Some(sum) = sums.get_mut(&ancestor) {
                sum.cpu = sum.cpu.saturating_add(used.cpu);
                sum.memory = sum.memory.saturating_add(used.memory);
            }
        }
    }
    sums
}

/// Returns a process with its parent, and what it has used by itself.
fn used(pid: u32) -> Option<(u32, (u32, TreeUsage))> {
    let stat = stat::read(pid)?;
    // 14 to 17: user and system time, and those of children that were waited for.
    let ticks: u64 = (14..=17)
        .filter_map(|field| stat.number::<u64>(field))
        .sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let pages: u64 = stat.number(24).unwrap_or_default();
    let page = u64::try_from(rustix::param::page_size()).unwrap_or_default();
    let used = TreeUsage {
        cpu: Duration::from_millis(ticks.saturating_mul(1000) / per_second),
        memory: pages.saturating_mul(page),
    };
    Some((pid, (stat.number(4)?, used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_count_for_each_of_their_ancestors_that_is_asked_for() {
        let used = |millis, memory| TreeUsage {
            cpu: Duration::from_millis(millis),
            memory,
        };
        let processes = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1)];
        let processes = processes.map(|(pid, parent)| (pid, (parent, used(1, u64::from(pid)))));
        let found = sums(&BTreeMap::from(processes), &[10, 11, 20, 99]);
        let expected = [(10, used(3, 33)), (11, used(2, 23)), (20, used(1, 20))];
        assert_eq!(found, BTreeMap::from(expected));
        // A circle ends.
        let circle = [(5, (6, used(1, 1))), (6, (5, used(1, 1)))];
        assert_eq!(sums(&BTreeMap::from(circle), &[7]), BTreeMap::new());
    }

    #[cfg(linux)]
    #[test]
    fn our_own_memory_is_known() {
        let pid = std::process::id();
        assert!(tree_usage(&[pid])[&pid].memory > 0);
    }
}
