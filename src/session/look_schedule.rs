//! When to look without a report: soon when a pane prints, and from time to time at all windows, for safety.

use std::time::{Duration, Instant};

use crate::model::Backoff;

/// The minimum time between looks while panes print: a prompt, which needs two, is reported in half a second.
const WHILE_PRINTING: Duration = Duration::from_millis(200);

/// The same while panes are paused for our client, so that only looks show their output.
const WHILE_PAUSED: Duration = Duration::from_millis(400);

/// The same once that has been so for [`PRINTS_ON`]: it costs as long as it lasts, and a prompt is reported within
/// a second all the same, or in 1.3 where other programs of its task go on running.
const WHILE_LONG_PAUSED: Duration = Duration::from_millis(600);
const PRINTS_ON: Duration = Duration::from_secs(10);

/// A run has ended and tmux has not reported how: the delay until the next look.
const UNSETTLED: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));

/// While there are dead panes, the first safety look comes this long after a change; the delay doubles
/// each time. A respawn of a dead pane is not reported, and usually happens soon after its end: these
/// first looks query only windows whose runs ended last.
const FIRST_WITH_DEAD: Duration = Duration::from_millis(25);

/// From this pause on a safety look is a sweep over all windows.
const FIRST_SWEEP: Duration = Duration::from_millis(200);

/// Up to this pause sweeps are as frequent with many windows: what tmux does not report comes with other changes.
const SOON: Duration = Duration::from_secs(10);

/// After that, the pause is at least this many times what a sweep costs, which so takes 1/1000 of tmux's time.
const SWEEP_PAUSE_FACTOR: u32 = 1000;

/// A sweep of n windows costs tmux about n² times this: it takes more lines the more windows there are,
/// and tmux takes longer for each. 36 ms at 300 windows, with tmux 3.3a.
const SWEEP_COST_PER_SQUARE: Duration = Duration::from_nanos(400);

/// While things change, a sweep is put off by no more than this.
const PUT_OFF: Duration = Duration::from_secs(2);

/// The maximum delay of safety looks while there are dead panes.
const WITH_DEAD: Duration = Duration::from_secs(16);

/// Where changes are not reported: the delay after a change, and the maximum delay.
const UNREPORTED: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The delay while the session is missing, when a look costs a process. A launch makes the daemon look at
/// once; only a session that something else creates is found late.
const ABSENT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// Which changes are reported between looks, as far as it affects the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporting {
    Absent,
    /// Changes are not reported: there is no control client.
    Nothing,
    /// Changes are reported, except for respawns of dead panes, of which there are some.
    AllButRespawns,
    All,
}

/// Why a look is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Due {
    /// Something was reported or is wanted.
    #[default]
    Triggered,
    /// Nothing was reported: check that the runs which ended last have not begun again.
    Ended,
    /// Nothing was reported: check all windows.
    Sweep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LookResult {
    pub(super) reporting: Reporting,
    pub(super) why: Due,
    pub(super) has_changed: bool,
    /// Whether a run has ended and tmux has not said how.
    pub(super) is_unsettled: bool,
    /// Whether all windows have been looked at.
    pub(super) is_whole: bool,
    pub(super) n_windows: usize,
}

#[derive(Debug)]
pub(super) struct LookSchedule {
    /// The longest time between two looks.
    longest: Duration,
    pause: Duration,
    safety: Instant,
    /// When a look is due because something is in progress.
    pub(super) wanted: Option<Instant>,
    /// When a sweep is due even if things go on changing, if anything has changed since the last one.
    sweep_by: Option<Instant>,
    reporting: Reporting,
    n_windows: usize,
    settling: Backoff,
    last: Instant,
    /// The first look of those in a row after which panes were paused.
    paused_since: Option<Instant>,
}

impl LookSchedule {
    pub(super) fn new(longest: Duration, now: Instant) -> Self {
        Self {
            longest,
            pause: Duration::ZERO,
            safety: now,
            wanted: None,
            sweep_by: None,
            reporting: Reporting::Absent,
            n_windows: 0,
            settling: UNSETTLED,
            last: now,
            paused_since: None,
        }
    }

    pub(super) fn printed(&mut self) {
        self.want(self.last + WHILE_PRINTING);
    }

    /// Notes whether panes are paused after a look.
    pub(super) fn note_paused(&mut self, is_any_paused: bool) {
        if !is_any_paused {
            self.paused_since = None;
            return;
        }
        let since = *self.paused_since.get_or_insert(self.last);
        let prints_on = self.last.saturating_duration_since(since) >= PRINTS_ON;
        let pause = match prints_on {
            true => WHILE_LONG_PAUSED,
            false => WHILE_PAUSED,
        };
        self.want(self.last + pause);
    }

    pub(super) fn looked(&mut self, result: LookResult, now: Instant) {
        self.last = now;
        self.wanted = None;
        self.reporting = result.reporting;
        self.n_windows = result.n_windows;
        let (first, most) = match result.reporting {
            Reporting::Absent => ABSENT,
            Reporting::Nothing => UNREPORTED,
            Reporting::AllButRespawns => (FIRST_WITH_DEAD, WITH_DEAD),
            Reporting::All => (FIRST_SWEEP, self.longest),
        };
        let pause = if result.has_changed {
            Some(first)
        } else if result.is_whole || result.why == Due::Ended {
            let doubled = (self.pause * 2).max(first);
            let is_late = result.reporting == Reporting::All && doubled > SOON;
            Some(if is_late {
                doubled.max(late_sweep_pause(result.n_windows))
            } else {
                doubled
            })
        } else {
            // Nothing reported has changed; the other windows were not queried.
            None
        };
        if let Some(pause) = pause {
            self.pause = pause.min(most).min(self.longest);
            self.safety = self.last + self.pause;
        }
        if result.is_whole {
            self.sweep_by = None;
        }
        if result.has_changed {
            self.sweep_by.get_or_insert(now + PUT_OFF);
        }
        if result.is_unsettled {
            let pause = self.settling.next_pause();
            self.want(self.last + pause);
        } else {
            self.settling = UNSETTLED;
        }
    }

    /// Notes a sweep that was not needed, or a look that failed, after which nothing is reported.
    pub(super) fn nothing_found(&mut self, reporting: Reporting, now: Instant) {
        let result = LookResult {
            reporting,
            why: Due::Sweep,
            has_changed: false,
            is_unsettled: false,
            is_whole: true,
            n_windows: self.n_windows,
        };
        self.looked(result, now);
    }

    fn want(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    pub(super) fn next_look(&self) -> Instant {
        let due = [Some(self.safety), self.sweep_by, self.wanted];
        due.into_iter().flatten().min().unwrap_or(self.safety)
    }

    /// Returns which look is due now, if one is.
    pub(super) fn due(&self, now: Instant) -> Option<Due> {
        if self.next_look() > now {
            return None;
        }
        let is_soon = self.pause < FIRST_SWEEP.min(self.longest);
        let is_of_ended = self.reporting == Reporting::AllButRespawns && is_soon;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        Some(match is_due(self.wanted) {
            true => Due::Triggered,
            false if is_of_ended && !is_due(self.sweep_by) => Due::Ended,
            false => Due::Sweep,
        })
    }
}

/// Returns the minimum pause between sweeps over so many windows when nothing has changed for long.
fn late_sweep_pause(n_windows: usize) -> Duration {
    let n_windows = u32::try_from(n_windows).unwrap_or(u32::MAX);
    let cost = SWEEP_COST_PER_SQUARE.saturating_mul(n_windows.saturating_mul(n_windows));
    cost.saturating_mul(SWEEP_PAUSE_FACTOR)
}

/// The first pause between two looks at ports, and the longest.
const FIRST_PORT_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PORT_PAUSE: Duration = Duration::from_millis(320);

/// How many times as long as a look the pause after it is at least: with many processes, a look takes longer.
const PAUSE_PER_PORT_LOOK: u32 = 20;

/// When the ports of runs that are waited for are looked at. The kernel does not report that a process
/// begins to listen, so while somebody waits, it is asked: soon after every look, and else less and less
/// often.
#[derive(Debug)]
pub(super) struct PortLooks {
    /// When the next look is due, if somebody waits; `None` while one is under way.
    pub(super) due: Option<Instant>,
    pause: Duration,
    earliest: Instant,
}

impl PortLooks {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            due: Some(now),
            pause: FIRST_PORT_PAUSE,
            earliest: now,
        }
    }

    /// Looks at once: somebody begins to wait.
    pub(super) fn begin(&mut self, now: Instant) {
        self.pause = FIRST_PORT_PAUSE;
        self.due = self.due.map(|_| now);
    }

    /// Looks as soon as that is allowed: something has changed.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.pause = FIRST_PORT_PAUSE;
        self.due = self.due.map(|due| due.min(self.earliest.max(now)));
    }

    /// Notes that a look is over and took so long.
    pub(super) fn looked(&mut self, took: Duration, now: Instant) {
        let least = (took * PAUSE_PER_PORT_LOOK).max(FIRST_PORT_PAUSE);
        self.earliest = now + least;
        // Something may have changed meanwhile.
        self.due = Some(now + least.max(self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PORT_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(schedule: &LookSchedule) -> u128 {
        (schedule.next_look() - schedule.last).as_millis()
    }

    fn result(reporting: Reporting, has_changed: bool) -> LookResult {
        LookResult {
            reporting,
            why: Due::Sweep,
            has_changed,
            is_unsettled: false,
            is_whole: true,
            n_windows: 5,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn safety_looks_grow_seldom_and_a_change_makes_them_frequent_again() {
        let now = Instant::now();
        for (reporting, expected) in [
            (
                Reporting::AllButRespawns,
                [25, 50, 100, 200, 400, 600, 600, 25],
            ),
            (Reporting::All, [200, 400, 600, 600, 600, 600, 600, 200]),
        ] {
            let mut schedule = LookSchedule::new(ms(600), now);
            let mut changes = [false; 8];
            (changes[0], changes[7]) = (true, true);
            let pauses = changes.map(|has_changed| {
                schedule.looked(result(reporting, has_changed), now);
                let due = schedule.due(schedule.next_look());
                let is_soon = in_ms(&schedule) < 200;
                assert_eq!(due, Some(if is_soon { Due::Ended } else { Due::Sweep }));
                in_ms(&schedule)
            });
            assert_eq!(pauses, expected, "{reporting:?}");
        }
    }

    #[test]
    fn late_sweeps_are_rarer_the_more_windows_there_are() {
        let now = Instant::now();
        let pauses = |reporting, n_windows| {
            let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
            let mut changes = [false; 10];
            (changes[0], changes[9]) = (true, true);
            let pauses = changes.map(|has_changed| {
                let result = LookResult {
                    n_windows,
                    ..result(reporting, has_changed)
                };
                schedule.looked(result, now);
                in_ms(&schedule)
            });
            (pauses[0], pauses[5], pauses[6], pauses[7], pauses[9])
        };
        let all = |n_windows| pauses(Reporting::All, n_windows);
        assert_eq!(all(100), (200, 6400, 12_800, 25_600, 200));
        assert_eq!(all(200), (200, 6400, 16_000, 32_000, 200));
        assert_eq!(all(300), (200, 6400, 36_000, 60_000, 200));
        assert_eq!(all(1_000_000), (200, 6400, 60_000, 60_000, 200));
        // Respawns of dead panes are not reported, so that sweeps are no rarer.
        let with_dead = pauses(Reporting::AllButRespawns, 300);
        assert_eq!(with_dead, (25, 800, 1600, 3200, 25));
    }

    #[test]
    fn a_sweep_is_put_off_while_things_change_and_not_for_ever() {
        let begin = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), begin);
        let mut sweeps = Vec::new();
        // Every 10 ms something changes, for two and a half seconds.
        for millis in (0..5000).step_by(10) {
            let now = begin + ms(millis);
            let is_sweep = schedule.due(now) == Some(Due::Sweep);
            if is_sweep {
                sweeps.push(millis);
            }
            if is_sweep || millis < 2500 {
                let found = LookResult {
                    is_whole: is_sweep,
                    ..result(Reporting::All, millis < 2500)
                };
                schedule.looked(found, now);
            }
        }
        assert_eq!(sweeps, [0, 2000, 2690, 3090, 3890]);
    }

    #[test]
    fn runs_that_ended_last_are_looked_at_before_a_sweep() {
        let begin = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), begin);
        let changed = result(Reporting::AllButRespawns, true);
        schedule.looked(changed, begin);
        let mut looks = Vec::new();
        for _ in 0..5 {
            let now = schedule.next_look();
            looks.push(((now - begin).as_millis(), schedule.due(now)));
            let found = LookResult {
                why: schedule.due(now).unwrap(),
                is_whole: schedule.due(now) == Some(Due::Sweep),
                ..result(Reporting::AllButRespawns, false)
            };
            schedule.looked(found, now);
        }
        let (ended, sweep) = (Some(Due::Ended), Some(Due::Sweep));
        let expected = [
            (25, ended),
            (75, ended),
            (175, ended),
            (375, sweep),
            (775, sweep),
        ];
        assert_eq!(looks, expected);
    }

    /// A schedule after six sweeps that have found nothing.
    fn quiet(now: Instant) -> LookSchedule {
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for _ in 0..6 {
            schedule.looked(result(Reporting::All, false), now);
        }
        assert_eq!(in_ms(&schedule), 6400);
        schedule
    }

    #[test]
    fn looks_at_some_windows_put_off_no_look_at_all_of_them() {
        let now = Instant::now();
        let mut schedule = quiet(now);
        let safety = schedule.next_look();
        let now = now + ms(400);
        schedule.note_paused(true);
        let of_reported = LookResult {
            why: Due::Triggered,
            is_whole: false,
            ..result(Reporting::All, false)
        };
        schedule.looked(of_reported, now);
        assert_eq!(schedule.next_look(), safety);
        schedule.looked(result(Reporting::All, true), now);
        assert_eq!(in_ms(&schedule), 200);
    }

    #[test]
    fn panes_that_have_printed_for_long_are_looked_at_less_often() {
        let start = Instant::now();
        let mut schedule = quiet(start);
        let mut pause = |seconds: u64, is_any_paused| {
            let now = start + Duration::from_secs(seconds);
            schedule.looked(result(Reporting::All, false), now);
            schedule.note_paused(is_any_paused);
            schedule.wanted.map(|at| (at - now).as_millis())
        };
        assert_eq!([pause(0, true), pause(9, true)], [Some(400); 2]);
        assert_eq!(pause(10, true), Some(600));
        assert_eq!([pause(11, false), pause(12, true)], [None, Some(400)]);
    }

    #[test]
    fn printing_panes_are_looked_at_a_few_times_a_second() {
        let now = Instant::now();
        let mut schedule = quiet(now);
        schedule.printed();
        assert_eq!(in_ms(&schedule), 200);
        let now = now + Duration::from_secs(1);
        schedule.printed();
        assert!(schedule.next_look() <= now);
        assert_eq!(schedule.due(now), Some(Due::Triggered));
    }

    #[test]
    fn pauses_are_short_where_an_end_is_not_settled_or_little_is_reported() {
        let now = Instant::now();
        let pauses = |results: &[LookResult]| -> Vec<u128> {
            let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
            let looked = results.iter().map(|result| {
                schedule.looked(*result, now);
                in_ms(&schedule)
            });
            looked.collect()
        };
        let unsettled = LookResult {
            is_unsettled: true,
            ..result(Reporting::All, false)
        };
        let mut looks = vec![unsettled; 9];
        looks.extend([result(Reporting::All, true), unsettled]);
        let expected = [1, 2, 4, 8, 16, 32, 64, 100, 100, 200, 1];
        assert_eq!(pauses(&looks), expected);
        // Without a session or a client looks find what is not reported.
        for (reporting, expected) in [
            (Reporting::Absent, [250, 500, 1000, 2000]),
            (Reporting::Nothing, [50, 100, 200, 400]),
        ] {
            let changes = [true, false, false, false];
            let looks = changes.map(|has_changed| result(reporting, has_changed));
            assert_eq!(pauses(&looks), expected, "{reporting:?}");
        }
    }
}
