//! When to ask the kernel about a pane's terminal: once its output has stopped, and then whenever its
//! programs have run, for one may begin to wait without a word.
//!
//! Whether they have run is asked ever more seldom, and in rounds, of all panes together. It costs a
//! microsecond a thread; finding everything out anew costs a hundred times as much. Both are kept
//! within a thousandth of our time, whatever the tasks do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::model::{Now, ReadCall, Screen, Snapshot, TtyEvidence, TtyUse, WindowId};
use crate::process::{self, Asked};
use crate::prompt::{self, UserRules};
use crate::protocol::rows::Look;

/// The pause after the first time, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause for a screen that asks something, or was told to: here a change matters.
const WARY_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause between two rounds for any other.
const ROUND_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause for any other whose programs run all the time, or of which it is not known.
const RESTLESS_PAUSE: Duration = Duration::from_secs(10);

/// However still its programs are, a pane is asked anew after this: its terminal may have been set
/// by others.
const ASK_BY: Duration = Duration::from_secs(300);

/// Screens that have just come to rest within this are asked together.
const TOGETHER: Duration = Duration::from_millis(20);

/// The pause before what the system hides is asked a second time. Longer than a thread needs on a
/// busy machine to go to sleep, to wake up or to end.
const SECOND_PAUSE: Duration = Duration::from_millis(100);

/// Which part of our time rounds may take, and asking anew.
const PART: u32 = 1000;

/// How much may be asked at once, in time to make up for: five milliseconds of asking.
const AHEAD: Duration = Duration::from_secs(5);

/// Once all of that is used up, the next are asked together, this much later.
const BATCH: Duration = Duration::from_millis(500);

/// What is known of the terminals of a session's tasks.
#[derive(Debug, Default)]
pub(super) struct TtyPoller {
    panes: BTreeMap<WindowId, Pane>,
    /// No round before this.
    round_at: Option<Instant>,
    asking: Allowance,
}

#[derive(Debug)]
struct Pane {
    pid: u32,
    tty: PathBuf,
    /// As the last look showed it.
    screen: Screen,
    /// What was last found out; `None` while its output moves, and while that is in doubt.
    known: Option<Known>,
    /// What holds until the system has hidden the reader twice in a row.
    doubted: Option<Doubted>,
    /// The call in which it was read, as the last look showed it.
    shown: Option<ShownCall>,
    /// When it comes to rest, or takes part in a round.
    next: Instant,
}

/// A call in which a terminal is read, as it was shown.
#[derive(Debug, Clone, Copy)]
struct ShownCall {
    read: ReadCall,
    /// In which second, as tmux counts them.
    second: i64,
}

/// What was found out about a pane that is at rest.
#[derive(Debug)]
struct Known {
    asked: Asked,
    at: Instant,
    /// Whether it shows something that asks.
    is_wary: bool,
    /// Until it takes part in the next round.
    pause: Duration,
    /// Until it may be asked again if its programs run.
    rest: Duration,
    /// Why and since when it is to be asked anew.
    stale: Option<Stale>,
}

/// A pane whose reader was hidden when it was last asked, and not the time before.
///
/// The kernel hides what another user's thread does. It shows the same for a moment while a thread
/// of ours goes to sleep, wakes up or ends.
#[derive(Debug)]
struct Doubted {
    /// What is known meanwhile.
    shown: Arc<TtyEvidence>,
    /// What was found out before; `None` where its output has just stopped.
    before: Option<Known>,
}

/// Why something is to be found out anew, the more pressing first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// Its programs have run.
    Ran,
    /// It was asked long ago.
    Old,
}

type Stale = (Why, Instant);

impl TtyPoller {
    /// Takes note of a look, and adds to its snapshot what is known of the terminals of tasks
    /// whose output has stopped for `quiet`; `waits` tells which were told as waiting.
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
                doubted: None,
                shown: None,
                next: now + quiet,
            };
            let pane = self.panes.entry(row.window).or_insert_with(rests);
            if pane.pid != pid || pane.screen != task.screen {
                *pane = rests();
            }
            // Shared, so that the next comparison is quick.
            pane.screen = task.screen.clone();
            let is_told = waits(row.window);
            let is_due = match &pane.known {
                None => (is_told && pane.doubted.is_none()) || pane.next <= now,
                // Whether it waits still is to be told with this look, or whether it has waited
                // for long enough.
                Some(known) => (is_told || known.reads_keys()) && !known.asked.stillness.lasts(),
            };
            if is_due {
                pane.ask(is_told, now);
            }
            if let Some(evidence) = pane.show(row.activity, at.wall.div_euclid(1000)) {
                snapshot.terminals.insert(row.window, evidence);
            }
        }
    }

    /// Asks those that are due; returns the windows of which what is reported may have to change.
    pub(super) fn ask_due(
        &mut self,
        waits: impl Fn(WindowId) -> bool,
        teaching: &UserRules,
        now: Instant,
    ) -> BTreeSet<WindowId> {
        let mut changed = BTreeSet::new();
        if self.next_deadline().is_none_or(|due| due > now + TOGETHER) {
            return changed;
        }
        self.go_round(&waits, now);
        // Of those whose programs have run, those told first, for their answers are looked for,
        // then those that seldom run, and of them those that have waited longest.
        let mut stale: Vec<(Why, bool, Duration, Instant, WindowId)> = self
            .panes
            .iter()
            .filter_map(|(window, pane)| match &pane.known {
                None => {
                    let is_due = pane.next <= now + TOGETHER;
                    is_due.then_some((Why::Ran, false, Duration::ZERO, pane.next, *window))
                }
                Some(known) => {
                    let (why, since) = known.stale?;
                    Some((why, !waits(*window), known.rest, since, *window))
                }
            })
            .collect();
        stale.sort_unstable();
        for (.., window) in stale {
            let Some(pane) = self.panes.get_mut(&window) else {
                continue;
            };
            // What has just come to rest was not quiet, and is asked whatever it costs.
            let is_quiet = pane.known.is_some();
            if is_quiet && !self.asking.has(now) {
                continue;
            }
            let is_told = waits(window);
            let before = pane.evidence().cloned();
            let began = clock::thread_time();
            pane.ask(is_told, now);
            if is_quiet {
                let cost = clock::thread_time().saturating_sub(began);
                self.asking.spend(cost, now);
            }
            if before.as_ref() != pane.evidence() {
                let evidence = pane.evidence().map(Arc::as_ref);
                let judged = prompt::judge(&pane.screen, evidence, teaching);
                if judged.found.is_some() != is_told {
                    changed.insert(window);
                }
            }
        }
        changed
    }

    /// Finds out whose programs have run.
    fn go_round(&mut self, waits: impl Fn(WindowId) -> bool, now: Instant) {
        let mut known = self.panes.values().filter(|pane| pane.known.is_some());
        let is_due = known.any(|pane| pane.next <= now + TOGETHER);
        if !is_due || self.round_at.is_some_and(|at| at > now) {
            return;
        }
        let began = clock::thread_time();
        for (window, pane) in &mut self.panes {
            if let Some(known) = &mut pane.known {
                // Those that are due before long come along, so that all are at one time.
                if pane.next <= now + known.pause / 2 {
                    known.take_part(waits(*window), now);
                    pane.next = now + known.pause;
                }
            }
        }
        let cost = clock::thread_time().saturating_sub(began);
        self.round_at = Some(now + (cost * PART).min(RESTLESS_PAUSE));
    }

    /// Returns when [`TtyPoller::ask_due`] has something to do.
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
        due.min()
    }
}

impl Pane {
    fn evidence(&self) -> Option<&Arc<TtyEvidence>> {
        match (&self.known, &self.doubted) {
            (Some(known), _) => known.asked.evidence.as_ref(),
            (None, Some(doubted)) => Some(&doubted.shown),
            (None, None) => None,
        }
    }

    /// Returns what is known, as a look in this `second` shows it that found no output since
    /// `activity`.
    ///
    /// Who has printed nothing has asked nothing: a signal may have interrupted the call, and its
    /// handler may have read what it likes.
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

    /// Finds everything out.
    fn ask(&mut self, is_told: bool, now: Instant) {
        let asked = process::ask(self.pid, &self.tty);
        self.take(asked, is_told, now);
    }

    /// Takes note of what was found out.
    fn take(&mut self, asked: Asked, is_told: bool, now: Instant) {
        let was_doubted = self.doubted.is_some();
        let before = match self.doubted.take() {
            Some(doubted) => doubted.before,
            None => self.known.take(),
        };
        let was_hidden = match &before {
            Some(before) => hides_reader(before.asked.evidence.as_deref()),
            // What was told stands until something speaks against it.
            None => is_told,
        };
        if hides_reader(asked.evidence.as_deref()) && !was_hidden && !was_doubted {
            let known = before
                .as_ref()
                .and_then(|known| known.asked.evidence.clone());
            self.doubted = Some(Doubted {
                shown: known.unwrap_or_else(|| without_reader(asked.evidence.as_deref())),
                before,
            });
            self.next = now + SECOND_PAUSE;
            return;
        }
        let is_wary = match &before {
            Some(before) => before.is_wary,
            None => prompt::find(&self.screen).is_some(),
        };
        let longest = if is_wary || is_told {
            WARY_PAUSE
        } else {
            RESTLESS_PAUSE
        };
        let (pause, rest) = match &before {
            Some(before) if before.asked.evidence == asked.evidence => {
                (before.pause, (before.rest * 2).min(longest))
            }
            Some(_) | None => (FIRST_PAUSE, FIRST_PAUSE),
        };
        self.known = Some(Known {
            asked,
            at: now,
            is_wary,
            pause,
            rest,
            stale: None,
        });
        self.next = now + pause;
    }
}

fn hides_reader(evidence: Option<&TtyEvidence>) -> bool {
    evidence.is_none_or(|evidence| evidence.reader == TtyUse::Unknown)
}

/// Returns this evidence, with nobody at the terminal.
fn without_reader(evidence: Option<&TtyEvidence>) -> Arc<TtyEvidence> {
    Arc::new(TtyEvidence {
        reader: TtyUse::Elsewhere,
        ..evidence.cloned().unwrap_or_default()
    })
}

impl Known {
    /// Whether somebody was blocked reading keys, which is told of those that do so for a while.
    fn reads_keys(&self) -> bool {
        let evidence = self.asked.evidence.as_ref();
        evidence.is_some_and(|evidence| {
            evidence.reader == TtyUse::Reading && evidence.canonical == Some(false)
        })
    }

    /// Looks whether its programs have run, and settles when to look again.
    fn take_part(&mut self, is_told: bool, now: Instant) {
        let longest = if self.is_wary || is_told {
            WARY_PAUSE
        } else {
            ROUND_PAUSE
        };
        self.pause = (self.pause * 2).min(longest);
        if matches!(self.stale, Some((Why::Ran, _))) {
            return;
        }
        let age = now.saturating_duration_since(self.at);
        if !self.asked.stillness.lasts() {
            if age >= self.rest {
                self.stale = Some((Why::Ran, now));
            }
            return;
        }
        self.rest = FIRST_PAUSE;
        if age >= ASK_BY && self.stale.is_none() {
            self.stale = Some((Why::Old, now));
        }
    }
}

/// So much of every second, of which some can be saved up.
#[derive(Debug, Default)]
struct Allowance {
    /// From when on there is some again; `None` before any was spent.
    from: Option<Instant>,
}

impl Allowance {
    /// Returns when to come for more.
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
            doubted: None,
            shown: None,
            next: Instant::now(),
        }
    }

    fn asked(reader: TtyUse) -> Asked {
        Asked {
            evidence: Some(Arc::new(TtyEvidence {
                reader,
                canonical: Some(true),
                ..TtyEvidence::default()
            })),
            stillness: Default::default(),
        }
    }

    /// What a pane is asked, one time after the other, and what is known of it each time.
    #[track_caller]
    fn check(is_told: bool, answers: &[(TtyUse, TtyUse)]) {
        let mut pane = pane();
        let mut now = Instant::now();
        for (n, (answer, expected)) in answers.iter().enumerate() {
            pane.take(asked(*answer), is_told, now);
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
    fn what_was_told_stands_where_the_reader_is_hidden() {
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
    fn what_is_hidden_is_soon_asked_again() {
        let mut pane = pane();
        let now = Instant::now();
        pane.take(asked(TtyUse::Unknown), false, now);
        assert_eq!(pane.next, now + SECOND_PAUSE);
        pane.take(asked(TtyUse::Unknown), false, now + SECOND_PAUSE);
        assert_eq!(pane.next, now + SECOND_PAUSE + FIRST_PAUSE);
        // Nothing at all was found out.
        let nothing = || Asked {
            evidence: None,
            ..asked(TtyUse::Unknown)
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
