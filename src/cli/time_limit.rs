//! How long a command may take before it finds out who does not answer.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a daemon and tmux may take to answer, all in all. With what it takes to find out which of
/// them does not, a command ends within ten seconds.
const PATIENCE: Duration = Duration::from_secs(6);

/// How much later than its own time a wait may end: the daemon keeps the time, and its answer has to
/// come back.
const GRACE: Duration = Duration::from_millis(500);

/// When a command finds out whether those it asks still answer. Only one that finds somebody silent
/// fails; else it goes on, however long it takes.
#[derive(Debug)]
pub(super) struct TimeLimit {
    begun: Instant,
    plan: Cell<Plan>,
    /// When it comes next; `None` when there is none.
    next: Cell<Option<Instant>>,
    changed: Notify,
}

/// What comes after the next time.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// The same again: everything asked for has an answer soon.
    Again,
    /// At this instant, and again from then on: what is asked for may take until then.
    At(Instant),
    /// Nothing: what is asked for may take for ever.
    Never,
}

impl TimeLimit {
    pub(super) fn new() -> Self {
        let begun = Instant::now();
        Self {
            begun,
            plan: Cell::new(Plan::Again),
            next: Cell::new(Some(begun + PATIENCE)),
            changed: Notify::new(),
        }
    }

    /// From here on it is waited for something that comes when it comes, within `time` if that is
    /// given. That those who are asked answer at all is found out once.
    pub(super) fn wait(&self, time: Option<Duration>) {
        let now = Instant::now();
        let first = now + PATIENCE;
        match time {
            Some(time) => {
                let end = now + time + GRACE;
                self.plan.set(Plan::At(end));
                self.set(Some(end.min(first)));
            }
            None => {
                self.plan.set(Plan::Never);
                self.set(Some(first));
            }
        }
    }

    /// The same for a command whose time is counted from its beginning.
    pub(super) fn wait_from_begin(&self, time: Option<Duration>) {
        self.wait(time.map(|time| time.saturating_sub(self.begun.elapsed())));
    }

    /// From here on nobody is asked who could be silent.
    pub(super) fn lift(&self) {
        self.plan.set(Plan::Never);
        self.set(None);
    }

    /// Resolves when it is time to find out whether those who are asked answer.
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

    /// They do answer: settles when to find out again.
    pub(super) fn renew(&self) {
        let now = Instant::now();
        self.next.set(match self.plan.get() {
            Plan::At(end) if now < end => Some(end),
            Plan::Again | Plan::At(_) => Some(now + PATIENCE),
            Plan::Never => None,
        });
    }

    fn set(&self, next: Option<Instant>) {
        self.next.set(next);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When it comes, in milliseconds from the beginning, if it is renewed each time.
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
