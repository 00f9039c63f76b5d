//! When to make tmux send notifications that it holds back.
//!
//! tmux can hold them back when several panes print at once, so only after programs have run. Each
//! time costs tmux a turn of its event loop, which other daemons on the server notice.

use std::time::{Duration, Instant};

/// The minimum pause. Flushes are made only when a deadline wakes the link anyway, every two seconds
/// while there are live tasks.
const MIN_PAUSE: Duration = Duration::from_millis(1500);

/// The maximum pause while no task's program has run: a process outside of the tasks' process trees
/// may have printed.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How many flushes follow when programs have run: tmux may read their output after the first.
const FLUSHES_AFTER_RUN: u32 = 2;

/// When tmux was last asked, and how often it is to be asked.
#[derive(Debug)]
pub(super) struct FlushSchedule {
    flushed: Instant,
    /// How many flushes are due because programs have run.
    flushes_left: u32,
}

impl FlushSchedule {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            flushed: now,
            flushes_left: FLUSHES_AFTER_RUN,
        }
    }

    /// Returns whether a flush is due now. `has_run` says whether programs of tasks may have run
    /// since the last call.
    pub(super) fn take_due(&mut self, has_run: bool, now: Instant) -> bool {
        if has_run {
            self.flushes_left = FLUSHES_AFTER_RUN;
        }
        let pause = now.saturating_duration_since(self.flushed);
        let is_due = pause >= MAX_PAUSE || (self.flushes_left > 0 && pause >= MIN_PAUSE);
        if is_due {
            self.flushed = now;
            self.flushes_left = self.flushes_left.saturating_sub(1);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks every two seconds; `has_run` says when programs have run.
    fn flushes(has_run: &str) -> String {
        let start = Instant::now();
        let mut schedule = FlushSchedule::new(start);
        let ask = |(n, has): (u32, char)| {
            let now = start + Duration::from_secs(2) * (n + 1);
            let is_due = schedule.take_due(has == 'x', now);
            if is_due { 'f' } else { '.' }
        };
        (0..).zip(has_run.chars()).map(ask).collect()
    }

    #[test]
    fn two_flushes_follow_programs_that_run() {
        assert_eq!(flushes("xxxxxx"), "ffffff");
        assert_eq!(flushes("....xx...x..."), "ff..fff..ff..");
    }

    #[test]
    fn tmux_is_asked_seldom_while_nothing_runs() {
        let rare = flushes(&".".repeat(34));
        assert_eq!(rare, format!("ff{0}f{0}f..", ".".repeat(14)));
    }

    #[test]
    fn two_flushes_are_never_close() {
        let start = Instant::now();
        let mut schedule = FlushSchedule::new(start);
        assert!(!schedule.take_due(true, start + Duration::from_secs(1)));
        assert!(schedule.take_due(true, start + Duration::from_secs(2)));
        assert!(!schedule.take_due(true, start + Duration::from_secs(3)));
    }
}
