//! How long until the next look: soon after a change, later the longer nothing happens.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two looks that nobody asked for.
const QUICK: Duration = Duration::from_millis(50);

/// After a run has ended and tmux has not said how.
const UNSETTLED: Duration = Duration::from_millis(5);

/// While there is no session, a look may cost a process: look at most this often.
const ABSENT: Duration = Duration::from_millis(250);

/// The time of the next look.
#[derive(Debug)]
pub(super) struct Pace {
    /// The longest time between two looks.
    longest: Duration,
    pause: Duration,
    next: Instant,
}

impl Pace {
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            pause: QUICK.min(longest),
            next: Instant::now(),
        }
    }

    /// Takes account of a look.
    pub(super) fn looked(&mut self, exists: bool, changed: bool, unsettled: bool) {
        self.pause = if changed { QUICK } else { self.pause * 2 }.min(self.longest);
        let pause = match (unsettled, exists) {
            (true, _) => UNSETTLED,
            (false, true) => self.pause,
            (false, false) => self.pause.max(ABSENT).min(self.longest),
        };
        self.next = Instant::now() + pause;
    }

    /// Takes account of a look that failed.
    pub(super) fn failed(&mut self) {
        self.looked(true, false, false);
    }

    pub(super) fn next_look(&self) -> Instant {
        self.next
    }
}
