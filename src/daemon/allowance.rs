//! How much time may be spent on what costs processor time.

use std::time::{Duration, Instant};

/// Rounds and examinations may each take one part in so many of our time.
pub(super) const ONE_PART_IN: u32 = 1000;

/// How much time may be saved up: its allowance is five milliseconds of work at once.
const SAVED_UP: Duration = Duration::from_secs(5);

/// Once the part for examinations is used up, the next are examined together, this much later.
const BATCH: Duration = Duration::from_millis(500);

/// A part of every second, of which some can be saved up.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// When there will be some again; `None` before any was used.
    from: Option<Instant>,
}

impl Allowance {
    /// Returns when more will be available.
    pub(super) fn next(&self) -> Option<Instant> {
        self.from.map(|from| from + BATCH)
    }

    pub(super) fn has(&self, now: Instant) -> bool {
        self.from.is_none_or(|from| from <= now)
    }

    pub(super) fn spend(&mut self, cost: Duration, now: Instant) {
        let saved = now.checked_sub(SAVED_UP).unwrap_or(now);
        let from = self.from.map_or(saved, |from| from.max(saved));
        self.from = Some(from + cost * ONE_PART_IN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_a_thousandth_in_the_long_run_and_some_at_once() {
        let start = Instant::now() + SAVED_UP;
        let mut allowance = Allowance::default();
        let cost = Duration::from_micros(100);
        let mut spent = Vec::new();
        for tenth in 0..600_u32 {
            let now = start + Duration::from_millis(100) * tenth;
            let mut n = 0;
            while allowance.has(now) {
                allowance.spend(cost, now);
                n += 1;
            }
            spent.push(n);
        }
        // Fifty are five milliseconds; one more begins before they are used up.
        assert_eq!(spent[0], 51);
        assert!(spent[1..].iter().all(|n| *n == 1), "{spent:?}");

        let later = start + Duration::from_secs(3600);
        let mut n = 0;
        while allowance.has(later) {
            allowance.spend(cost, later);
            n += 1;
        }
        assert_eq!(n, 51);
    }
}
