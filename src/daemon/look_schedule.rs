//! When to look: at once when something says that tasks have changed, soon when a pane prints, and
//! now and then in case that nothing said anything.

use std::time::Duration;

use tokio::time::Instant;

/// While panes print, looks are at least this far apart. With a second look as far behind it, a
/// prompt is told well within half a second.
const WHILE_PRINTING: Duration = Duration::from_millis(200);

/// While panes are paused for our client, looks alone see what they print: a prompt at the end of
/// it is reported within some half a second.
const WHILE_PAUSED: Duration = Duration::from_millis(400);

/// A run has ended and tmux has not said how: look again this soon at first, and then half as often
/// each time.
const UNSETTLED: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The first safety look comes this long after a change, the next each twice as long after. The
/// one thing that nothing tells is that a dead pane runs again, and who runs things again does so
/// soon after their end.
const FIRST_SAFETY: Duration = Duration::from_millis(25);

/// While there are dead panes, safety looks are at most this seldom.
const WITH_DEAD: Duration = Duration::from_secs(10);

/// While changes are not told, looks find them: after a change this soon, and at most this seldom.
const UNTOLD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Without a session, a look may cost a process.
const ABSENT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// What a look found, as far as it decides when to take the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// There is no session.
    Absent,
    /// It changes without telling us: there is no control client.
    Untold,
    /// It tells when it changes, but for dead panes that run again: there are some.
    ToldWithDead,
    /// It tells when it changes.
    Told,
}

/// Whether a look has found anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Something has changed.
    Some,
    /// Nothing has.
    None,
    /// Nothing has changed of what was told; at the rest it did not look.
    NoneOfTold,
}

/// The time of the next look.
#[derive(Debug)]
pub(super) struct LookSchedule {
    /// The longest time between two looks.
    longest: Duration,
    pause: Duration,
    /// When to look though nothing said so.
    safety: Instant,
    /// When to look because something is under way.
    wanted: Option<Instant>,
    settling: Duration,
    last: Instant,
}

impl LookSchedule {
    pub(super) fn new(longest: Duration) -> Self {
        let now = Instant::now();
        let (settling, _) = UNSETTLED;
        Self {
            longest,
            pause: Duration::ZERO,
            safety: now,
            wanted: None,
            settling,
            last: now,
        }
    }

    /// A pane has printed.
    pub(super) fn printed(&mut self) {
        self.want(self.last + WHILE_PRINTING);
    }

    /// Panes are paused for our client.
    pub(super) fn paused(&mut self) {
        self.want(self.last + WHILE_PAUSED);
    }

    /// Something has changed during a look.
    pub(super) fn at_once(&mut self) {
        self.want(Instant::now());
    }

    /// Takes account of a look.
    pub(super) fn looked(&mut self, found: Found, news: News, unsettled: bool) {
        self.last = Instant::now();
        self.wanted = None;
        let (first, most) = match found {
            Found::Absent => ABSENT,
            Found::Untold => UNTOLD,
            Found::ToldWithDead => (FIRST_SAFETY, WITH_DEAD),
            Found::Told => (FIRST_SAFETY, self.longest),
        };
        let pause = match news {
            News::Some => Some(first),
            News::None => Some((self.pause * 2).max(first)),
            News::NoneOfTold => None,
        };
        if let Some(pause) = pause {
            self.pause = pause.min(most).min(self.longest);
            self.safety = self.last + self.pause;
        }
        let (settling, most) = UNSETTLED;
        if unsettled {
            self.want(self.last + self.settling);
            self.settling = (self.settling * 2).min(most);
        } else {
            self.settling = settling;
        }
    }

    fn want(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    /// Returns when to look.
    pub(super) fn next_look(&self) -> Instant {
        self.wanted
            .map_or(self.safety, |wanted| wanted.min(self.safety))
    }

    /// Whether a look that is due now is due for safety alone.
    pub(super) fn is_safety(&self, now: Instant) -> bool {
        self.wanted.is_none_or(|wanted| wanted > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(pace: &LookSchedule) -> u128 {
        (pace.next_look() - pace.last).as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn safety_looks_grow_seldom_and_a_change_makes_them_frequent_again() {
        let mut pace = LookSchedule::new(Duration::from_millis(150));
        let mut pauses = Vec::new();
        for news in [
            News::Some,
            News::None,
            News::None,
            News::None,
            News::None,
            News::Some,
        ] {
            pace.looked(Found::Told, news, false);
            pauses.push(in_ms(&pace));
            assert!(pace.is_safety(pace.next_look()));
        }
        assert_eq!(pauses, [25, 50, 100, 150, 150, 25]);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_at_some_windows_put_off_no_look_at_all_of_them() {
        let mut pace = LookSchedule::new(Duration::from_secs(60));
        for _ in 0..6 {
            pace.looked(Found::Told, News::None, false);
        }
        let safety = pace.next_look();
        assert_eq!(in_ms(&pace), 800);
        tokio::time::advance(Duration::from_millis(400)).await;
        pace.paused();
        pace.looked(Found::Told, News::NoneOfTold, false);
        assert_eq!(pace.next_look(), safety);
        pace.looked(Found::Told, News::Some, false);
        assert_eq!(in_ms(&pace), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn printing_panes_are_looked_at_a_few_times_a_second() {
        let mut pace = LookSchedule::new(Duration::from_secs(60));
        for _ in 0..6 {
            pace.looked(Found::Told, News::None, false);
        }
        assert!(in_ms(&pace) > 200);
        pace.printed();
        assert_eq!(in_ms(&pace), 200);
        tokio::time::advance(Duration::from_secs(1)).await;
        pace.printed();
        assert!(pace.next_look() <= Instant::now());
        assert!(!pace.is_safety(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_is_not_settled_is_looked_at_again_at_once() {
        let mut pace = LookSchedule::new(Duration::from_secs(60));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pace.looked(Found::Told, News::None, true);
            pauses.push(in_ms(&pace));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        pace.looked(Found::Told, News::Some, false);
        pace.looked(Found::Told, News::None, true);
        assert_eq!(in_ms(&pace), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_session_or_a_client_looks_find_what_nobody_tells() {
        let mut pace = LookSchedule::new(Duration::from_secs(60));
        for (found, expected) in [
            (Found::Absent, [250, 500, 1000, 1000]),
            (Found::Untold, [50, 100, 200, 400]),
        ] {
            let news = [News::Some, News::None, News::None, News::None];
            let pauses = news.map(|news| {
                pace.looked(found, news, false);
                in_ms(&pace)
            });
            assert_eq!(pauses, expected, "{found:?}");
        }
    }
}
