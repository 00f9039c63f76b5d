//! How much processor time and memory the processes below some processes use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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

/// One process, by its line in `/proc`.
#[derive(Debug, Clone, Copy)]
struct ProcessUsage {
    parent: u32,
    ticks: u64,
    pages: u64,
}

/// Returns the use of each of these processes and its descendants; nothing for those that are gone,
/// or where the system does not report it (only Linux does). All of `/proc` is read once.
#[must_use]
pub(crate) fn tree_usage(roots: &[u32]) -> BTreeMap<u32, TreeUsage> {
    if roots.is_empty() {
        return BTreeMap::new();
    }
    let Ok(entries) = fs::read_dir(PROC) else {
        return BTreeMap::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: BTreeMap<u32, ProcessUsage> = pids
        .filter_map(|pid: u32| Some((pid, used(pid)?)))
        .into_map();
    let page = u64::try_from(rustix::param::page_size()).unwrap_or_default();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let usage = |(ticks, pages): (u64, u64)| TreeUsage {
        cpu: Duration::from_millis(ticks.saturating_mul(1000) / per_second),
        memory: pages.saturating_mul(page),
    };
    sums(&processes, roots)
        .into_iter()
        .map(|(pid, sum)| (pid, usage(sum)))
        .into_map()
}

/// Returns the sums of ticks and pages by root.
fn sums(processes: &BTreeMap<u32, ProcessUsage>, roots: &[u32]) -> BTreeMap<u32, (u64, u64)> {
    let mut sums: BTreeMap<u32, (u64, u64)> = roots
        .iter()
        .filter(|pid| processes.contains_key(pid))
        .map(|pid| (*pid, (0, 0)))
        .into_map();
    let above = |pid: &u32| Some(processes.get(pid)?.parent);
    for (pid, process) in processes {
        // The table is not of one instant, so it may contain a circle.
        let mut seen = BTreeSet::new();
        let line = std::iter::successors(Some(*pid), above);
        for ancestor in line.take_while(|ancestor| seen.insert(*ancestor)) {
            if let Some((ticks, pages)) = sums.get_mut(&ancestor) {
                *ticks = ticks.saturating_add(process.ticks);
                *pages = pages.saturating_add(process.pages);
            }
        }
    }
    sums
}

fn used(pid: u32) -> Option<ProcessUsage> {
    let stat = stat::read(pid)?;
    // 14 to 17: user and system time, and those of children that were waited for.
    let ticks = (14..=17)
        .filter_map(|field| stat.number::<u64>(field))
        .sum();
    Some(ProcessUsage {
        parent: stat.number(4)?,
        ticks,
        pages: stat.number(24).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_count_for_each_of_their_ancestors_that_is_asked_for() {
        let processes = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1)];
        let processes = processes.map(|(pid, parent)| {
            let used = ProcessUsage {
                parent,
                ticks: 1,
                pages: u64::from(pid),
            };
            (pid, used)
        });
        let found = sums(&BTreeMap::from(processes), &[10, 11, 20, 99]);
        let expected = [(10, (3, 33)), (11, (2, 23)), (20, (1, 20))];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn a_circle_ends() {
        let used = |parent| ProcessUsage {
            parent,
            ticks: 1,
            pages: 1,
        };
        let processes = BTreeMap::from([(5, used(6)), (6, used(5))]);
        assert_eq!(sums(&processes, &[7]), BTreeMap::new());
    }

    #[cfg(linux)]
    #[test]
    fn our_own_memory_is_known() {
        let pid = std::process::id();
        assert!(tree_usage(&[pid])[&pid].memory > 0);
    }
}
