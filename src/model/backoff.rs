//! Pauses between attempts.

use std::time::Duration;

/// A pause before another attempt, which doubles with each one up to a limit. A constant of this type
/// is copied where attempts begin, and again after a success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Self { next: first, most }
    }

    /// Returns how long to wait before the next attempt.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.most);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let mut retry = RETRY;
        let pauses = [(); 5].map(|()| retry.next_pause().as_secs());
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
    }
}
