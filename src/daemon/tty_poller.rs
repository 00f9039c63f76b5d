//! When to examine a pane's terminal: once its output has stopped, and then whenever its programs
//! have run, because one may begin to wait without printing.
//!
//! Whether they have run is checked less and less often, in rounds for all panes together. A check
//! costs half a microsecond per process, an examination several hundred times as much. Both are
//! limited to a thousandth of our time, whatever the tasks do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::model::{Now, ReadCall, Screen, Snapshot, TtyEvidence, TtyUse, WindowId};
use crate::process::{self, TtyExamination};
use crate::prompt::{self, UserRules};
use crate::protocol::rows::Look;

/// The pause after the first examination, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The maximum pause for a screen with a prompt or a reported one: here changes matter.
const WARY_PAUSE: Duration = Duration::from_millis(500);

/// The maximum pause between two rounds for any other.
const ROUND_PAUSE: Duration = Duration::from_secs(2);

/// The maximum pause for any other whose programs run all the time, or for which that is not known.
const RESTLESS_PAUSE: Duration = Duration::from_secs(10);

/// After this time a pane is examined again even if its programs have not run: its terminal may
/// have been changed from outside.
const ASK_BY: Duration = Duration::from_secs(300);

/// Screens that became quiet within this time are examined together.
const TOGETHER: Duration = Duration::from_millis(20);

/// The pause before something hidden is examined a second time. Longer than a thread needs on a
/// busy machine to fall asleep, wake up or end.
const SECOND_PAUSE: Duration = Duration::from_millis(100);

/// The part of our time for rounds, and for examinations.
const PART: u32 = 1000;

/// How much may be examined at once, as saved-up time: five milliseconds.
const AHEAD: Duration = Duration::from_secs(5);

/// A program that checks for keys sleeps in between at least so many times a second: with fewer
/// checks, a key has no effect at once.
const CHECKS_PER_SECOND: u32 = 3;

/// The time over which the sleeps of programs are counted.
const COUNTING: Duration = Duration::from_secs(1);

/// How long one call may examine and check: the thread has other things to do in between. What is
/// left is due at once.
const SLICE: Duration = Duration::from_millis(2);

/// After so many checks the time is read: to read it takes as long as a check.
const CHECKS_PER_READING: usize = 16;

/// Once the part for examinations is used up, the next are examined together, this much later.
const BATCH: Duration = Duration::from_millis(500);

/// The evidence on the terminals of a session's tasks.
#[derive(Debug, Default)]
pub(super) struct TtyPoller {
    panes: BTreeMap<WindowId, Pane>,
    /// The earliest time of the next round.
    round_at: Option<Instant>,
    /// What the parts of the present round have cost so far.
    round_cost: Duration,
    /// Since when something is left over from the last call; `None` when nothing is.
    left_since: Option<Instant>,
    asking: Allowance,
    /// Whether programs have run, or may have, since this was last taken.
    has_run: bool,
    /// Whether there are live tasks whose programs are not known: without a terminal, or in copy mode
    /// since they were first seen.
    has_unknown: bool,
}

#[derive(Debug)]
struct Pane {
    pid: u32,
    tty: PathBuf,
    /// As of the last look.
    screen: Screen,
    /// The last result; `None` while its output moves, and while the result is in doubt.
    known: Option<LastExamination>,
    /// A result that is confirmed when the reader is hidden twice in a row.
    doubt: Option<Doubt>,
    /// The call in which it was read, as of the last look.
    shown: Option<ShownCall>,
    /// Whether its programs may check for keys: they run, and sleep often in between.
    may_check_keys: bool,
    /// How often they had slept at the examination from which on this is counted, and when it was.
    slept: Option<(u64, Instant)>,
    /// When it counts as quiet, or takes part in a round.
    next: Instant,
}

/// A reported call in which a terminal is read.
#[derive(Debug, Clone, Copy)]
struct ShownCall {
    read: ReadCall,
    /// When, in seconds of tmux's clock.
    second: i64,
}

/// The result for a pane that is quiet.
#[derive(Debug)]
struct LastExamination {
    examination: TtyExamination,
    at: Instant,
    /// Whether it shows a prompt.
    is_wary: bool,
    /// The pause until its next round.
    pause: Duration,
    /// The pause until it may be examined again if its programs run.
    rest: Duration,
    /// Why, and since when, it is due for an examination.
    stale: Option<Stale>,
}

/// A pane whose reader was hidden at the last examination, or had left a reported prompt, and not at
/// the one before.
///
/// A program that checks for keys is somewhere else for a moment now and then. The kernel hides the
/// state of another user's threads, and that of our own threads for a moment while they fall asleep,
/// wake up or end.
#[derive(Debug)]
struct Doubt {
    /// The evidence meanwhile.
    shown: Arc<TtyEvidence>,
    /// The previous evidence; `None` where its output has just stopped.
    before: Option<LastExamination>,
}

/// Why a pane is due for an examination, the more urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// Its programs have run.
    Ran,
    /// The last examination is long ago.
    Old,
}

type Stale = (Why, Instant);

/// What decides which pane is examined first: of those whose programs have run, the reported ones,
/// because their answers are expected, then those that seldom run, and of them the longest due.
type Urgency = (Why, bool, Duration, Instant);

impl TtyPoller {
    /// Notes a look, and adds the evidence on terminals of tasks whose output has stopped for
    /// `quiet` to its snapshot. `waits` says which were reported as waiting.
    pub(super) fn add_to(
        &mut self,
        snapshot: &mut Snapshot,
        look: Option<&Look>,
        waits: impl Fn(WindowId) -> bool,
        quiet: Duration,
        at: Now,
    ) {
        let now = at.mono;
        self.panes.retain(|window, _| {
            snapshot
                .tasks
                .get(window)
                .is_some_and(|task| task.is_alive())
        });
        let rows = look.map_or(&[][..], |look| &look.windows);
        for row in rows {
            let tty = row.pane.as_ref().and_then(|pane| pane.tty.as_deref());
            let in_mode = row.pane.as_ref().is_some_and(|pane| pane.in_mode);
            let task = snapshot.tasks.get(&row.window);
            let Some((task, pid, tty)) = task
                .filter(|task| task.is_alive() && !in_mode)
                .and_then(|task| Some((task, task.pid?, tty?)))
            else {
                continue;
            };
            let rests = || Pane {
                pid,
                tty: PathBuf::from(tty),
                screen: task.screen.clone(),
                known: None,
                doubt: None,
                shown: None,
                may_check_keys: false,
                slept: None,
                next: now + quiet,
            };
            let is_reported = waits(row.window);
            // What the previous daemon has reported may be a program that checks for keys.
            let pane = self.panes.entry(row.window).or_insert_with(|| Pane {
                may_check_keys: is_reported,
                ..rests()
            });
            if pane.pid != pid || pane.screen != task.screen {
                // A countdown goes on.
                let goes_on = pane.pid == pid && differ_in_numbers(&pane.screen, &task.screen);
                *pane = Pane {
                    may_check_keys: goes_on && pane.may_check_keys,
                    ..rests()
                };
            }
            // Shared, which makes the next comparison fast.
            pane.screen = task.screen.clone();
            let is_due = match &pane.known {
                None => (is_reported && pane.doubt.is_none()) || pane.next <= now,
                // This look has to show whether it still waits, or whether it has waited long
                // enough.
                Some(known) => {
                    (is_reported || known.reads_keys()) && !known.examination.activity.lasts()
                }
            };
            if is_due {
                self.has_run = true;
                pane.examine(is_reported, now);
            }
            if let Some(evidence) = pane.show(row.activity, at.wall.div_euclid(1000)) {
                snapshot.terminals.insert(row.window, evidence);
            }
        }
        let mut alive = snapshot.tasks.iter().filter(|(_, task)| task.is_alive());
        self.has_unknown = alive.any(|(window, _)| !self.panes.contains_key(window));
    }

    /// Whether programs of tasks have run, or may have, since this was last called. A program that
    /// has left its task's process tree is not noticed.
    pub(super) fn take_has_run(&mut self) -> bool {
        let has_moving = self.panes.values().any(|pane| pane.known.is_none());
        std::mem::take(&mut self.has_run) || self.has_unknown || has_moving
    }

    /// Examines those that are due. Returns the windows whose evidence has changed.
    pub(super) fn ask_due(
        &mut self,
        waits: impl Fn(WindowId) -> bool,
        user_rules: &UserRules,
        now: Instant,
    ) -> BTreeSet<WindowId> {
        let mut changed = BTreeSet::new();
        if self.next_deadline().is_none_or(|due| due > now + TOGETHER) {
            return changed;
        }
        let slice = Slice::begin();
        self.left_since = None;
        self.go_round(&waits, &slice, now);
        let mut stale: Vec<(Urgency, WindowId)> = self
            .panes
            .iter()
            .filter_map(|(window, pane)| Some((pane.urgency(waits(*window), now)?, *window)))
            .collect();
        stale.sort_unstable();
        for (_, window) in stale {
            let Some(pane) = self.panes.get_mut(&window) else {
                continue;
            };
            // A screen that has just become quiet is always examined.
            let is_quiet = pane.known.is_some();
            if is_quiet && !self.asking.has(now) {
                continue;
            }
            if slice.is_over() {
                self.left_since = Some(now);
                break;
            }
            self.has_run |= !is_quiet;
            let is_reported = waits(window);
            let before = pane.evidence().cloned();
            let began = clock::thread_time();
            pane.examine(is_reported, now);
            if is_quiet {
                let cost = clock::thread_time().saturating_sub(began);
                self.asking.spend(cost, now);
            }
            if before.as_ref() != pane.evidence() {
                let evidence = pane.evidence().map(Arc::as_ref);
                let judged = prompt::judge(&pane.screen, evidence, user_rules);
                if judged.found.is_some() != is_reported {
                    changed.insert(window);
                }
            }
        }
        changed
    }

    /// Checks whose programs have run.
    fn go_round(&mut self, waits: impl Fn(WindowId) -> bool, slice: &Slice, now: Instant) {
        let mut known = self.panes.values().filter(|pane| pane.known.is_some());
        let is_due = known.any(|pane| pane.next <= now + TOGETHER);
        if !is_due || self.round_at.is_some_and(|at| at > now) {
            return;
        }
        let began = clock::thread_time();
        let mut n_checked = 0;
        for (window, pane) in &mut self.panes {
            if let Some(known) = &mut pane.known {
                // Those that are due soon are included, so that all are checked together.
                if pane.next <= now + known.pause / 2 {
                    n_checked += 1;
                    if n_checked % CHECKS_PER_READING == 0 && slice.is_over() {
                        self.left_since = Some(now);
                        break;
                    }
                    let has_run = known.take_part(waits(*window), now);
                    self.has_run |= has_run;
                    pane.next = now + known.pause;
                }
            }
        }
        self.round_cost += clock::thread_time().saturating_sub(began);
        if self.left_since.is_none() {
            let cost = std::mem::take(&mut self.round_cost);
            self.round_at = Some(now + (cost * PART).min(RESTLESS_PAUSE));
        }
    }

    /// Returns when [`TtyPoller::ask_due`] is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let due = self.panes.values().map(|pane| match &pane.known {
            None => pane.next,
            Some(known) => {
                let round = self.round_at.map_or(pane.next, |at| at.max(pane.next));
                if known.stale.is_some() {
                    self.asking.next().map_or(round, |next| next.min(round))
                } else {
                    round
                }
            }
        });
        due.chain(self.left_since).min()
    }
}

/// The time that one call may take.
#[derive(Debug)]
struct Slice {
    began: Duration,
}

impl Slice {
    fn begin() -> Self {
        Self {
            began: clock::thread_time(),
        }
    }

    fn is_over(&self) -> bool {
        clock::thread_time().saturating_sub(self.began) >= SLICE
    }
}

impl Pane {
    fn evidence(&self) -> Option<&Arc<TtyEvidence>> {
        match (&self.known, &self.doubt) {
            (Some(known), _) => known.examination.evidence.as_ref(),
            (None, Some(doubt)) => Some(&doubt.shown),
            (None, None) => None,
        }
    }

    /// Returns the evidence for a look in this `second` that found no output since `activity`.
    ///
    /// A program that has printed nothing has asked nothing: a signal may have interrupted the
    /// call, and its handler may have read something.
    fn show(&mut self, activity: i64, second: i64) -> Option<Arc<TtyEvidence>> {
        let evidence = Arc::clone(self.evidence()?);
        let Some(read) = evidence.read else {
            self.shown = None;
            return Some(evidence);
        };
        let before = self.shown.filter(|shown| {
            shown.read.thread == read.thread && activity < shown.second && shown.read != read
        });
        if let Some(shown) = before {
            return Some(Arc::new(TtyEvidence {
                read: Some(shown.read),
                ..TtyEvidence::clone(&evidence)
            }));
        }
        self.shown = Some(ShownCall { read, second });
        Some(evidence)
    }

    /// Returns how urgently it has to be examined; `None` while it has not.
    fn urgency(&self, is_reported: bool, now: Instant) -> Option<Urgency> {
        match &self.known {
            None => {
                let is_due = self.next <= now + TOGETHER;
                is_due.then_some((Why::Ran, false, Duration::ZERO, self.next))
            }
            Some(known) => {
                let (why, since) = known.stale?;
                Some((why, !is_reported, known.rest, since))
            }
        }
    }

    /// Examines a terminal completely.
    fn examine(&mut self, is_reported: bool, now: Instant) {
        let examination = process::examine(self.pid, &self.tty);
        self.take(examination, is_reported, now);
    }

    /// Notes how often the programs have slept until now; `None` where that is not known.
    fn count_pauses(&mut self, pauses: Option<u64>, now: Instant) {
        // A program may have ended meanwhile, or be hidden for a moment: that says nothing.
        let Some(pauses) = pauses else { return };
        let Some((before, since)) = self.slept else {
            self.slept = Some((pauses, now));
            return;
        };
        let counted_for = now.saturating_duration_since(since);
        // The first one may have been at the very beginning.
        let n_pauses = pauses.saturating_sub(before).saturating_sub(1);
        let least = counted_for.as_millis() * u128::from(CHECKS_PER_SECOND);
        let is_often = n_pauses > 0 && u128::from(n_pauses) * 1000 >= least;
        if is_often || counted_for >= COUNTING {
            self.may_check_keys = is_often;
            self.slept = Some((pauses, now));
        }
    }

    /// Stores a result.
    fn take(&mut self, mut examination: TtyExamination, is_reported: bool, now: Instant) {
        let was_doubted = self.doubt.is_some();
        let before = match self.doubt.take() {
            Some(doubt) => doubt.before,
            None => self.known.take(),
        };
        self.count_pauses(examination.pauses, now);
        if let Some(evidence) = &mut examination.evidence {
            Arc::make_mut(evidence).checks_no_keys = !self.may_check_keys;
        }
        let has_left = is_reported
            && is_elsewhere(examination.evidence.as_deref())
            && before.as_ref().is_some_and(LastExamination::has_reader);
        let was_hidden = match &before {
            Some(before) => hides_reader(before.examination.evidence.as_deref()),
            // A reported prompt remains until there is evidence against it.
            None => is_reported,
        };
        let is_hidden = hides_reader(examination.evidence.as_deref()) && !was_hidden;
        if (is_hidden || has_left) && !was_doubted {
            let known = before
                .as_ref()
                .and_then(|known| known.examination.evidence.clone());
            self.doubt = Some(Doubt {
                shown: known.unwrap_or_else(|| without_reader(examination.evidence.as_deref())),
                before,
            });
            self.next = now + SECOND_PAUSE;
            return;
        }
        let is_wary = match &before {
            Some(before) => before.is_wary,
            None => prompt::find(&self.screen).is_some(),
        };
        let longest = if is_wary || is_reported {
            WARY_PAUSE
        } else {
            RESTLESS_PAUSE
        };
        let (pause, rest) = match &before {
            Some(before) if before.examination.evidence == examination.evidence => {
                (before.pause, (before.rest * 2).clamp(FIRST_PAUSE, longest))
            }
            Some(_) | None => (FIRST_PAUSE, FIRST_PAUSE),
        };
        self.known = Some(LastExamination {
            examination,
            at: now,
            is_wary,
            pause,
            rest,
            stale: None,
        });
        self.next = now + pause;
    }
}

/// Whether nothing but numbers differs.
fn differ_in_numbers(before: &Screen, after: &Screen) -> bool {
    let is_other = |c: &char| !c.is_ascii_digit() && !c.is_whitespace();
    let is_same = |(before, after): (&String, &String)| {
        before == after || (before.chars().filter(is_other)).eq(after.chars().filter(is_other))
    };
    before.rows.len() == after.rows.len() && before.rows.iter().zip(after.rows.iter()).all(is_same)
}

fn hides_reader(evidence: Option<&TtyEvidence>) -> bool {
    evidence.is_none_or(|evidence| evidence.reader == TtyUse::Unknown)
}

fn is_elsewhere(evidence: Option<&TtyEvidence>) -> bool {
    evidence.is_some_and(|evidence| evidence.reader == TtyUse::Elsewhere)
}

/// Returns this evidence without a reader of the terminal.
fn without_reader(evidence: Option<&TtyEvidence>) -> Arc<TtyEvidence> {
    Arc::new(TtyEvidence {
        reader: TtyUse::Elsewhere,
        ..evidence.cloned().unwrap_or_default()
    })
}

impl LastExamination {
    /// Whether a program read the terminal, or checked it for keys.
    fn has_reader(&self) -> bool {
        let evidence = self.examination.evidence.as_ref();
        evidence
            .is_some_and(|evidence| matches!(evidence.reader, TtyUse::Reading | TtyUse::Polling))
    }

    /// Whether a program was blocked reading keys, which is reported only after a while.
    fn reads_keys(&self) -> bool {
        let evidence = self.examination.evidence.as_ref();
        evidence.is_some_and(|evidence| {
            evidence.reader == TtyUse::Reading && evidence.canonical == Some(false)
        })
    }

    /// Checks whether its programs have run, and sets the time of the next check. Returns whether
    /// they have.
    fn take_part(&mut self, is_reported: bool, now: Instant) -> bool {
        let longest = if self.is_wary || is_reported {
            WARY_PAUSE
        } else {
            ROUND_PAUSE
        };
        self.pause = (self.pause * 2).min(longest);
        if matches!(self.stale, Some((Why::Ran, _))) {
            return true;
        }
        let age = now.saturating_duration_since(self.at);
        if !self.examination.activity.lasts() {
            if age >= self.rest {
                self.stale = Some((Why::Ran, now));
            }
            return true;
        }
        // It comes before those that have run ever since they were examined.
        self.rest = Duration::ZERO;
        if age >= ASK_BY && self.stale.is_none() {
            self.stale = Some((Why::Old, now));
        }
        false
    }
}

/// A part of every second, of which some can be saved up.
#[derive(Debug, Default)]
struct Allowance {
    /// When there will be some again; `None` before any was used.
    from: Option<Instant>,
}

impl Allowance {
    /// Returns when more will be available.
    fn next(&self) -> Option<Instant> {
        self.from.map(|from| from + BATCH)
    }

    fn has(&self, now: Instant) -> bool {
        self.from.is_none_or(|from| from <= now)
    }

    fn spend(&mut self, cost: Duration, now: Instant) {
        let saved = now.checked_sub(AHEAD).unwrap_or(now);
        let from = self.from.map_or(saved, |from| from.max(saved));
        self.from = Some(from + cost * PART);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane() -> Pane {
        Pane {
            pid: 1,
            tty: PathBuf::from("/dev/pts/7"),
            screen: Screen::default(),
            known: None,
            doubt: None,
            shown: None,
            may_check_keys: false,
            slept: None,
            next: Instant::now(),
        }
    }

    fn examination(reader: TtyUse) -> TtyExamination {
        TtyExamination {
            evidence: Some(Arc::new(TtyEvidence {
                reader,
                canonical: Some(true),
                ..TtyEvidence::default()
            })),
            activity: Default::default(),
            pauses: None,
        }
    }

    /// The answers of several examinations, and the evidence after each.
    #[track_caller]
    fn check(is_reported: bool, answers: &[(TtyUse, TtyUse)]) {
        let mut pane = pane();
        let mut now = Instant::now();
        for (n, (answer, expected)) in answers.iter().enumerate() {
            pane.take(examination(*answer), is_reported, now);
            let reader = pane.evidence().map(|evidence| evidence.reader);
            assert_eq!(reader, Some(*expected), "answer {n} of {answers:?}");
            assert!(pane.next > now);
            now = pane.next;
        }
    }

    #[test]
    fn a_reader_that_is_hidden_once_is_not_hidden() {
        use TtyUse::{Elsewhere, Polling, Reading, Unknown};
        check(false, &[(Unknown, Elsewhere), (Unknown, Unknown)]);
        check(false, &[(Unknown, Elsewhere), (Reading, Reading)]);
        check(
            false,
            &[
                (Unknown, Elsewhere),
                (Elsewhere, Elsewhere),
                (Unknown, Elsewhere),
                (Elsewhere, Elsewhere),
            ],
        );
        check(
            false,
            &[
                (Polling, Polling),
                (Unknown, Polling),
                (Unknown, Unknown),
                (Unknown, Unknown),
                (Reading, Reading),
                (Unknown, Reading),
            ],
        );
    }

    #[test]
    fn what_was_reported_stays_while_the_reader_is_hidden() {
        use TtyUse::{Elsewhere, Reading, Unknown};
        check(true, &[(Unknown, Unknown), (Unknown, Unknown)]);
        check(
            true,
            &[
                (Reading, Reading),
                (Unknown, Reading),
                (Elsewhere, Elsewhere),
            ],
        );
    }

    #[test]
    fn what_was_reported_stays_until_its_reader_has_left_twice() {
        use TtyUse::{Elsewhere, Polling, Reading};
        for reads in [Reading, Polling] {
            let goes_on = [(reads, reads), (Elsewhere, reads), (reads, reads)];
            check(true, &goes_on);
            let ends = [(reads, reads), (Elsewhere, reads), (Elsewhere, Elsewhere)];
            check(true, &ends);
            check(false, &[(reads, reads), (Elsewhere, Elsewhere)]);
        }
    }

    #[test]
    fn programs_check_no_keys_unless_they_run_and_sleep_often() {
        // How many pauses were counted at each examination, and whether keys may be checked.
        // No CPU time was counted, so the programs may have run each time.
        let check = |every: Duration, examinations: &[(Option<u64>, bool)]| {
            let mut pane = pane();
            let mut now = Instant::now();
            for (pauses, expected) in examinations {
                let examination = TtyExamination {
                    pauses: *pauses,
                    ..examination(TtyUse::Elsewhere)
                };
                pane.take(examination, false, now);
                let checks_none = pane.evidence().map(|evidence| evidence.checks_no_keys);
                assert_eq!(checks_none, Some(!expected), "{examinations:?}");
                now += every;
                assert!(pane.known.as_mut().unwrap().take_part(false, now));
            }
        };
        check(
            FIRST_PAUSE,
            &[(None, false), (Some(7), false), (None, false)],
        );
        let long = Duration::from_secs(10);
        check(
            long,
            &[(Some(7), false), (Some(60), true), (Some(60), false)],
        );
        // They compute, or sleep twice a second.
        check(
            long,
            &[(Some(7), false), (Some(7), false), (Some(27), false)],
        );
        // Five times a second, as is known after a while.
        check(
            FIRST_PAUSE,
            &[
                (Some(7), false),
                (Some(8), false),
                (Some(9), false),
                (Some(11), true),
            ],
        );
        // Twice a second.
        check(
            FIRST_PAUSE,
            &[
                (Some(1), false),
                (Some(2), false),
                (Some(2), false),
                (Some(3), false),
                (Some(3), false),
                (Some(4), false),
            ],
        );
    }

    #[test]
    fn a_countdown_differs_in_numbers() {
        let screen = |rows: &[&str]| Screen {
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
            ..Screen::default()
        };
        let check = |after: &[&str], expected: bool| {
            let before = screen(&["Stop?", "│ 100 │"]);
            assert_eq!(
                differ_in_numbers(&before, &screen(after)),
                expected,
                "{after:?}"
            );
        };
        check(&["Stop?", "│  99 │"], true);
        check(&["Stop? y", "│  99 │"], false);
        check(&["Stop?", "│  99 │", ""], false);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn output_that_has_just_stopped_means_that_programs_have_run() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut poller = TtyPoller::default();
        assert!(!poller.take_has_run());
        let moving = Pane {
            pid: child.id(),
            tty: PathBuf::from("/dev/null"),
            ..pane()
        };
        let now = moving.next;
        poller.panes.insert(WindowId(1), moving);
        assert!(poller.take_has_run(), "it prints");
        // The second time, because nothing can be known of this terminal.
        for at in [now, now + SECOND_PAUSE] {
            poller.ask_due(|_| false, &UserRules::default(), at);
        }
        assert!(poller.panes.values().all(|pane| pane.known.is_some()));
        assert!(poller.take_has_run(), "it has printed until now");
        assert!(!poller.take_has_run());
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_has_slept_is_examined_before_what_has_always_run() {
        // It waits for its input.
        let child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let of_child = || process::examine(child.id(), "/dev/null".as_ref()).activity;
        let start = Instant::now();
        let after = |n: u32| start + FIRST_PAUSE * n;
        let restless = |begin: Instant| {
            let mut pane = pane();
            pane.take(examination(TtyUse::Elsewhere), false, begin);
            pane
        };
        let has_run = |pane: &mut Pane, now| pane.known.as_mut().unwrap().take_part(false, now);

        let mut always = restless(start);
        assert!(has_run(&mut always, after(1)));
        let mut late = restless(start);
        loop {
            late.known.as_mut().unwrap().examination.activity = of_child();
            if !has_run(&mut late, after(2)) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{late:?}");
            late = restless(start);
        }
        assert_eq!(late.urgency(false, after(2)), None);
        late.known.as_mut().unwrap().examination.activity = Default::default();
        assert!(has_run(&mut late, after(3)));
        let [late, always] = [late, always].map(|pane| pane.urgency(false, after(3)).unwrap());
        assert!(late < always, "{late:?} {always:?}");

        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn what_is_hidden_is_soon_asked_again() {
        let mut pane = pane();
        let now = Instant::now();
        pane.take(examination(TtyUse::Unknown), false, now);
        assert_eq!(pane.next, now + SECOND_PAUSE);
        pane.take(examination(TtyUse::Unknown), false, now + SECOND_PAUSE);
        assert_eq!(pane.next, now + SECOND_PAUSE + FIRST_PAUSE);
        // Nothing was determined at all.
        let nothing = || TtyExamination {
            evidence: None,
            ..examination(TtyUse::Unknown)
        };
        let mut pane = super::tests::pane();
        pane.take(nothing(), false, now);
        let reader = pane.evidence().map(|evidence| evidence.reader);
        assert_eq!(reader, Some(TtyUse::Elsewhere));
        pane.take(nothing(), false, pane.next);
        assert_eq!(pane.evidence(), None);
    }

    #[test]
    fn what_is_spent_is_a_thousandth_in_the_long_run_and_some_at_once() {
        let start = Instant::now() + AHEAD;
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
