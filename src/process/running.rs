//! Whether a process exists, and, safe against reuse of its pid, whether it still runs.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Whether a process has this pid, also one that has ended and was not reaped. One that may not be
/// signalled, such as a process of another user, exists.
#[must_use]
pub(crate) fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// A process that can be queried: the one that had the pid when this was created.
#[derive(Debug)]
pub(crate) struct Process {
    handle: system::Handle,
}

impl Process {
    /// Returns the process that has this pid now; `None` when there is none, or when the system is
    /// out of descriptors.
    #[must_use]
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let handle = system::Handle::open(pid)?;
        Some(Self { handle })
    }

    /// Whether it still runs.
    #[must_use]
    pub(crate) fn is_running(&self) -> bool {
        self.handle.is_running()
    }
}

/// Waits until one of these processes has ended.
pub(crate) fn wait_for_any(processes: &[Process]) {
    let handles: Vec<&system::Handle> = processes.iter().map(|process| &process.handle).collect();
    system::wait_for_any(&handles);
}

#[cfg(target_os = "linux")]
mod system {
    use std::os::fd::OwnedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    #[derive(Debug)]
    pub(super) struct Handle(OwnedFd);

    pub(super) fn wait_for_any(handles: &[&Handle]) {
        let files = handles.iter();
        let mut files: Vec<PollFd<'_>> = files
            .map(|handle| PollFd::new(&handle.0, PollFlags::IN))
            .collect();
        // Interrupted or not: the caller looks again.
        let ended = poll(&mut files, None);
        tracing::trace!(?ended, "waited for processes");
    }

    impl Handle {
        pub(super) fn open(pid: u32) -> Option<Self> {
            let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(fd) => Some(Self(fd)),
                Err(error) => {
                    tracing::debug!(?pid, %error, "could not open a process");
                    None
                }
            }
        }

        /// A pidfd is readable once its process has ended.
        pub(super) fn is_running(&self) -> bool {
            let mut files = [PollFd::new(&self.0, PollFlags::IN)];
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            matches!(poll(&mut files, Some(&at_once)), Ok(0))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    #[derive(Debug)]
    pub(super) struct Handle(u32);

    /// How long to wait before processes are looked for again: nothing reports their ends here.
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

    pub(super) fn wait_for_any(_: &[&Handle]) {
        std::thread::sleep(PAUSE);
    }

    impl Handle {
        pub(super) fn open(pid: u32) -> Option<Self> {
            super::exists(pid).then_some(Self(pid))
        }

        pub(super) fn is_running(&self) -> bool {
            super::exists(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_exists_until_it_is_reaped_and_also_if_it_is_another_users() {
        assert!(exists(std::process::id()));
        assert!(exists(1));
        for no_pid in [0, 0x7fff_fff0, u32::MAX] {
            assert!(!exists(no_pid), "{no_pid}");
        }
        let mut child = Command::new("true").spawn().unwrap();
        assert!(exists(child.id()));
        child.wait().unwrap();
        assert!(!exists(child.id()));
    }

    #[test]
    fn a_process_runs_until_it_has_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(process.is_running());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_running());
        assert!(Process::open(child.id()).is_none());
    }
}
