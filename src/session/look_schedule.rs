//! When to look: at once when tasks are reported to have changed, soon when a pane prints, and from
//! time to time for safety.

use std::time::{Duration, Instant};

use super::input::Coverage;
use crate::model::Backoff;

/// The minimum time between looks while panes print. A prompt needs two looks, so that it is
/// reported well within half a second.
const WHILE_PRINTING: Duration = Duration::from_millis(200);

/// The time between looks while panes are paused for our client, because only looks show their
/// output: a prompt is reported within about half a second.
const WHILE_PAUSED: Duration = Duration::from_millis(400);

/// A run has ended and tmux has not reported how: the delay until the next look.
const UNSETTLED: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));

/// While there are dead panes, the first safety look comes this long after a change; the delay doubles
/// each time. A respawn of a dead pane is not reported, and usually happens soon after its end: these
/// first looks query only windows whose runs ended last.
const FIRST_WITH_DEAD: Duration = Duration::from_millis(25);

/// From this pause on a safety look sweeps over all windows, in parts.
const FIRST_SWEEP: Duration = Duration::from_millis(200);

/// Until the pause is this long, sweeps are no rarer with many windows: what tmux does not report
/// usually comes with other changes.
const SOON: Duration = Duration::from_secs(10);

/// After that, the pause is at least this many times what a sweep costs: it takes a thousandth of
/// tmux's time.
const SWEEP_PAUSE_FACTOR: u32 = 1000;

/// A sweep of n windows costs tmux about n² times this: it takes more lines the more windows there are,
/// and tmux takes longer for each. 36 ms at 300 windows, with tmux 3.3a.
const SWEEP_COST_PER_SQUARE: Duration = Duration::from_nanos(400);

/// Between two parts of a sweep: other jobs go first, and tmux serves others.
const PART_PAUSE: Duration = Duration::from_millis(5);

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
    /// The session is missing.
    Absent,
    /// Changes are not reported: there is no control client.
    Nothing,
    /// Changes are reported, except for respawns of dead panes, of which there are some.
    AllButRespawns,
    /// Changes are reported.
    All,
}

/// Which look is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Something was reported or ordered.
    Triggered,
    /// Nothing was reported: check that the runs which ended last have not begun again.
    Ended,
    /// Nothing was reported: check the next part of all windows.
    Part,
}

/// Whether a look found a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookFinding {
    /// Something has changed.
    Changed,
    /// Nothing has changed.
    Unchanged,
    /// Nothing reported has changed; the other windows were not queried.
    ReportedUnchanged,
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LookResult {
    pub(super) reporting: Reporting,
    pub(super) finding: LookFinding,
    /// Whether a run has ended and tmux has not said how.
    pub(super) is_unsettled: bool,
    /// Whether it was a part of a sweep.
    pub(super) is_part: bool,
    pub(super) coverage: Coverage,
    /// How many windows the session has.
    pub(super) n_windows: usize,
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
    /// When the next part of a sweep is due; `None` while there is no sweep.
    part: Option<Instant>,
    /// When a sweep is due even if things go on changing; `None` when nothing has changed since the
    /// last one.
    sweep_by: Option<Instant>,
    reporting: Reporting,
    /// How many windows the session had in the last look.
    n_windows: usize,
    settling: Backoff,
    last: Instant,
}

impl LookSchedule {
    pub(super) fn new(longest: Duration, now: Instant) -> Self {
        Self {
            longest,
            pause: Duration::ZERO,
            safety: now,
            wanted: None,
            part: None,
            sweep_by: None,
            reporting: Reporting::Absent,
            n_windows: 0,
            settling: UNSETTLED,
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
    pub(super) fn looked(&mut self, result: LookResult, now: Instant) {
        let LookResult {
            reporting,
            finding,
            is_unsettled,
            is_part,
            coverage,
            n_windows,
        } = result;
        self.last = now;
        self.wanted = None;
        self.reporting = reporting;
        self.n_windows = n_windows;
        let (first, most) = match reporting {
            Reporting::Absent => ABSENT,
            Reporting::Nothing => UNREPORTED,
            Reporting::AllButRespawns => (FIRST_WITH_DEAD, WITH_DEAD),
            Reporting::All => (FIRST_SWEEP, self.longest),
        };
        let pause = match finding {
            LookFinding::Changed => Some(first),
            LookFinding::Unchanged => {
                let doubled = (self.pause * 2).max(first);
                let is_late = reporting == Reporting::All && doubled > SOON;
                Some(if is_late {
                    doubled.max(late_sweep_pause(n_windows))
                } else {
                    doubled
                })
            }
            LookFinding::ReportedUnchanged => None,
        };
        if let Some(pause) = pause {
            self.pause = pause.min(most).min(self.longest);
            self.safety = self.last + self.pause;
        }
        match (coverage, is_part) {
            (Coverage::Whole, _) | (Coverage::Reported, true) => self.end_sweep(),
            (Coverage::Sweeping, true) => self.part = Some(now + PART_PAUSE),
            (Coverage::Reported | Coverage::Sweeping, false) => {}
        }
        if finding == LookFinding::Changed {
            let by = *self.sweep_by.get_or_insert(now + PUT_OFF);
            let put_off = (now + FIRST_SWEEP).min(by);
            self.part = self.part.map(|part| part.max(put_off));
        }
        if is_unsettled {
            let pause = self.settling.next_pause();
            self.want(self.last + pause);
        } else {
            self.settling = UNSETTLED;
        }
    }

    /// Notes a part of a sweep that found nothing new and was not the last one.
    pub(super) fn swept_part(&mut self, now: Instant) {
        self.part = Some(now + PART_PAUSE);
    }

    /// Notes a sweep that was not needed: nothing has changed since everything was looked at.
    pub(super) fn nothing_to_sweep(&mut self, reporting: Reporting, now: Instant) {
        self.looked_at_all(reporting, now);
    }

    /// Notes a look that failed.
    pub(super) fn failed(&mut self, now: Instant) {
        self.looked_at_all(Reporting::Nothing, now);
    }

    fn looked_at_all(&mut self, reporting: Reporting, now: Instant) {
        let result = LookResult {
            reporting,
            finding: LookFinding::Unchanged,
            is_unsettled: false,
            is_part: false,
            coverage: Coverage::Whole,
            n_windows: self.n_windows,
        };
        self.looked(result, now);
    }

    fn end_sweep(&mut self) {
        self.part = None;
        self.sweep_by = None;
    }

    /// Notes a look that was not needed: the previous one included its trigger.
    pub(super) fn skipped(&mut self) {
        self.wanted = None;
    }

    fn want(&mut self, at: Instant) {
        self.wanted = Some(self.wanted.map_or(at, |wanted| wanted.min(at)));
    }

    /// Returns when a look is due because something is in progress.
    pub(super) fn wanted(&self) -> Option<Instant> {
        self.wanted
    }

    /// Returns when to look.
    pub(super) fn next_look(&self) -> Instant {
        let safety = match (self.part, self.sweep_by) {
            (Some(part), _) if self.checks_ended_first() => part.min(self.safety),
            (Some(part), _) => part,
            (None, Some(by)) => self.safety.min(by),
            (None, None) => self.safety,
        };
        self.wanted.map_or(safety, |wanted| wanted.min(safety))
    }

    /// Returns which look is due now, if one is.
    pub(super) fn due(&self, now: Instant) -> Option<Due> {
        if self.next_look() > now {
            return None;
        }
        let is_sweep_due = match (self.part, self.sweep_by) {
            (Some(part), _) => part <= now,
            (None, by) => by.is_some_and(|by| by <= now) || !self.checks_ended_first(),
        };
        Some(if self.wanted.is_some_and(|wanted| wanted <= now) {
            Due::Triggered
        } else if is_sweep_due {
            Due::Part
        } else {
            Due::Ended
        })
    }

    /// Whether the next safety look comes so soon that it looks only at runs which have just ended.
    fn checks_ended_first(&self) -> bool {
        self.reporting == Reporting::AllButRespawns && self.pause < FIRST_SWEEP.min(self.longest)
    }
}

/// Returns the minimum pause between sweeps over so many windows when nothing has changed for long.
fn late_sweep_pause(n_windows: usize) -> Duration {
    let n_windows = u32::try_from(n_windows).unwrap_or(u32::MAX);
    let cost = SWEEP_COST_PER_SQUARE.saturating_mul(n_windows.saturating_mul(n_windows));
    cost.saturating_mul(SWEEP_PAUSE_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(schedule: &LookSchedule) -> u128 {
        (schedule.next_look() - schedule.last).as_millis()
    }

    fn result(reporting: Reporting, finding: LookFinding) -> LookResult {
        LookResult {
            reporting,
            finding,
            is_unsettled: false,
            is_part: false,
            coverage: match finding {
                LookFinding::Changed | LookFinding::Unchanged => Coverage::Whole,
                LookFinding::ReportedUnchanged => Coverage::Reported,
            },
            n_windows: 5,
        }
    }

    fn unsettled(finding: LookFinding) -> LookResult {
        LookResult {
            is_unsettled: true,
            ..result(Reporting::All, finding)
        }
    }

    /// A part of a sweep that has further parts.
    fn part(finding: LookFinding) -> LookResult {
        LookResult {
            is_part: true,
            ..between_parts(finding)
        }
    }

    /// Another look during a sweep.
    fn between_parts(finding: LookFinding) -> LookResult {
        LookResult {
            coverage: Coverage::Sweeping,
            ..result(Reporting::AllButRespawns, finding)
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
            let mut findings = [LookFinding::Unchanged; 8];
            (findings[0], findings[7]) = (LookFinding::Changed, LookFinding::Changed);
            let pauses = findings.map(|finding| {
                schedule.looked(result(reporting, finding), now);
                let due = schedule.due(schedule.next_look());
                let is_soon = in_ms(&schedule) < 200;
                assert_eq!(due, Some(if is_soon { Due::Ended } else { Due::Part }));
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
            let mut findings = [LookFinding::Unchanged; 10];
            (findings[0], findings[9]) = (LookFinding::Changed, LookFinding::Changed);
            let pauses = findings.map(|finding| {
                let result = LookResult {
                    n_windows,
                    ..result(reporting, finding)
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
    fn the_parts_of_a_sweep_follow_soon_and_are_put_off_while_things_change() {
        let begin = Instant::now();
        let at = |millis| begin + ms(millis);
        let mut schedule = LookSchedule::new(Duration::from_secs(60), begin);
        for _ in 0..4 {
            schedule.looked(
                result(Reporting::AllButRespawns, LookFinding::Unchanged),
                begin,
            );
        }
        assert_eq!(schedule.next_look(), at(200));
        assert_eq!(schedule.due(at(200)), Some(Due::Part));
        schedule.swept_part(at(200));
        assert_eq!(schedule.next_look(), at(205));
        assert_eq!(schedule.due(at(205)), Some(Due::Part));
        // Something changes: what has just ended is looked at first.
        schedule.looked(part(LookFinding::Changed), at(205));
        assert_eq!(schedule.next_look(), at(230));
        assert_eq!(schedule.due(at(230)), Some(Due::Ended));
        schedule.looked(between_parts(LookFinding::Unchanged), at(230));
        assert_eq!(schedule.next_look(), at(280));
        schedule.looked(between_parts(LookFinding::ReportedUnchanged), at(270));
        schedule.looked(between_parts(LookFinding::Unchanged), at(280));
        assert_eq!(schedule.next_look(), at(380));
        schedule.looked(between_parts(LookFinding::Unchanged), at(380));
        assert_eq!(schedule.next_look(), at(405));
        assert_eq!(schedule.due(at(405)), Some(Due::Part));
        schedule.looked(part(LookFinding::ReportedUnchanged), at(405));
        assert_eq!(schedule.next_look(), at(410));
        // The last part.
        schedule.looked(
            result(Reporting::AllButRespawns, LookFinding::Unchanged),
            at(410),
        );
        assert_eq!(schedule.next_look(), at(810));
    }

    #[test]
    fn a_sweep_is_not_put_off_for_ever() {
        let begin = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), begin);
        let mut parts = Vec::new();
        // Every 10 ms something changes; a sweep has three parts.
        for millis in (0..5000).step_by(10) {
            let now = begin + ms(millis);
            let is_part = schedule.due(now) == Some(Due::Part);
            if is_part {
                parts.push(millis);
            }
            let is_sweeping = parts.len() % 3 != 0;
            let coverage = if is_sweeping {
                Coverage::Sweeping
            } else {
                Coverage::Reported
            };
            let found = LookResult {
                is_part,
                coverage,
                ..part(LookFinding::Changed)
            };
            schedule.looked(found, now);
        }
        assert_eq!(parts, [0, 2000, 2010, 4010, 4020, 4030]);
    }

    #[test]
    fn a_failed_look_leaves_no_part_that_is_due_at_once() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        schedule.swept_part(now);
        schedule.failed(now);
        assert_eq!(in_ms(&schedule), 50);
    }

    #[test]
    fn looks_at_some_windows_put_off_no_look_at_all_of_them() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for _ in 0..6 {
            schedule.looked(result(Reporting::All, LookFinding::Unchanged), now);
        }
        let safety = schedule.next_look();
        assert_eq!(in_ms(&schedule), 6400);
        let now = now + Duration::from_millis(400);
        schedule.paused();
        schedule.looked(result(Reporting::All, LookFinding::ReportedUnchanged), now);
        assert_eq!(schedule.next_look(), safety);
        schedule.looked(result(Reporting::All, LookFinding::Changed), now);
        assert_eq!(in_ms(&schedule), 200);
    }

    #[test]
    fn printing_panes_are_looked_at_a_few_times_a_second() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for _ in 0..6 {
            schedule.looked(result(Reporting::All, LookFinding::Unchanged), now);
        }
        assert!(in_ms(&schedule) > 200);
        schedule.printed();
        assert_eq!(in_ms(&schedule), 200);
        let now = now + Duration::from_secs(1);
        schedule.printed();
        assert!(schedule.next_look() <= now);
        assert_eq!(schedule.due(now), Some(Due::Triggered));
    }

    #[test]
    fn an_end_that_is_not_settled_is_looked_at_again_at_once() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            schedule.looked(unsettled(LookFinding::Unchanged), now);
            pauses.push(in_ms(&schedule));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        schedule.looked(result(Reporting::All, LookFinding::Changed), now);
        schedule.looked(unsettled(LookFinding::Unchanged), now);
        assert_eq!(in_ms(&schedule), 1);
    }

    #[test]
    fn without_a_session_or_a_client_looks_find_what_is_not_reported() {
        let now = Instant::now();
        let mut schedule = LookSchedule::new(Duration::from_secs(60), now);
        for (reporting, expected) in [
            (Reporting::Absent, [250, 500, 1000, 2000]),
            (Reporting::Nothing, [50, 100, 200, 400]),
        ] {
            let findings = [
                LookFinding::Changed,
                LookFinding::Unchanged,
                LookFinding::Unchanged,
                LookFinding::Unchanged,
            ];
            let pauses = findings.map(|finding| {
                schedule.looked(result(reporting, finding), now);
                in_ms(&schedule)
            });
            assert_eq!(pauses, expected, "{reporting:?}");
        }
    }
}
