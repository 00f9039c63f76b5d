//! kqueue, as macOS and the BSDs have it: reports the ends of processes, whoever their parents are.

use std::os::fd::{AsFd, AsRawFd};

use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};
use rustix::io::Errno;

/// Returns a queue that waits for nothing yet.
pub(super) fn new() -> Result<Kqueue, Errno> {
    Kqueue::new().map_err(errno)
}

/// Adds a process, whose end makes the queue readable.
///
/// # Errors
///
/// [`Errno::SRCH`] when there is no such process.
pub(super) fn add_process(queue: &Kqueue, pid: u32) -> Result<(), Errno> {
    // One-shot: a process ends once.
    change(queue, pid, EvFlags::EV_ADD | EvFlags::EV_ONESHOT)
}

/// Removes a process. One that has ended is not there any more.
pub(super) fn remove_process(queue: &Kqueue, pid: u32) {
    if let Err(error) = change(queue, pid, EvFlags::EV_DELETE) {
        tracing::trace!(pid, %error, "a process has left the queue already");
    }
}

/// Adds a file, which makes the queue readable when its other end is closed.
pub(super) fn add_file(queue: &Kqueue, file: impl AsFd) -> Result<(), Errno> {
    let number = usize::try_from(file.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
    let add = KEvent::new(
        number,
        EventFilter::EVFILT_READ,
        EvFlags::EV_ADD,
        FilterFlag::empty(),
        0,
        0,
    );
    queue.kevent(&[add], &mut [], None).map(drop).map_err(errno)
}

/// Waits for the next process that has ended; `None` when a file is readable.
pub(super) fn next_end(queue: &Kqueue) -> Result<Option<u32>, Errno> {
    let nothing = KEvent::new(
        0,
        EventFilter::EVFILT_READ,
        EvFlags::empty(),
        FilterFlag::empty(),
        0,
        0,
    );
    let mut events = [nothing];
    queue.kevent(&[], &mut events, None).map_err(errno)?;
    let [event] = events;
    let is_process = event.filter() == Ok(EventFilter::EVFILT_PROC);
    Ok(u32::try_from(event.ident()).ok().filter(|_| is_process))
}

fn change(queue: &Kqueue, pid: u32, flags: EvFlags) -> Result<(), Errno> {
    let pid = usize::try_from(pid).map_err(|_| Errno::SRCH)?;
    let end = FilterFlag::NOTE_EXIT;
    let change = KEvent::new(pid, EventFilter::EVFILT_PROC, flags, end, 0, 0);
    queue
        .kevent(&[change], &mut [], None)
        .map(drop)
        .map_err(errno)
}

fn errno(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}
