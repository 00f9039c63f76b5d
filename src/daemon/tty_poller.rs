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

use super::polled_pane::{PolledPane, RESTLESS_PAUSE, TOGETHER, Urgency, differ_in_numbers};
use crate::clock;
use crate::model::{Now, OpenQuestion, Snapshot, TtyEvidence, TtyUse, WindowId};
use crate::rules::prompt::{self, UserRules};
use crate::rules::protocol::rows::LookRows;

/// How long one call may examine before the thread does other things. What is left stays due.
const SLICE: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(super) struct TtyPoller {
    panes: BTreeMap<WindowId, PolledPane>,
    /// What the tasks ask, as of the last look that was processed.
    pub(super) questions: BTreeMap<WindowId, OpenQuestion>,
    /// The earliest time of the next round.
    round_at: Option<Instant>,
    asking: Allowance,
    /// Whether programs have run, or may have, since this was last taken.
    has_run: bool,
    /// Whether there are live tasks whose programs are not known: without a terminal, or always in copy mode.
    has_unknown: bool,
}

impl TtyPoller {
    fn is_reported(&self, window: WindowId) -> bool {
        let question = self.questions.get(&window);
        question.is_some_and(|question| question.is_reported)
    }

    /// Notes a look, and adds the evidence on terminals of tasks whose output has stopped for `quiet`, or goes on only
    /// beside a question, to its snapshot.
    pub(super) fn add_to(
        &mut self,
        snapshot: &mut Snapshot,
        look: Option<&LookRows>,
        quiet: Duration,
        at: Now,
    ) {
        let now = at.mono;
        let tasks = &snapshot.tasks;
        let is_alive = |window: &WindowId| tasks.get(window).is_some_and(|task| task.is_alive());
        self.panes.retain(|window, _| is_alive(window));
        let rows = look.map_or(&[][..], |look| &look.windows);
        for row in rows {
            let Some(shown) = &row.pane else {
                continue;
            };
            if shown.dead.is_some() {
                // Until its status is known it counts as alive, but nobody takes input.
                snapshot.terminals.insert(row.window, ended_evidence());
                continue;
            }
            let task = snapshot.tasks.get(&row.window);
            let task = task.filter(|task| task.is_alive() && !shown.in_mode);
            let found = task.and_then(|task| Some((task, task.pid?, shown.tty.as_deref()?)));
            let Some((task, pid, tty)) = found else {
                continue;
            };
            let moving = |may_check_keys| {
                let (tty, screen) = (PathBuf::from(tty), task.screen.clone());
                let mut pane = PolledPane::with_changing_output(pid, tty, screen, now + quiet);
                pane.may_check_keys = may_check_keys;
                pane
            };
            let is_reported = self.is_reported(row.window);
            // What the previous daemon has reported may be a program that checks for keys.
            let entry = self.panes.entry(row.window);
            let pane = entry.or_insert_with(|| moving(is_reported));
            let question = self.questions.get(&row.window);
            let is_asked_on = || question.is_some_and(|question| question.is_on(&task.screen));
            if pane.pid == pid && pane.is_changed_beside(&task.screen, is_asked_on) {
                // It may be drawn again for ever, with sleeps in between, and its program wait all the same.
                pane.slept = None;
                pane.note_still(now);
            } else if pane.pid != pid {
                *pane = moving(false);
            } else if pane.screen != task.screen {
                // A countdown goes on.
                let goes_on = || differ_in_numbers(&pane.screen, &task.screen);
                let may_check_keys = pane.may_check_keys && goes_on();
                pane.note_moved(task.screen.clone(), may_check_keys, now + quiet);
            } else {
                pane.note_still(now);
            }
            // Shared, which makes the next comparison fast.
            pane.screen = task.screen.clone();
            let is_due = match &pane.known {
                None => (is_reported && pane.doubt.is_none()) || pane.next <= now,
                // This look has to show whether it still waits, or has waited long enough.
                Some(known) => {
                    (is_reported || known.reads_keys()) && !known.examination.activity.lasts()
                }
            };
            if is_due {
                self.has_run = true;
                pane.examine(is_reported, now);
            }
            if let Some(mut evidence) = pane.show(row.activity, at.wall.div_euclid(1000)) {
                if question.is_some() || evidence.reader.takes_input() {
                    // Until now: other evidence may be older.
                    Arc::make_mut(&mut evidence).n_reads = pane.reads.check();
                }
                if evidence.stopped.is_some()
                    && let Some(task) = snapshot.tasks.get_mut(&row.window)
                {
                    Arc::make_mut(task).stopped = evidence.stopped;
                }
                snapshot.terminals.insert(row.window, evidence);
            }
        }
        let mut alive = snapshot.tasks.iter().filter(|(_, task)| task.is_alive());
        self.has_unknown = alive.any(|(window, _)| !self.panes.contains_key(window));
    }

    /// Whether programs in the tasks' process trees have run, or may have, since this was last called.
    pub(super) fn take_has_run(&mut self) -> bool {
        let has_moving = self.panes.values().any(|pane| pane.known.is_none());
        std::mem::take(&mut self.has_run) || self.has_unknown || has_moving
    }

    /// Examines those that are due. Returns the windows whose evidence has changed.
    pub(super) fn ask_due(&mut self, user_rules: &UserRules, now: Instant) -> BTreeSet<WindowId> {
        let mut changed = BTreeSet::new();
        if self.next_deadline().is_none_or(|due| due > now + TOGETHER) {
            return changed;
        }
        let slice_began = clock::thread_time();
        let mut due = self.due(now);
        due.sort_unstable();
        for (_, window) in due {
            let is_reported = self.is_reported(window);
            let Some(pane) = self.panes.get_mut(&window) else {
                continue;
            };
            // A screen that has just become quiet is always examined.
            let is_quiet = pane.known.is_some();
            if is_quiet && !self.asking.has(now) {
                pane.next = self.asking.next().unwrap_or(now);
                continue;
            }
            let began = clock::thread_time();
            if began.saturating_sub(slice_began) >= SLICE {
                break;
            }
            if !is_quiet && pane.doubt.is_none() && pane.put_off(now) {
                self.has_run = true;
                continue;
            }
            self.has_run |= !is_quiet;
            let before = pane.evidence().cloned();
            pane.examine(is_reported, now);
            if is_quiet {
                let cost = clock::thread_time().saturating_sub(began);
                self.asking.spend(cost, now);
            }
            if before.as_ref() != pane.evidence() {
                let evidence = pane.evidence().map(Arc::as_ref);
                let stopped = evidence.and_then(|evidence| evidence.stopped);
                let judged = prompt::judge(&pane.screen, evidence, user_rules);
                if judged.found.is_some() != is_reported
                    || before.and_then(|before| before.stopped) != stopped
                {
                    changed.insert(window);
                }
            }
        }
        changed
    }

    /// Returns what is to be examined now: panes whose output has stopped, and, in rounds, others that have run.
    fn due(&mut self, now: Instant) -> Vec<(Urgency, WindowId)> {
        let is_due = |pane: &PolledPane| pane.next <= now + TOGETHER;
        let mut known = self.panes.values().filter(|pane| pane.known.is_some());
        let is_round = known.any(is_due) && self.round_at.is_none_or(|at| at <= now);
        if is_round {
            // It is no part of what a round costs.
            self.panes.values_mut().for_each(PolledPane::judge_once);
        }
        let began = clock::thread_time();
        let mut due = Vec::new();
        for (window, pane) in &mut self.panes {
            let question = self.questions.get(window);
            let is_reported = question.is_some_and(|question| question.is_reported);
            let has_stopped = is_due(pane);
            let urgency = match &mut pane.known {
                None => has_stopped.then_some((false, Duration::ZERO, pane.next)),
                // Those that are due soon are included, so that all are checked together.
                Some(known) if is_round && pane.next <= now + known.pause / 2 => {
                    let has_run = known.check_activity(is_reported, now);
                    self.has_run |= has_run;
                    let urgency = known.urgency(is_reported, now).filter(|_| has_run);
                    if urgency.is_none() {
                        pane.next = now + known.pause;
                    }
                    urgency
                }
                Some(_) => None,
            };
            due.extend(urgency.map(|urgency| (urgency, *window)));
        }
        if is_round {
            let cost = clock::thread_time().saturating_sub(began);
            self.round_at = Some(now + (cost * ONE_PART_IN).min(RESTLESS_PAUSE));
        }
        due
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let due = self.panes.values().map(|pane| match pane.known {
            None => pane.next,
            Some(_) => self.round_at.map_or(pane.next, |at| at.max(pane.next)),
        });
        due.min()
    }
}

/// The evidence on a terminal whose programs have ended.
fn ended_evidence() -> Arc<TtyEvidence> {
    Arc::new(TtyEvidence {
        reader: TtyUse::Elsewhere,
        canonical: Some(true),
        echo: Some(true),
        ..TtyEvidence::default()
    })
}

/// Rounds and examinations may each take one part in so many of our time.
const ONE_PART_IN: u32 = 1000;

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

    #[cfg(linux)]
    #[test]
    fn output_that_has_just_stopped_means_that_programs_have_run() {
        use super::super::polled_pane::SECOND_PAUSE;
        use crate::model::Screen;

        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut poller = TtyPoller::default();
        assert!(!poller.take_has_run());
        let now = Instant::now();
        let tty = PathBuf::from("/dev/null");
        let moving = PolledPane::with_changing_output(child.id(), tty, Screen::default(), now);
        poller.panes.insert(WindowId(1), moving);
        assert!(poller.take_has_run(), "it prints");
        // The second time, because nothing can be known of this terminal.
        for at in [now, now + SECOND_PAUSE] {
            poller.ask_due(&UserRules::default(), at);
        }
        assert!(poller.panes.values().all(|pane| pane.known.is_some()));
        assert!(poller.take_has_run(), "it has printed until now");
        assert!(!poller.take_has_run());
        drop(child.stdin.take());
        child.wait().unwrap();
    }

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
