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

/// Returns a duration in its largest unit.
#[must_use]
pub fn age(millis: Millis) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_their_largest_unit() {
        let shown = [0, 59_999, 60_000, 3_600_000, 90_000_000, -5].map(age);
        assert_eq!(shown, ["0s", "59s", "1m", "1h", "1d", "0s"]);
    }
}
