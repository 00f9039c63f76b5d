//! When to look: at once when tasks are reported to have changed, soon when a pane prints, and from
//! time to time for safety.

use std::time::{Duration, Instant};

/// The minimum time between looks while panes print. A prompt needs two looks, so that it is
/// reported well within half a second.
const WHILE_PRINTING: Duration = Duration::from_millis(200);

/// The time between looks while panes are paused for our client, because only looks show their
/// output: a prompt is reported within about half a second.
const WHILE_PAUSED: Duration = Duration::from_millis(400);

/// A run has ended and tmux has not reported how: the first delay until the next look. It doubles
/// each time.
const UNSETTLED: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// The first safety look comes this long after a change; the delay doubles each time. The only
/// change that is never reported is a respawn of a dead pane, which usually happens soon after its
/// end.
const FIRST_SAFETY: Duration = Duration::from_millis(25);

/// The maximum delay of safety looks while there are dead panes.
const WITH_DEAD: Duration = Duration::from_secs(10);

/// Where changes are not reported: the delay after a change, and the maximum delay.
const UNREPORTED: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The delay while the session is missing, when a look may cost a process.
const ABSENT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// Which changes are reported between looks, as far as it affects the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporting {
    /// The session is missing.
    Absent,
    /// Changes are not reported: there is no control client.
    Nothing,
    /// Changes are reported, except for respawns of dead panes, of which there are some.
    AllButRespawns,
    /// Changes are reported.
    All,
}

/// Whether a look found a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Something has changed.
    Some,
    /// Nothing has changed.
    None,
    /// Nothing reported has changed; the other windows were not queried.
    NoneOfReported,
}

/// The schedule of the next look.
#[derive(Debug)]
pub(super) struct LookSchedule {
    /// The longest time between two looks.
    longest: Duration,
    pause: Duration,
    /// When the next safety look is due.
    safety: Instant,
    /// When a look is due because something is in progress.
    wanted: Option<Instant>,
    settling: Duration,
    last: Instant,
}

impl LookSchedule {
    pub(super) fn new(longest: Duration, now: Instant) -> Self {
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

    /// Notes that a pane has printed.
    pub(super) fn printed(&mut self) {
        self.want(self.last + WHILE_PRINTING);
    }

    /// Notes that panes are paused for our client.
    pub(super) fn paused(&mut self) {
        self.want(self.last + WHILE_PAUSED);
    }

    /// Notes that something has changed during a look.
    pub(super) fn at_once(&mut self, now: Instant) {
        self.want(now);
    }

    /// Notes a look.
    pub(super) fn looked(
        &mut self,
        reporting: Reporting,
        news: News,
        unsettled: bool,
        now: Instant,
    ) {
        self.last = now;
        self.wanted = None;
        let (first, most) = match reporting {
            Reporting::Absent => ABSENT,
            Reporting::Nothing => UNREPORTED,
            Reporting::AllButRespawns => (FIRST_SAFETY, WITH_DEAD),
            Reporting::All => (FIRST_SAFETY, self.longest),
        };
        let pause = match news {
            News::Some => Some(first),
            News::None => Some((self.pause * 2).max(first)),
            News::NoneOfReported => None,
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

    /// Notes a look that was not needed: the previous one included its trigger.
    pub(super) fn skipped(&mut self) {
        self.wanted = None;
    }

    fn want(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    /// Returns when to look.
    pub(super) fn next_look(&self) -> Instant {
        self.wanted
            .map_or(self.safety, |wanted| wanted.min(self.safety))
    }

    /// Whether a look that is due now is a safety look only.
    pub(super) fn is_safety(&self, now: Instant) -> bool {
        self.wanted.is_none_or(|wanted| wanted > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(schedule: &LookSchedule) -> u128 {
        (schedule.next_look() - schedule.last).as_millis()
    }

    #[test]
    fn safety_looks_grow_seldom_and_a_change_makes_them_frequent_again() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_millis(150), now);
        let mut pauses = Vec::new();
        for news in [
            News::Some,
            News::None,
            News::None,
            News::None,
            News::None,
            News::Some,
        ] {
            schedule.looked(Reporting::All, news, false, now);
            pauses.push(in_ms(&schedule));
            assert!(schedule.is_safety(schedule.next_look()));
        }
        assert_eq!(pauses, [25, 50, 100, 150, 150, 25]);
    }

    #[test]
    fn looks_at_some_windows_put_off_no_look_at_all_of_them() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for _ in 0..6 {
            schedule.looked(Reporting::All, News::None, false, now);
        }
        let safety = schedule.next_look();
        assert_eq!(in_ms(&schedule), 800);
        let now = now + Duration::from_millis(400);
        schedule.paused();
        schedule.looked(Reporting::All, News::NoneOfReported, false, now);
        assert_eq!(schedule.next_look(), safety);
        schedule.looked(Reporting::All, News::Some, false, now);
        assert_eq!(in_ms(&schedule), 25);
    }

    #[test]
    fn printing_panes_are_looked_at_a_few_times_a_second() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for _ in 0..6 {
            schedule.looked(Reporting::All, News::None, false, now);
        }
        assert!(in_ms(&schedule) > 200);
        schedule.printed();
        assert_eq!(in_ms(&schedule), 200);
        let now = now + Duration::from_secs(1);
        schedule.printed();
        assert!(schedule.next_look() <= now);
        assert!(!schedule.is_safety(now));
    }

    #[test]
    fn an_end_that_is_not_settled_is_looked_at_again_at_once() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            schedule.looked(Reporting::All, News::None, true, now);
            pauses.push(in_ms(&schedule));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        schedule.looked(Reporting::All, News::Some, false, now);
        schedule.looked(Reporting::All, News::None, true, now);
        assert_eq!(in_ms(&schedule), 1);
    }

    #[test]
    fn without_a_session_or_a_client_looks_find_what_nobody_tells() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for (reporting, expected) in [
            (Reporting::Absent, [250, 500, 1000, 1000]),
            (Reporting::Nothing, [50, 100, 200, 400]),
        ] {
            let news = [News::Some, News::None, News::None, News::None];
            let pauses = news.map(|news| {
                schedule.looked(reporting, news, false, now);
                in_ms(&schedule)
            });
            assert_eq!(pauses, expected, "{reporting:?}");
        }
    }
}
