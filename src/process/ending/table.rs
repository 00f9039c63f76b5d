//! The system's table of processes, from `/proc`.

use std::fs;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Resource, getrlimit, prlimit};
use rustix::time::{ClockId, clock_gettime};

use super::super::stat;
use super::members::{ProcessRow, SignalMasks};

/// Returns all processes but those with these pids, in order; pids that no process has any more are
/// removed. To read a process takes ten times as long as to list it.
pub(in crate::process) fn read(strangers: &mut Vec<u32>) -> Vec<ProcessRow> {
    let pids = stat::numbers_in("/proc");
    let (listed, pids) = pids.partition(|pid| strangers.binary_search(pid).is_ok());
    *strangers = listed;
    strangers.sort_unstable();
    Vec::into_iter(pids).filter_map(row).collect()
}

/// Returns the present time as in [`ProcessRow::started`], in whole ticks.
pub(super) fn now() -> Option<u64> {
    let now = clock_gettime(ClockId::Boottime);
    let nanos = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    let tick = 1_000_000_000_u64.checked_div(clock_ticks_per_second())?;
    u64::try_from(nanos).ok()?.checked_div(tick)
}

/// Whether the process that started then has this pid and runs.
pub(super) fn contains(pid: u32, started: u64) -> bool {
    row(pid).is_some_and(|row| row.started == started)
}

/// Returns a process; `None` when it is gone or only waits for its parent to notice that.
fn row(pid: u32) -> Option<ProcessRow> {
    let stat = stat::read(pid)?;
    // Its first thread can have ended before the others.
    if stat.field(3) == Some("Z") && stat.number(20).is_none_or(|threads: u32| threads <= 1) {
        return None;
    }
    Some(ProcessRow {
        pid,
        parent: stat.number(4)?,
        session: stat.number(6)?,
        started: stat.number(22)?,
        is_stopped: matches!(stat.field(3), Some("T" | "t")),
        name: stat.name(),
    })
}

/// Returns what a process does with signals; nothing special where it is gone.
pub(super) fn masks(pid: u32, _name: &str) -> SignalMasks {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or_default()
    };
    SignalMasks {
        ignored: mask("SigIgn:"),
        caught: mask("SigCgt:"),
    }
}

/// Notes the signal for our launcher's shell, which takes it for `SIGTERM` where that is not possible.
pub(super) fn note_stop_signal(pid: u32, signal: u8) {
    let mut limit = getrlimit(Resource::Locks);
    limit.current = Some(signal.into());
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let noted = prlimit(process, Resource::Locks, limit);
    tracing::debug!(?noted, pid, "a shell is told the stop signal");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_not_read_again_and_those_that_are_gone_are_forgotten() {
        let ours = std::process::id();
        let is_shown = |rows: &[ProcessRow]| rows.iter().any(|row| row.pid == ours);
        assert!(is_shown(&read(&mut Vec::new())));
        let mut strangers = vec![1, ours, u32::MAX];
        assert!(!is_shown(&read(&mut strangers)));
        assert_eq!(strangers, [1, ours]);
    }
}
