//! Time as an argument: the pure floors never read a clock.

use std::time::{Duration, Instant};

use jiff::fmt::friendly::{Spacing, SpanPrinter};

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

/// The time since the boot of the machine, which nobody can set. It also counts while the machine
/// sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootTime {
    /// Which boot; empty where the kernel does not name it.
    pub boot: String,
    /// The time since then, in milliseconds.
    pub millis: Millis,
}

/// A clock by which ages are counted: the time since the boot, after what was counted in earlier
/// boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeClock {
    /// What it shows at the boot.
    pub at_boot: Millis,
}

impl AgeClock {
    /// Returns what it shows this many milliseconds after the boot.
    pub fn at(self, since_boot: Millis) -> Millis {
        self.at_boot.saturating_add(since_boot)
    }
}

/// Returns a time as the feed writes it: RFC 3339, UTC, milliseconds.
pub fn rfc3339(millis: Millis) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    jiff::fmt::temporal::DateTimePrinter::new()
        .precision(Some(3))
        .timestamp_to_string(&time)
}

/// Parses a time written by [`rfc3339`].
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    let time = text.parse::<jiff::Timestamp>().ok();
    time.map(jiff::Timestamp::as_millisecond)
}

/// A time that is written so.
pub(super) mod as_rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::Millis;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Millis,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::rfc3339(*time))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Millis, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_rfc3339(&text).ok_or_else(|| D::Error::custom("time: not RFC 3339"))
    }
}

/// Returns a duration in whole milliseconds, as programs exchange it; the largest number if it is
/// longer.
pub fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a duration in its largest unit.
pub fn age(millis: Millis) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a duration in its two largest units; below ten seconds in tenths.
pub fn took(millis: Millis) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..10 => format!("{}.{}s", seconds, millis % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns a duration as a user writes it: `10m`, `1m30s`, `500ms`.
pub fn written(duration: Duration) -> String {
    let printer = SpanPrinter::new().spacing(Spacing::None);
    printer.unsigned_duration_to_string(&duration)
}

/// Returns a time limit as it was given, for messages: `1 ms`, `300 ms`, `30.0 s`.
pub fn limit_words(limit: Duration) -> String {
    if limit < Duration::from_secs(1) {
        return format!("{} ms", limit.as_millis());
    }
    format!("{:.1} s", limit.as_secs_f64())
}

/// A pause before another attempt, which doubles with each one up to a limit. A constant of this type
/// is copied where attempts begin, and again after a success.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    /// Returns a pause that begins with `first` and never exceeds `most`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    /// Returns how long to wait before the next attempt.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.most);
        pause
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

    #[test]
    fn durations_are_written_as_users_write_them() {
        let all = [0, 500, 2_000, 90_000, 600_000, 3_600_000, 5_400_001];
        let all = all.map(|ms| written(Duration::from_millis(ms)));
        assert_eq!(all, ["0s", "500ms", "2s", "1m30s", "10m", "1h", "1h30m1ms"]);
    }

    #[test]
    fn durations_have_their_two_largest_units() {
        let all = [0, 950, 9_999, 40_000, 72_500, 3_600_000, 90_061_000].map(took);
        assert_eq!(
            all,
            ["0.0s", "0.9s", "9.9s", "40s", "1m12s", "1h00m", "25h01m"]
        );
    }

    #[test]
    fn a_time_limit_is_not_rounded_to_nothing() {
        let all = [1, 20, 300, 1000, 2500, 60_000].map(|ms| limit_words(Duration::from_millis(ms)));
        assert_eq!(all, ["1 ms", "20 ms", "300 ms", "1.0 s", "2.5 s", "60.0 s"]);
    }

    #[test]
    fn pauses_double_up_to_the_limit() {
        const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let mut retry = RETRY;
        let pauses = [(); 5].map(|()| retry.next_pause().as_secs());
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
    }
}
