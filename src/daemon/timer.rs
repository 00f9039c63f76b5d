//! A timer that wakes its thread once, when it is due.
//!
//! tokio sorts its timers into steps of 1, 64 and 4096 ms: a deadline two seconds ahead wakes the
//! thread at one or two of these steps before, and setting it makes the runtime wake itself. A
//! daemon that mostly waits for its next deadline would spend half of its time on that.

use tokio::time::Instant;

#[cfg(linux)]
mod timerfd {
    use std::io;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;
    use tokio::time::Instant;

    /// Returns a timer of the kernel, whose expirations are read as a pipe is.
    pub(super) fn new() -> io::Result<Receiver> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Receiver::from_owned_fd_unchecked(timer)
    }

    /// Resolves when this is due. The future may be dropped: setting the timer again forgets that.
    pub(super) async fn wait(timer: &Receiver, due: Instant) -> io::Result<()> {
        let after = due.saturating_duration_since(Instant::now());
        // Zero would switch it off.
        let after = after.max(Duration::from_nanos(1));
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: after.try_into().map_err(io::Error::other)?,
        };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &time)?;
        loop {
            timer.readable().await?;
            match timer.try_read(&mut [0_u8; 8]) {
                // It was set again after it had expired.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Timer {
    /// `None` where there is none: then tokio's timers are used.
    #[cfg(linux)]
    kernel: Option<tokio::net::unix::pipe::Receiver>,
}

impl Timer {
    pub(super) fn new() -> Self {
        Self {
            #[cfg(linux)]
            kernel: timerfd::new().ok(),
        }
    }

    /// Resolves at this time or, if it has passed, at once; never if it is `None`. The future may be dropped.
    pub(super) async fn until(&self, due: Option<Instant>) {
        let Some(due) = due else {
            return std::future::pending().await;
        };
        if due <= Instant::now() {
            return;
        }
        #[cfg(linux)]
        if let Some(timer) = &self.kernel
            && timerfd::wait(timer, due).await.is_ok()
        {
            return;
        }
        tokio::time::sleep_until(due).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn it_resolves_when_it_is_due_and_not_before() {
        let timer = Timer::new();
        for after in [0, 20, 5] {
            let due = Instant::now() + Duration::from_millis(after);
            timer.until(Some(due)).await;
            assert!(Instant::now() >= due);
        }
    }

    #[tokio::test]
    async fn a_future_that_was_dropped_changes_nothing() {
        let timer = Timer::new();
        let soon = Instant::now() + Duration::from_millis(20);
        let later = soon + Duration::from_millis(20);
        assert_eq!(timer.until(None).now_or_never(), None);
        assert_eq!(timer.until(Some(later)).now_or_never(), None);
        assert_eq!(timer.until(Some(soon)).now_or_never(), None);
        // It expires while nobody waits for it.
        while Instant::now() < soon {}
        assert_eq!(timer.until(Some(soon)).now_or_never(), Some(()));
        timer.until(Some(later)).await;
        assert!(Instant::now() >= later);
    }
}
