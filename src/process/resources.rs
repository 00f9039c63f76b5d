//! What a process uses: descriptors, its control group, and how much it has run.

use std::fs;

use crate::files::PROC;

/// How many descriptors a process has open, and how many it may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DescriptorUse {
    /// The number of open descriptors.
    pub(crate) open: u64,
    /// The soft limit; `None` is unlimited.
    pub(crate) limit: Option<u64>,
}

/// Returns the descriptors of a process of this user; `None` where the system does not report them
/// (only Linux does).
#[must_use]
pub(crate) fn descriptors_of(pid: u32) -> Option<DescriptorUse> {
    let limits = fs::read_to_string(format!("{PROC}/{pid}/limits")).ok()?;
    let limit = soft_limit(&limits)?;
    let open = fs::read_dir(format!("{PROC}/{pid}/fd")).ok()?.count();
    Some(DescriptorUse {
        open: open as u64,
        limit,
    })
}

/// Reads the soft limit on open files from `/proc/PID/limits`; `None` inside is unlimited.
fn soft_limit(limits: &str) -> Option<Option<u64>> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

/// Returns the control group of a process, as systemd names it; `None` where there is none.
#[must_use]
pub(crate) fn control_group_of(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("{PROC}/{pid}/cgroup")).ok()?;
    groups_of_systemd(&groups)
}

/// Reads the path of the unified hierarchy, else that of systemd's own.
fn groups_of_systemd(text: &str) -> Option<String> {
    let of = |hierarchy: &str| text.lines().find_map(|line| line.strip_prefix(hierarchy));
    let named = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.strip_prefix("name=systemd:")
    });
    named.or_else(|| of("0::")).map(ToOwned::to_owned)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_number() {
        let line = "Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit(line), Some(Some(1024)));
        let line = "Max open files            unlimited            unlimited            files\n";
        assert_eq!(soft_limit(line), Some(None));
        assert_eq!(soft_limit("Max cpu time  unlimited\n"), None);
    }

    #[test]
    fn the_control_group_is_found_in_both_versions() {
        let unified = "0::/user.slice/user-1000.slice/session-3.scope\n";
        let expected = Some("/user.slice/user-1000.slice/session-3.scope".to_owned());
        assert_eq!(groups_of_systemd(unified), expected);
        let hybrid =
            "3:memory:/x\n1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n0::/y\n";
        assert_eq!(groups_of_systemd(hybrid), expected);
        assert_eq!(groups_of_systemd(""), None);
    }

    #[cfg(linux)]
    #[test]
    fn our_own_descriptors_are_counted() {
        let ours = descriptors_of(std::process::id()).unwrap();
        assert!(ours.open >= 3, "{ours:?}");
    }
}

#[cfg(all(test, linux))]
mod run_time_tests {
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
