//! When it is read what the tasks use, and what is shown of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;
use crate::faces::panel::board::Usage;
use crate::ops::TreeUsage;

/// What a process has used, in milliseconds and bytes.
fn used(cpu: u64, memory: u64) -> TreeUsage {
    let cpu = Duration::from_millis(cpu);
    TreeUsage { cpu, memory }
}

/// Lets the state have its second, this many milliseconds after `began`. Returns the pids that are
/// read; every one of them has used this.
fn second(state: &mut PanelState, began: Instant, at: u64, each: TreeUsage) -> Option<Vec<u32>> {
    let mut read = None;
    state.on_second(began + Duration::from_millis(at), |pids| {
        read = Some(pids.to_vec());
        let used = pids.iter().map(|pid| (*pid, each)).collect();
        (used, BTreeMap::new())
    });
    read
}

fn usage(cpu: Option<u64>, memory: u64) -> Option<Usage> {
    Some(Usage { cpu, memory })
}

#[test]
fn usage_is_read_every_two_seconds_and_sooner_for_a_task_that_is_new() {
    let tasks = vec![listed(running(5, "server")), listed(ended(70, "lint", 0))];
    let mut state = state_with((80, 24), tasks);
    let began = Instant::now();
    let read = |state: &mut PanelState, at| second(state, began, at, used(0, 1));
    // None was read yet. What has ended uses nothing.
    assert_eq!(read(&mut state, 1000), Some(vec![1005]));
    assert_eq!(read(&mut state, 2000), None);
    assert_eq!(read(&mut state, 3000), Some(vec![1005]));
    let later = vec![listed(running(6, "later"))];
    change(&mut state, later, &[]);
    assert_eq!(read(&mut state, 4000), Some(vec![1005, 1006]));
    assert_eq!(read(&mut state, 5000), None);
    assert_eq!(read(&mut state, 6000), Some(vec![1005, 1006]));
}

#[test]
fn only_tasks_that_are_shown_are_read() {
    let tasks = (1..=50).map(|number| listed(running(number, "task")));
    let mut state = state_with((80, 10), tasks.collect());
    let shown = state.visible().len();
    assert!(shown < 50);
    let began = Instant::now();
    let read = second(&mut state, began, 1000, used(0, 1)).unwrap();
    assert_eq!(read.len(), shown);
}

#[test]
fn processor_time_is_what_was_used_between_two_samples() {
    let mut state = state_with((80, 24), vec![listed(running(5, "server"))]);
    let began = Instant::now();
    second(&mut state, began, 1000, used(10_000, 4096));
    assert_eq!(state.usage.get(&1005).copied(), usage(None, 4096));
    second(&mut state, began, 3000, used(10_500, 8192));
    assert_eq!(state.usage.get(&1005).copied(), usage(Some(25), 8192));
    // A process that is gone uses nothing.
    state.on_second(began + Duration::from_secs(5), |_| {
        (BTreeMap::new(), BTreeMap::new())
    });
    assert!(state.usage.is_empty());
}
