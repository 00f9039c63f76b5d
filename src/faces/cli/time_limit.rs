//! How long a command waits before it checks whether daemon and tmux answer.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The total time for the answers of daemon and tmux. Including the check which of them does not
/// answer, a command ends within ten seconds.
const PATIENCE: Duration = Duration::from_secs(6);

/// By how much a wait may exceed its own time limit: the daemon keeps the time, and its answer has
/// to arrive.
const GRACE: Duration = Duration::from_millis(500);

/// When a command checks whether daemon and tmux still answer. It fails only if one of them does
/// not; otherwise it continues, however long it takes.
#[derive(Debug)]
pub(super) struct TimeLimit {
    begun: Instant,
    /// The time of the next check; `None` when there is none.
    next: Cell<Option<Instant>>,
    /// The time of the one after it, and from when on there is one in each interval; `None`: there is no
    /// other, the answer may take any time.
    regular_from: Cell<Option<Instant>>,
    changed: Notify,
}

impl TimeLimit {
    pub(super) fn new() -> Self {
        let begun = Instant::now();
        Self {
            begun,
            next: Cell::new(Some(begun + PATIENCE)),
            regular_from: Cell::new(Some(begun)),
            changed: Notify::new(),
        }
    }

    /// From here on the command waits for something that may come at any time, within `time` if
    /// given. Whether daemon and tmux answer at all is checked once.
    pub(super) fn wait(&self, time: Option<Duration>) {
        let now = Instant::now();
        let first = now + PATIENCE;
        let end = time.map(|time| now + time + GRACE);
        self.set(Some(end.map_or(first, |end| end.min(first))), end);
    }

    /// The same for a command whose time limit counts from its start.
    pub(super) fn wait_from_begin(&self, time: Option<Duration>) {
        self.wait(time.map(|time| time.saturating_sub(self.begun.elapsed())));
    }

    /// From here on nothing is asked that could fail to answer.
    pub(super) fn lift(&self) {
        self.set(None, None);
    }

    /// Resolves when it is time to check whether daemon and tmux answer.
    pub(super) async fn over(&self) {
        loop {
            let changed = self.changed.notified();
            match self.next.get() {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => return,
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// They answer: sets the time of the next check.
    pub(super) fn renew(&self) {
        let now = Instant::now();
        let next = |from: Instant| if now < from { from } else { now + PATIENCE };
        self.next.set(self.regular_from.get().map(next));
    }

    fn set(&self, next: Option<Instant>, regular_from: Option<Instant>) {
        self.next.set(next);
        self.regular_from.set(regular_from);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of each check in milliseconds from the start, if it is renewed each time.
    async fn times(limit: &TimeLimit, most: usize) -> Vec<u128> {
        let mut times = Vec::new();
        for _ in 0..most {
            let over = tokio::time::timeout(Duration::from_secs(100), limit.over());
            if over.await.is_err() {
                break;
            }
            times.push(limit.begun.elapsed().as_millis());
            limit.renew();
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn it_comes_again_and_again() {
        assert_eq!(times(&TimeLimit::new(), 3).await, [6000, 12000, 18000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_soon_after_its_own_time() {
        let limit = TimeLimit::new();
        limit.wait(Some(Duration::from_secs(2)));
        assert_eq!(times(&limit, 2).await, [2500, 8500]);
        let limit = TimeLimit::new();
        limit.wait(Some(Duration::from_secs(60)));
        assert_eq!(times(&limit, 2).await, [6000, 60500]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_without_a_time_asks_once_whether_anybody_answers() {
        let limit = TimeLimit::new();
        limit.wait(None);
        assert_eq!(times(&limit, 3).await, [6000]);
        let limit = TimeLimit::new();
        limit.lift();
        assert!(times(&limit, 3).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn it_can_be_lifted_while_it_runs() {
        let limit = TimeLimit::new();
        let lift = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            limit.lift();
        };
        let over = tokio::time::timeout(Duration::from_secs(100), limit.over());
        let (over, ()) = tokio::join!(over, lift);
        assert!(over.is_err());
    }
}
