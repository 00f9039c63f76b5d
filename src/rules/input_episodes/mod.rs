//! Reports each episode of waiting once: one `input`, and one `inputResolved` at its end.
//!
//! An episode begins when the same prompt is on an unchanged screen at two looks, or is unchanged
//! itself while other rows move. It ends when the prompt was answered or is gone, or with the run.
//! Whether it was answered is known where the kernel shows that input was read: as long as nothing was
//! read, the same words are the same question, however often and wherever they are drawn. Where that is
//! not known, the screen decides. One call of `read` belongs to at most one episode: text printed
//! during the call is not a question.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{Event, Now, OpenQuestion, Prompt, Snapshot, Task, TtyEvidence, WindowId};
use crate::rules::prompt::{self, Judgement, PromptMatch, UserRules};

mod last_look;
mod task_look;

use last_look::{Episode, LastLook, Phase, Report, is_known, resolve, see};
use task_look::TaskLook;

/// How long it may take until the screen shows that an answer was taken.
const ANSWER_TAKES: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default)]
pub(crate) struct Episodes {
    last_look: BTreeMap<WindowId, LastLook>,
    episodes: BTreeMap<WindowId, Episode>,
    pub(crate) user_rules: UserRules,
}

impl Episodes {
    /// Returns the events of this look. The screen must be unchanged for `quiet`, and at two looks at
    /// least.
    pub(crate) fn admit(&mut self, look: &Snapshot, quiet: Duration, now: Now) -> Vec<Event> {
        let mut events = Vec::new();
        let is_there = |window: &WindowId, _: &mut LastLook| look.tasks.contains_key(window);
        self.last_look.retain(is_there);
        let is_gone = |window: &WindowId, _: &mut Episode| !look.tasks.contains_key(window);
        for (_, episode) in self.episodes.extract_if(.., is_gone) {
            resolve(episode, &mut events);
        }
        for task in look.tasks.values() {
            let mut before = self.episodes.remove(&task.window);
            if let Some(before) = &mut before {
                let until = before.report().and_then(|report| report.answered_until);
                before.answer(until.filter(|until| *until > now.mono));
            }
            let terminal = look.terminals.get(&task.window);
            let last_look = self.last_look.get_mut(&task.window);
            let same =
                last_look.filter(|last_look| last_look.is_unchanged_without_prompt(task, terminal));
            if let (Some(last_look), None) = (same, &before) {
                // Shared, which makes the next comparison fast.
                last_look.screen = task.screen.clone();
                continue;
            }
            let last = self.last_look.remove(&task.window);
            let n_reads = last.as_ref().and_then(LastLook::n_reads);
            let rules = &self.user_rules;
            let mut last_look = see(last, before.as_ref(), task, terminal, rules, now);
            let judgement = last_look.judgement.as_ref();
            let found = judgement.and_then(|judgement| judgement.found.clone());
            let found = found.filter(|found| !self.user_rules.mutes(task, &found.prompt));
            let found = found.or_else(|| is_still_on_screen(before.as_ref()?, task, terminal));
            let task_look = TaskLook {
                task,
                found,
                last_look: &last_look,
                reads_before: n_reads,
                quiet,
                now,
            };
            if let Some(episode) = task_look.admit(before, &mut events) {
                last_look.note_reported(&episode);
                self.episodes.insert(task.window, episode);
            }
            self.last_look.insert(task.window, last_look);
        }
        events
    }

    /// Ends all episodes. Returns the `inputResolved` events of those that were reported.
    pub(crate) fn end_all(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.last_look.clear();
        for episode in std::mem::take(&mut self.episodes).into_values() {
            resolve(episode, &mut events);
        }
        events
    }

    /// Restores an episode that was reported before a restart, with the task as it was then.
    pub(crate) fn restore(&mut self, task: Task, prompt: Prompt) {
        let found = prompt::find(&task.screen)
            .filter(|found| found.prompt.text == prompt.text)
            .unwrap_or(PromptMatch {
                prompt,
                row: usize::MAX,
                rows: 0..0,
                is_question: true,
                still_for: Duration::ZERO,
            });
        self.episodes.insert(
            task.window,
            Episode {
                task: Arc::new(task),
                found,
                state: Phase::Reported(Report::default()),
                read: None,
                n_reads: None,
                // What was decided by evidence cannot be denied without any.
                is_by_terminal: true,
                takes_lines: false,
            },
        );
    }

    /// Returns what the tasks ask or may ask, and what was reported.
    pub(crate) fn open_questions(&self) -> BTreeMap<WindowId, OpenQuestion> {
        let question = |(window, look): (&WindowId, &LastLook)| {
            let rows = look.may_ask.then(|| Arc::clone(&look.still.rows));
            let is_reported = self.is_waiting(*window);
            let question = OpenQuestion {
                is_reported,
                rows: rows.clone().unwrap_or_default(),
            };
            (is_reported || rows.is_some()).then_some((*window, question))
        };
        self.last_look.iter().filter_map(question).collect()
    }

    pub(crate) fn is_waiting(&self, window: WindowId) -> bool {
        self.prompt_of(window).is_some()
    }

    /// Returns the reported prompt that this task waits at.
    pub(crate) fn prompt_of(&self, window: WindowId) -> Option<&Prompt> {
        let episode = self.episodes.get(&window)?;
        episode.is_reported().then_some(&episode.found.prompt)
    }

    /// Returns the prompt that this task waits at, unless an answer was typed that counts as taken.
    pub(crate) fn unanswered_prompt_of(&self, window: WindowId) -> Option<&Prompt> {
        let report = self.episodes.get(&window)?.report()?;
        self.prompt_of(window)
            .filter(|_| report.answered_until.is_none())
    }

    /// Notes that this task was answered. If it still asks a while later, the answer was not taken.
    pub(crate) fn note_answer(&mut self, window: WindowId, now: Instant) {
        if let Some(episode) = self.episodes.get_mut(&window) {
            episode.answer(Some(now + ANSWER_TAKES));
        }
    }

    /// Returns the judgement of the last look at this task, since when its rows are unchanged, and since
    /// when it has been reported, unless that was before a restart.
    pub(crate) fn judgement_of(
        &self,
        window: WindowId,
    ) -> Option<(&Judgement, Instant, Option<Now>)> {
        let last_look = self.last_look.get(&window)?;
        let report = self.episodes.get(&window).and_then(Episode::report);
        let reported = report.and_then(|report| report.since);
        Some((last_look.judgement.as_ref()?, last_look.since, reported))
    }

    /// Returns when the next look can report a prompt, or that one has gone.
    pub(crate) fn next_deadline(&self, quiet: Duration) -> Option<Instant> {
        self.candidates(quiet).map(|(_, due)| due).min()
    }

    /// Returns the tasks of which a look can now report a prompt, or that one has gone.
    pub(crate) fn due(&self, quiet: Duration, now: Instant) -> impl Iterator<Item = WindowId> {
        let due = self.candidates(quiet).filter(move |(_, due)| *due <= now);
        due.map(|(window, _)| window)
    }

    /// Returns the tasks with a prompt, and when it can be reported, or when a reported one has certainly
    /// gone.
    fn candidates(&self, quiet: Duration) -> impl Iterator<Item = (WindowId, Instant)> {
        let due = move |episode: &Episode| match episode.state {
            Phase::Candidate { since, due_beside } => {
                let due = since + quiet.max(episode.found.still_for);
                Some(due_beside.map_or(due, |beside| beside.min(due)))
            }
            Phase::Reported(report) => {
                let gone_by = report.gone_by.into_iter();
                gone_by.chain(report.answered_until).min()
            }
        };
        let episodes = self.episodes.iter();
        episodes.filter_map(move |(window, episode)| Some((*window, due(episode)?)))
    }
}

/// Returns the reported prompt while its row is on the screen. Without a cursor and evidence, other
/// output such as a clock may have been drawn below it.
fn is_still_on_screen(
    before: &Episode,
    task: &Task,
    terminal: Option<&Arc<TtyEvidence>>,
) -> Option<PromptMatch> {
    let is_blind = terminal.is_none() && task.screen.cursor.is_none();
    if !before.is_reported() || !is_blind || !task.is_alive() || !is_known(task) {
        return None;
    }
    let asked = before.task.screen.rows.get(before.found.row)?;
    let row = task.screen.rows.iter().rposition(|row| row == asked)?;
    Some(PromptMatch {
        row,
        rows: row..row + before.found.rows.len(),
        ..before.found.clone()
    })
}

#[cfg(test)]
mod tests;
