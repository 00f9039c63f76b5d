//! Whether a process exists, and, safe against reuse of its pid, whether it still runs.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};

/// Whether a process has this pid, also one that has ended and was not reaped. One that may not be
/// signalled, such as a process of another user, exists.
#[must_use]
pub(crate) fn exists(pid: u32) -> bool {
    number(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// A process that can be queried: the one that had the pid when this was created.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    /// Readable once it has ended; `None` where there is no such descriptor.
    file: Option<OwnedFd>,
}

/// How long to wait before processes are looked for again whose ends nothing reports.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

impl Process {
    /// Returns the process that has this pid now; `None` when there is none, or when the system is
    /// out of descriptors.
    #[must_use]
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let file = match open(pid) {
            Ok(file) => Some(file),
            Err(Errno::NOSYS) => None,
            Err(error) => {
                tracing::debug!(?pid, %error, "could not open a process");
                return None;
            }
        };
        let process = Self { pid, file };
        process.is_running().then_some(process)
    }

    /// Whether it still runs.
    #[must_use]
    pub(crate) fn is_running(&self) -> bool {
        self.file
            .as_ref()
            .map_or_else(|| runs(self.pid), |file| !has_ended(file))
    }
}

/// Whether a process with this pid runs: not one that only waits for its parent to notice its end.
fn runs(pid: u32) -> bool {
    #[cfg(linux)]
    {
        exists(pid)
    }
    #[cfg(not(linux))]
    {
        let state = super::ps::column(pid, "stat");
        exists(pid) && state.is_some_and(|state| !state.starts_with('Z'))
    }
}

/// Waits until one of these processes has ended.
pub(crate) fn wait_for_any(processes: &[Process]) {
    let files = processes.iter().filter_map(|process| process.file.as_ref());
    let mut files: Vec<PollFd<'_>> = files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
    let pause = (files.len() < processes.len()).then_some(&PAUSE);
    // Interrupted or not: the caller looks again.
    let ended = poll(&mut files, pause);
    tracing::trace!(?ended, "waited for processes");
}

/// Whether the process of this descriptor, which [`open`] has returned, has ended.
pub(super) fn has_ended(file: &OwnedFd) -> bool {
    let mut files = [PollFd::new(file, PollFlags::IN)];
    let at_once = Timespec::default();
    !matches!(poll(&mut files, Some(&at_once)), Ok(0))
}

/// Returns a descriptor that becomes readable when this process ends.
///
/// # Errors
///
/// [`Errno::SRCH`] when there is no such process, [`Errno::NOSYS`] where there are no such descriptors,
/// and another one when the system is out of descriptors.
#[cfg(linux)]
pub(super) fn open(pid: u32) -> Result<OwnedFd, Errno> {
    use rustix::process::{PidfdFlags, pidfd_open};

    pidfd_open(number(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())
}

/// The same: a kqueue that waits for one process.
#[cfg(kqueue)]
pub(super) fn open(pid: u32) -> Result<OwnedFd, Errno> {
    use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

    let errno = |error: nix::errno::Errno| Errno::from_raw_os_error(error as i32);
    let pid = usize::try_from(pid).map_err(|_| Errno::SRCH)?;
    // One-shot: a process ends once.
    let (process, flags) = (
        EventFilter::EVFILT_PROC,
        EvFlags::EV_ADD | EvFlags::EV_ONESHOT,
    );
    let end = KEvent::new(pid, process, flags, FilterFlag::NOTE_EXIT, 0, 0);
    let queue = Kqueue::new().map_err(errno)?;
    queue.kevent(&[end], &mut [], None).map_err(errno)?;
    Ok(queue.into())
}

#[cfg(not(any(linux, kqueue)))]
pub(super) fn open(_pid: u32) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Sends a signal to the process of a descriptor.
///
/// # Errors
///
/// When the process has ended, or may not be signalled.
#[cfg(linux)]
pub(super) fn signal(file: &OwnedFd, _pid: Pid, signal: Signal) -> Result<(), Errno> {
    rustix::process::pidfd_send_signal(file, signal)
}

/// The same. Unlike with a pidfd, another process can have got its pid since the descriptor was asked.
#[cfg(not(linux))]
pub(super) fn signal(file: &OwnedFd, pid: Pid, signal: Signal) -> Result<(), Errno> {
    if has_ended(file) {
        return Err(Errno::SRCH);
    }
    rustix::process::kill_process(pid, signal)
}

fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
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
