//! When the ports of runs that are waited for are looked at. The kernel does not report that a process
//! begins to listen, so while somebody waits, it is asked: soon after every look, and else less and less
//! often.

use std::time::{Duration, Instant};

/// The first pause between two looks, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// How many times as long as a look the pause after it is at least: with many processes, a look takes
/// longer.
const PAUSE_PER_LOOK: u32 = 20;

/// When ports are looked at.
#[derive(Debug, Default)]
pub(super) struct PortLooks {
    /// When the next look is due; `None` while one is queued or runs.
    pub(super) due: Option<Instant>,
    pub(super) is_under_way: bool,
    /// The pause after the next look.
    pause: Duration,
    /// When a look is allowed again.
    earliest: Option<Instant>,
}

impl PortLooks {
    /// Looks at once: somebody begins to wait.
    pub(super) fn begin(&mut self, now: Instant) {
        self.pause = FIRST_PAUSE;
        self.due = Some(now);
    }

    /// Looks as soon as that is allowed: something has changed.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.pause = FIRST_PAUSE;
        let at = self.earliest.map_or(now, |earliest| earliest.max(now));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Notes that a look is over and took so long.
    pub(super) fn looked(&mut self, took: Duration, now: Instant) {
        let least = (took * PAUSE_PER_LOOK).max(FIRST_PAUSE);
        self.earliest = Some(now + least);
        // Something may have changed meanwhile.
        self.due = Some(now + least.max(self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.is_under_way = false;
    }
}
