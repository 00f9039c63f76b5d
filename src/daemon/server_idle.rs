//! Whether the tmux server has run since it was last known to have nothing to tell. While it has
//! not, nothing has changed in it: neither a sweep nor a flush can find anything.
//!
//! Our own commands make it run as well, and it goes on for a moment after it has answered. So a
//! reading counts once it is the same a little later, and the server has not been woken between.

use std::time::{Duration, Instant};

use crate::process::RunTime;

/// How long after a flush the server is expected to have done everything that it led to.
const FLUSH_TAKES: Duration = Duration::from_millis(10);

/// How long after a reading the next one shows whether the server sleeps.
const SLEEP_CHECK_AFTER: Duration = Duration::from_millis(5);

/// After so many flushes in a row because the server had run, as it does beside other daemons,
/// readings are made after some of them only: they cost two wake-ups, and find that it has run again.
const BUSY_AFTER: u32 = 2;
const READ_EVERY: u32 = 8;

/// How long sweeps may be left out: they also read what changes outside of the server, such as
/// which program is in the foreground.
const LEAVE_OUT_FOR: Duration = Duration::from_secs(300);

/// What is known of the server's activity.
#[derive(Debug, Default)]
pub(super) struct ServerIdle {
    /// How much the server had run when it had nothing more to tell.
    baseline: Option<RunTime>,
    /// When a sweep had last looked at everything, if the server has not changed anything since.
    swept_at: Option<Instant>,
    /// The reading that is being made.
    reading: Option<RunTimeReading>,
    /// How many flushes there were since the server was found as it had been.
    flushes: u32,
}

/// A reading that does not count yet.
#[derive(Debug)]
struct RunTimeReading {
    due: Instant,
    /// The first of the two; `None` until it is made.
    first: Option<RunTime>,
    /// When everything was looked at just before it.
    swept_at: Option<Instant>,
}

impl ServerIdle {
    /// Notes that a look at everything has just been answered, at this reading.
    pub(super) fn note_sweep(&mut self, now: Instant, reading: Option<RunTime>) {
        *self = Self {
            reading: reading.map(|first| RunTimeReading {
                due: now + SLEEP_CHECK_AFTER,
                first: Some(first),
                swept_at: Some(now),
            }),
            flushes: self.flushes,
            ..Self::default()
        };
    }

    /// Notes that the server was made to send what it has.
    pub(super) fn note_flush(&mut self, now: Instant) {
        let flushes = self.flushes.wrapping_add(1);
        let is_read = flushes <= BUSY_AFTER || flushes.is_multiple_of(READ_EVERY);
        *self = Self {
            reading: is_read.then(|| RunTimeReading {
                due: now + FLUSH_TAKES,
                first: None,
                swept_at: None,
            }),
            flushes,
            ..Self::default()
        };
    }

    /// Notes that the server has not run, so that it was not made to send anything.
    pub(super) fn note_rest(&mut self) {
        self.flushes = 0;
    }

    /// Returns when [`ServerIdle::read`] is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.reading.as_ref().map(|reading| reading.due)
    }

    /// Takes the reading that is due.
    pub(super) fn read(&mut self, now: Instant, reading: Option<RunTime>) {
        let Some(before) = self.reading.take_if(|before| before.due <= now) else {
            return;
        };
        let Some(reading) = reading else {
            return;
        };
        match before.first {
            None => {
                self.reading = Some(RunTimeReading {
                    due: now + SLEEP_CHECK_AFTER,
                    first: Some(reading),
                    ..before
                });
            }
            Some(first) if reading.has_slept_since(first) => {
                self.baseline = Some(reading);
                self.swept_at = before.swept_at;
            }
            // It was woken: by what is not known.
            Some(_) => {}
        }
    }

    /// Whether the server may have something to tell.
    pub(super) fn may_have_news(&self, reading: Option<RunTime>) -> bool {
        reading.is_none() || self.baseline != reading
    }

    /// Whether a sweep would find what the last one has found.
    pub(super) fn is_swept(&self, now: Instant, reading: Option<RunTime>) -> bool {
        let lasts = |at: Instant| now.saturating_duration_since(at) < LEAVE_OUT_FOR;
        self.swept_at.is_some_and(lasts) && !self.may_have_news(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(nanos: u64, times: u64) -> Option<RunTime> {
        Some(RunTime { nanos, times })
    }

    #[test]
    fn a_server_that_always_runs_is_read_seldom() {
        let start = Instant::now();
        let mut idle = ServerIdle::default();
        let mut flushes = |n: u32| {
            let read = (0..n).map(|_| {
                idle.note_flush(start);
                u32::from(idle.next_deadline().is_some())
            });
            read.sum::<u32>()
        };
        assert_eq!((flushes(2), flushes(5), flushes(16)), (2, 0, 2));
        idle.note_rest();
        idle.note_flush(start);
        assert!(idle.next_deadline().is_some());
    }

    #[test]
    fn a_server_that_has_slept_since_a_sweep_has_nothing_to_tell() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut idle = ServerIdle::default();
        assert!(idle.may_have_news(run(50, 2)), "nothing is known yet");
        idle.note_sweep(at(0), run(50, 2));
        assert!(!idle.is_swept(at(1), run(50, 2)), "it may go on");
        assert_eq!(idle.next_deadline(), Some(at(5)));
        idle.read(at(5), run(70, 2));
        assert_eq!(idle.next_deadline(), None);
        assert!(idle.is_swept(at(9), run(70, 2)));
        assert!(!idle.may_have_news(run(70, 2)));
        // It has run: a flush may bring something, and the next sweep as well.
        assert!(idle.may_have_news(run(71, 3)) && !idle.is_swept(at(9), run(71, 3)));
        idle.note_flush(at(10));
        idle.read(at(20), run(90, 4));
        idle.read(at(25), run(90, 4));
        assert!(!idle.may_have_news(run(90, 4)));
        assert!(!idle.is_swept(at(26), run(90, 4)), "a flush is no sweep");
    }

    #[test]
    fn a_server_that_was_woken_while_it_was_read_may_have_something_to_tell() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut idle = ServerIdle::default();
        idle.note_sweep(at(0), run(50, 2));
        idle.read(at(5), run(60, 3));
        assert!(idle.may_have_news(run(60, 3)) && !idle.is_swept(at(6), run(60, 3)));
    }

    #[test]
    fn sweeps_are_not_left_out_for_ever_nor_where_the_kernel_says_nothing() {
        let start = Instant::now();
        let mut idle = ServerIdle::default();
        idle.note_sweep(start, run(50, 2));
        idle.read(start + SLEEP_CHECK_AFTER, run(50, 2));
        assert!(idle.is_swept(start + LEAVE_OUT_FOR / 2, run(50, 2)));
        assert!(!idle.is_swept(start + LEAVE_OUT_FOR, run(50, 2)));
        idle.note_sweep(start, None);
        assert_eq!(idle.next_deadline(), None);
        assert!(idle.may_have_news(None) && !idle.is_swept(start, None));
    }
}
