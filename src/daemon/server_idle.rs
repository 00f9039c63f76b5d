//! Whether the tmux server has run since the last sweep. While it has not, nothing has changed in it:
//! neither a sweep nor a flush can find anything.
//!
//! Our own commands make it run as well, and it goes on for a moment after it has answered. So a
//! reading counts once it is the same a little later, and the server has not been woken between.

use std::time::{Duration, Instant};

use crate::process::RunTime;

/// How long after a reading the next one shows whether the server sleeps.
const SLEEP_CHECK_AFTER: Duration = Duration::from_millis(5);

/// How long sweeps may be left out: they also read what changes outside of the server, such as
/// which program is in the foreground.
const LEAVE_OUT_FOR: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct ServerIdle {
    /// How much the server had run after the last sweep, and when that was, if the server slept then.
    swept: Option<(RunTime, Instant)>,
    /// The first reading after a sweep, and when that was; until the second one is made.
    reading: Option<(RunTime, Instant)>,
}

impl ServerIdle {
    /// Notes that a look at everything has just been answered, at this reading.
    pub(super) fn note_sweep(&mut self, now: Instant, reading: Option<RunTime>) {
        *self = Self {
            swept: None,
            reading: reading.map(|first| (first, now)),
        };
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.reading
            .map(|(_, swept_at)| swept_at + SLEEP_CHECK_AFTER)
    }

    pub(super) fn read(&mut self, reading: Option<RunTime>) {
        if let (Some((first, swept_at)), Some(reading)) = (self.reading.take(), reading)
            // Otherwise it was woken: by what is not known.
            && reading.has_slept_since(first)
        {
            self.swept = Some((reading, swept_at));
        }
    }

    /// Whether the server may have something to tell that the last sweep has not shown.
    pub(super) fn may_have_news(&self, reading: Option<RunTime>) -> bool {
        reading.is_none() || self.swept.map(|(then, _)| then) != reading
    }

    /// Whether a sweep would find what the last one has found.
    pub(super) fn is_swept(&self, now: Instant, reading: Option<RunTime>) -> bool {
        let lasts = |(_, at)| now.saturating_duration_since(at) < LEAVE_OUT_FOR;
        self.swept.is_some_and(lasts) && !self.may_have_news(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(nanos: u64, times: u64) -> Option<RunTime> {
        Some(RunTime { nanos, times })
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
        idle.read(run(70, 2));
        assert_eq!(idle.next_deadline(), None);
        assert!(idle.is_swept(at(9), run(70, 2)));
        assert!(!idle.may_have_news(run(70, 2)));
        // It has run: a flush may bring something, and the next sweep as well.
        assert!(idle.may_have_news(run(71, 3)) && !idle.is_swept(at(9), run(71, 3)));
        // It was woken while it was read.
        idle.note_sweep(at(0), run(50, 2));
        idle.read(run(60, 3));
        assert!(idle.may_have_news(run(60, 3)) && !idle.is_swept(at(6), run(60, 3)));
        // Sweeps are not left out for ever, nor where the kernel says nothing.
        idle.note_sweep(start, run(50, 2));
        idle.read(run(50, 2));
        assert!(idle.is_swept(start + LEAVE_OUT_FOR / 2, run(50, 2)));
        assert!(!idle.is_swept(start + LEAVE_OUT_FOR, run(50, 2)));
        idle.note_sweep(start, None);
        assert_eq!(idle.next_deadline(), None);
        assert!(idle.may_have_news(None) && !idle.is_swept(start, None));
    }
}
