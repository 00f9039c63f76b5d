//! What processes cost.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs a command that succeeds, and returns how long it took.
pub(crate) fn time(command: &mut Command) -> Duration {
    let began = Instant::now();
    let output = command.output().unwrap();
    let took = began.elapsed();
    assert!(output.status.success(), "{command:?}: {output:?}");
    took
}

/// Returns how many processes and threads have been made so far: in our namespace, else in the
/// whole system.
pub(crate) fn processes_made() -> u64 {
    if super::namespace::is_ours() {
        let loadavg = fs::read_to_string("/proc/loadavg").unwrap();
        // The last number given; they are given in order.
        loadavg
            .split_ascii_whitespace()
            .nth(4)
            .unwrap()
            .parse()
            .unwrap()
    } else {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let line = stat
            .lines()
            .find_map(|line| line.strip_prefix("processes "));
        line.unwrap().trim().parse().unwrap()
    }
}

/// Returns the time that all threads of a process have been on a processor, to the nanosecond.
pub(crate) fn on_cpu(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let of = |path: std::path::PathBuf| -> Option<u64> {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    };
    let nanos = threads.flatten().filter_map(|thread| of(thread.path()));
    Duration::from_nanos(nanos.sum())
}

/// Returns the time of a process and of the children that it has waited for, to 10 ms.
pub(crate) fn on_cpu_with_children(pid: u32) -> Duration {
    let fields = stat(pid);
    // utime, stime, cutime, cstime
    let ticks: u64 = (14..18).map(|n| field(&fields, n)).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Returns the living children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|child| field(&stat(*child), 4) == u64::from(pid))
        .collect()
}

fn stat(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default()
}

/// Returns a field by its number in proc(5), from 3 on.
fn field(stat: &str, number: usize) -> u64 {
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let field = fields.split_ascii_whitespace().nth(number - 3);
    field.and_then(|field| field.parse().ok()).unwrap_or(0)
}
