//! How much a process has run.

use crate::files::PROC;

/// How much a process's first thread has run: as long as it is the same, the thread has slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTime {
    /// How long it was on a processor, in nanoseconds.
    pub(crate) nanos: u64,
    /// How often it was put on one.
    pub(crate) times: u64,
}

impl RunTime {
    /// Whether the thread has not been woken since the earlier reading. It may have been running
    /// then.
    #[must_use]
    pub(crate) fn has_slept_since(self, earlier: Self) -> bool {
        self.times == earlier.times
    }
}

/// Returns how much a process has run; `None` where the system does not count it (only Linux does).
#[must_use]
pub(crate) fn run_time(pid: u32) -> Option<RunTime> {
    let text = std::fs::read_to_string(format!("{PROC}/{pid}/schedstat")).ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let nanos = fields.next()?.ok()?;
    let times = fields.nth(1)?.ok()?;
    // Without the kernel's statistics all counts are zero.
    (times > 0).then_some(RunTime { nanos, times })
}

#[cfg(all(test, linux))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_sleeps_does_not_run() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let settled = loop {
            let before = run_time(child.id());
            std::thread::yield_now();
            let state = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            let name = std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
            if state.contains(") S ") && name == "sleep\n" && run_time(child.id()) == before {
                break before.unwrap();
            }
        };
        assert_eq!(run_time(child.id()), Some(settled));
        assert!(run_time(child.id()).unwrap().has_slept_since(settled));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(run_time(child.id()), None);
    }
}
