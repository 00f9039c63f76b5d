//! Time as an argument: the pure floors never read a clock.

use std::time::{Duration, Instant};

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// One reading of both clocks, taken once per input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For deadlines and durations.
    pub mono: Instant,
    /// For display and the wire only.
    pub wall: Millis,
}

impl Now {
    /// Returns this reading advanced by `by`, on both clocks.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let ms = Millis::try_from(by.as_millis()).unwrap_or(Millis::MAX);
        Self {
            mono: self.mono + by,
            wall: self.wall.saturating_add(ms),
        }
    }
}
