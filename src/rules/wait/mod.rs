//! Waits: conditions, snapshots of a task and its output become one outcome.
//!
//! Waits look at states (the snapshot), events at changes: a wait for something that holds already
//! ends at once.

mod cursor;
mod output_watch;

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cursor::read_since;
pub(crate) use cursor::{Anchor, Cursor};
use output_watch::FoundLine;
pub(crate) use output_watch::OutputWatch;

use crate::model::{self, *};
use crate::rules::terminal::{Line, PaneOutput, Pattern, Stamp, UnwrappedLine};

/// What a wait is for.
pub(crate) type Condition = model::Condition<Pattern>;

#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// The first one that holds ends the wait.
    pub conditions: Vec<Condition>,
    /// A line that matches one of these ends the wait without success.
    pub stops: Vec<Pattern>,
    pub timeout: Option<Duration>,
    /// Whether a wait for the end of the run continues while the task asks for input.
    pub through_prompts: bool,
    /// Whether the end of a run that a restart follows does not end a wait for it.
    pub is_final: bool,
}

impl Spec {
    /// Returns the texts that end the wait, with success or without.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Pattern> {
        self.conditions.iter().filter_map(|condition| {
            let Condition::Text(pattern) = condition else {
                return None;
            };
            Some(pattern)
        })
    }

    /// Returns the ports that end the wait, `None` for any.
    pub(crate) fn ports(&self) -> impl Iterator<Item = Option<u16>> {
        self.conditions.iter().filter_map(|condition| {
            let Condition::Listen { port } = condition else {
                return None;
            };
            Some(*port)
        })
    }

    pub(crate) fn needs_text(&self) -> bool {
        !self.stops.is_empty() || self.texts().next().is_some()
    }

    pub(crate) fn needs_output(&self) -> bool {
        !self.stops.is_empty() || self.conditions.iter().any(Condition::needs_output)
    }
}

fn by(outcome: WaitOutcome, condition: &str) -> WaitResult {
    WaitResult {
        condition: Some(condition.to_owned()),
        ..WaitResult::new(outcome)
    }
}

fn asked(result: WaitResult, prompt: &Prompt, task: &Task) -> WaitResult {
    WaitResult {
        line: Some(prompt.text.clone()),
        prompt_kind: Some(prompt.kind),
        secret: Some(prompt.secret),
        stopped: task.is_stopped_in_background(),
        ..result
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub(crate) spec: Spec,
    /// The run that is waited for, as it was when the wait began.
    pub(crate) entry: Arc<Task>,
    /// Output with this stamp or a smaller one is old.
    since: Stamp,
    /// The position in the run's output at which it begins; `None` for the read of the pane.
    pub(crate) anchor: Option<Anchor>,
    /// Whether one of the texts was there when it began.
    pub(crate) matched_at_entry: bool,
    pub(crate) began: Instant,
    deadline: Option<Instant>,
    last_output: Instant,
    pub(crate) saw_output: bool,
    /// The first line with a stop text, and its index. It wins over a match until that is reported.
    stopped: Option<FoundLine<usize>>,
    /// The first line with a text, and its index.
    matched: Option<FoundLine<usize>>,
}

impl Wait {
    /// Begins a wait for the run in `entry`, at this position in its output or with the read of the pane.
    pub(crate) fn begin(
        spec: Spec,
        entry: impl Into<Arc<Task>>,
        anchor: Option<Anchor>,
        now: Now,
    ) -> Self {
        Self {
            deadline: spec.timeout.map(|timeout| now.mono + timeout),
            spec,
            entry: entry.into(),
            since: 0,
            anchor,
            matched_at_entry: false,
            began: now.mono,
            last_output: now.mono,
            saw_output: false,
            stopped: None,
            matched: None,
        }
    }

    /// Counts only output with a later stamp than `since` from here on.
    pub(crate) fn count_from(&mut self, since: Stamp) {
        self.since = since;
    }

    pub(crate) fn window(&self) -> WindowId {
        self.entry.window
    }

    /// Processes the read of the pane with which it begins: whether one of its texts is there already, and
    /// what was written behind its anchor. `lines` are those of the read, joined once for all waits.
    pub(crate) fn read_entry(
        &mut self,
        output: &PaneOutput,
        lines: &OnceCell<Vec<UnwrappedLine>>,
        now: Now,
    ) -> Option<WaitResult> {
        let is_there = |text: &Pattern| {
            let lines = lines.get_or_init(|| output.unwrapped(0, 0));
            let mut lines = lines.iter();
            lines.any(|row| text.find(&row.line(true), 0).is_some())
        };
        self.matched_at_entry = self.spec.texts().any(is_there);
        let anchor = self.anchor.clone()?;
        self.read_since(Some(&anchor), output, now)
    }

    /// Processes a line that was written. [`Wait::on_output`] gives the result for all lines that came
    /// together.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        self.judge(line, self.since);
    }

    /// Processes what a pane contains behind an anchor; `None` for one that is not known. If it is not found,
    /// a wait that began with the run has what is left of all output.
    pub(crate) fn read_since(
        &mut self,
        anchor: Option<&Anchor>,
        output: &PaneOutput,
        now: Now,
    ) -> Option<WaitResult> {
        match read_since(anchor, output, &mut |line| self.judge(line, 0)) {
            Some(true) => self.on_output(now),
            Some(false) => None,
            None => {
                let is_of_whole_run = self.anchor == Some(Anchor::START);
                let rows = is_of_whole_run.then(|| output.unwrapped(0, 0));
                for row in rows.iter().flatten() {
                    self.judge(&row.line(true), 0);
                }
                Some(self.on_loss())
            }
        }
    }

    fn judge(&mut self, line: &Line<'_>, since: Stamp) {
        let find = |pattern: &Pattern| pattern.find(line, since).is_some();
        match &mut self.stopped {
            Some(stopped) => _ = stopped.continues(line),
            None => {
                let index = self.spec.stops.iter().position(find);
                self.stopped = index.map(|index| FoundLine::new(line, index));
            }
        }
        match &mut self.matched {
            Some(matched) => _ = matched.continues(line),
            None => {
                let index = self.spec.texts().position(find);
                self.matched = index.map(|index| FoundLine::new(line, index));
            }
        }
    }

    /// Processes the arrival of output, after its lines. A stop text wins over a match in it. While the
    /// rest of a line that was found may come, there is no verdict.
    pub(crate) fn on_output(&mut self, now: Now) -> Option<WaitResult> {
        self.saw_output = true;
        self.last_output = now.mono;
        for found in self.stopped.iter_mut().chain(&mut self.matched) {
            found.since.get_or_insert(now.mono);
        }
        match self.first_found() {
            Some(found) => found.is_over(now.mono).then(|| self.take_found())?,
            None => {
                let change = |condition: &&Condition| matches!(condition, Condition::Change);
                let change = self.spec.conditions.iter().find(change)?;
                Some(by(WaitOutcome::Changed, change.name()))
            }
        }
    }

    /// Returns the line with which the wait ends when it is complete.
    fn first_found(&self) -> Option<&FoundLine<usize>> {
        self.stopped.as_ref().or(self.matched.as_ref())
    }

    /// Returns the verdict by a line that was found, as far as it is there.
    fn take_found(&mut self) -> Option<WaitResult> {
        let (found, verdict) = match self.stopped.take() {
            Some(stopped) => (stopped, by(WaitOutcome::Stopped, "stop")),
            None => {
                let matched = self.matched.take()?;
                (matched, by(WaitOutcome::Matched, "text"))
            }
        };
        Some(WaitResult {
            line: Some(found.text),
            matched_index: Some(found.found),
            ..verdict
        })
    }

    /// Decides a wait for which output is missing, after the lines that are left of it. A stop text may
    /// have been in what is missing, before a match that was not known before.
    pub(crate) fn on_loss(&mut self) -> WaitResult {
        let has_stops = !self.spec.stops.is_empty();
        self.matched
            .take_if(|matched| has_stops && matched.since.is_none());
        self.take_found()
            .unwrap_or(WaitResult::new(WaitOutcome::AnchorLost))
    }

    /// Processes a look. All output before it must have been processed. A line that was found is
    /// reported as it is when something else would end the wait: it came first. `restarts_in` is how long
    /// it takes until the task is restarted, if its run has ended and that follows.
    pub(crate) fn look(
        &mut self,
        look: &Snapshot,
        prompt: Option<&Prompt>,
        restarts_in: Option<Duration>,
    ) -> Option<WaitResult> {
        let verdict = self.judge_look(look, prompt, restarts_in)?;
        Some(self.take_found().unwrap_or(verdict))
    }

    fn judge_look(
        &mut self,
        look: &Snapshot,
        prompt: Option<&Prompt>,
        restarts_in: Option<Duration>,
    ) -> Option<WaitResult> {
        let window = self.entry.window;
        if self.spec.is_final
            && let Some(task) = look.tasks.get(&window)
            && self.restarted_as(task)
        {
            self.entry = Arc::clone(task);
        }
        let same_run = |task: &&Task| task.window == window && !self.is_another_run(task);
        let ended = look.ended.iter().find(same_run);
        let ended = ended.and_then(|task| task.exit());
        let Some(task) = look.tasks.get(&window).filter(|_| look.exists) else {
            let reason = look.gone.get(&window).copied();
            return Some(match ended {
                Some(exit) if !reason.is_some_and(GoneReason::is_end) => self.ended(exit, None),
                exit => WaitResult {
                    reason,
                    ..WaitResult::new(WaitOutcome::Disappeared).with_exit(exit)
                },
            });
        };
        if self.is_another_run(task) {
            let replaced = look.launcher_replaced.get(&window).copied();
            return Some(match ended {
                Some(exit) if replaced.is_none() || replaced != self.entry.pid => {
                    self.ended(exit, self.restarted_as(task).then_some(Duration::ZERO))
                }
                exit => WaitResult {
                    old_pid: self.entry.pid,
                    new_pid: task.pid,
                    ..WaitResult::new(WaitOutcome::Respawned).with_exit(exit)
                },
            });
        }
        for condition in &self.spec.conditions {
            if matches!(condition, Condition::Bell) && self.rang(task) {
                return Some(by(WaitOutcome::Bell, condition.name()));
            }
            if let (Condition::Input, Some(prompt)) = (condition, prompt) {
                let verdict = by(WaitOutcome::Input, condition.name());
                return Some(asked(verdict, prompt, task));
            }
        }
        if let Some(exit) = task.exit() {
            let goes_on = self.spec.is_final && restarts_in.is_some();
            return (!goes_on).then(|| self.ended(exit, restarts_in));
        }
        // The run does not end before the question is answered.
        prompt
            .filter(|_| self.waits_for_exit() && !self.spec.through_prompts)
            .map(|prompt| asked(WaitResult::new(WaitOutcome::Input), prompt, task))
    }

    /// Returns the verdict on the ports that the run listens on.
    pub(crate) fn listens(&mut self, ports: &BTreeSet<u16>) -> Option<WaitResult> {
        let is_met = |port: Option<u16>| match port {
            Some(port) => ports.contains(&port),
            None => !ports.is_empty(),
        };
        let is_met = self.spec.ports().any(is_met);
        let verdict = is_met.then(|| WaitResult {
            ports: ports.iter().copied().collect(),
            ..by(WaitOutcome::Listening, "listen")
        })?;
        Some(self.take_found().unwrap_or(verdict))
    }

    /// Returns the verdict when a time limit is reached.
    pub(crate) fn tick(&mut self, now: Now) -> Option<WaitResult> {
        if self.next_deadline().is_some_and(|at| at <= now.mono)
            && let Some(verdict) = self.take_found()
        {
            return Some(verdict);
        }
        if self.idle_at().is_some_and(|at| at <= now.mono) {
            return Some(by(WaitOutcome::Idle, "idle"));
        }
        let is_over = self.deadline.is_some_and(|deadline| deadline <= now.mono);
        is_over.then(|| WaitResult::new(WaitOutcome::Timeout))
    }

    /// Returns when [`Wait::tick`] may return a verdict.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let line = self.first_found().and_then(FoundLine::awaited_until);
        let others = self.idle_at().into_iter().chain(self.deadline);
        others.chain(line).min()
    }

    fn idle_at(&self) -> Option<Instant> {
        let idle = self.spec.conditions.iter().filter_map(|condition| {
            let Condition::Idle { limit } = condition else {
                return None;
            };
            Some(*limit)
        });
        idle.min().map(|quiet| self.last_output + quiet)
    }

    fn is_another_run(&self, task: &Task) -> bool {
        task.run != self.entry.run
    }

    /// Whether this is a restart of the run that is waited for: another run of the same launch.
    fn restarted_as(&self, task: &Task) -> bool {
        let (one, other) = (&task.settings, &self.entry.settings);
        let mut both = one.restarts.iter().zip(&other.restarts);
        self.is_another_run(task) && both.any(|(one, other)| one.token == other.token)
    }

    fn rang(&self, task: &Task) -> bool {
        match (self.entry.bell_count, task.bell_count) {
            (before, Some(after)) => after > before.unwrap_or(0),
            (_, None) => task.bell && !self.entry.bell,
        }
    }

    fn waits_for_exit(&self) -> bool {
        let waited = |condition: &Condition| matches!(condition, Condition::Exit);
        self.spec.conditions.iter().any(waited)
    }

    fn ended(&self, exit: &Exit, restarts_in: Option<Duration>) -> WaitResult {
        let verdict = if self.waits_for_exit() {
            by(WaitOutcome::Exited, "exit")
        } else {
            WaitResult::new(WaitOutcome::Died)
        };
        WaitResult {
            restarts_in_ms: restarts_in.map(whole_millis),
            ..verdict.with_exit(Some(exit))
        }
    }
}

#[cfg(test)]
mod tests;
