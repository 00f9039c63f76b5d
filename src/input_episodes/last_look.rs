//! The last look at a task, with its judgement.

use std::sync::Arc;
use std::time::Instant;

use super::answer_echo::AnswerPlace;
use super::episode::{Episode, Phase, is_known};
use super::ongoing_read::{self, OngoingRead};
use super::still_rows::StillRows;
use crate::model::{Now, ReadCall, Screen, Task, TtyEvidence};
use crate::prompt::{self, Judgement, UserRules};

/// The last look at a task, with its judgement. Judging is slow, so it is repeated only when
/// something has changed.
#[derive(Debug, Clone)]
pub(super) struct LastLook {
    pub(super) screen: Screen,
    pub(super) terminal: Option<Arc<TtyEvidence>>,
    pub(super) judgement: Option<Judgement>,
    /// The first look at these rows.
    pub(super) since: Instant,
    /// Whether a later look had the same rows.
    pub(super) is_still: bool,
    /// The rows that ask, or all where none do.
    pub(super) still: StillRows,
    /// Whether there are rows that ask, or may ask.
    pub(super) may_ask: bool,
    /// The call in which the terminal is read, and since when.
    pub(super) call: Option<OngoingRead>,
    /// Where the answer to the present or the last question would be typed.
    pub(super) place: Option<AnswerPlace>,
}

impl LastLook {
    /// Returns the call in which the terminal is read at this look.
    pub(super) fn read(&self) -> Option<ReadCall> {
        self.terminal.as_ref()?.read
    }

    /// Returns the number that rises when input was read, as of this look.
    pub(super) fn n_reads(&self) -> Option<u64> {
        self.terminal.as_ref()?.n_reads
    }

    /// Marks the call in which the terminal is read as reported, if the episode was reported for
    /// it.
    pub(super) fn note_reported(&mut self, episode: &Episode) {
        let read = self.read();
        if let (Phase::Reported { .. }, Some(call)) = (episode.state, &mut self.call)
            && ongoing_read::is_same(episode.read, read)
        {
            call.is_reported = true;
        }
    }

    /// Applies the rule that a call asks at most once, and only by text that was there when it
    /// began.
    pub(super) fn judge_by_call(&mut self, before: Option<&Episode>, task: &Task) {
        let is_reported = before.is_some_and(|before| match before.state {
            Phase::Reported { .. } => ongoing_read::is_same(before.read, self.read()),
            Phase::Candidate { .. } => false,
        });
        if is_reported || self.read().is_none() {
            return;
        }
        let (Some(call), Some(judgement)) = (&self.call, &mut self.judgement) else {
            return;
        };
        if let Some(found) = &judgement.found
            && call.does_not_own(found, &task.screen)
        {
            judgement.found = None;
            judgement.is_settled = true;
            judgement.rule = "printed during the same call of read";
        }
    }

    /// Whether another look shows the same, and that is not a question.
    pub(super) fn is_unchanged_without_prompt(
        &self,
        task: &Task,
        terminal: Option<&Arc<TtyEvidence>>,
    ) -> bool {
        let is_open = task.is_alive() && is_known(task);
        let asks = self
            .judgement
            .as_ref()
            .is_some_and(|judged| judged.found.is_some());
        self.is_still
            && !asks
            && self.judgement.is_some() == is_open
            && self.terminal.as_ref() == terminal
            && self.screen == task.screen
    }
}

pub(super) fn see(
    before: Option<LastLook>,
    task: &Arc<Task>,
    terminal: Option<&Arc<TtyEvidence>>,
    user_rules: &UserRules,
    now: Now,
) -> LastLook {
    let is_open = task.is_alive() && is_known(task);
    let evidence = terminal.map(Arc::as_ref);
    let judge = || is_open.then(|| prompt::judge_task(task, evidence, user_rules));
    let call = ongoing_read::follow(
        before.as_ref().and_then(|before| before.call.as_ref()),
        task,
        evidence,
    );
    // What asks is known only after the judgement.
    let still = |since| StillRows::all(&task.screen, since);
    match before {
        Some(before)
            if before.screen.has_rows_of(&task.screen)
                && !is_printing(&before.screen, &task.screen, terminal) =>
        {
            let is_same = before.screen == task.screen
                && before.terminal.as_ref() == terminal
                && before.judgement.is_some() == is_open;
            LastLook {
                judgement: if is_same { before.judgement } else { judge() },
                screen: task.screen.clone(),
                terminal: terminal.cloned(),
                since: before.since,
                is_still: true,
                still: before.still,
                may_ask: false,
                call,
                place: None,
            }
        }
        Some(_) | None => LastLook {
            judgement: judge(),
            screen: task.screen.clone(),
            terminal: terminal.cloned(),
            since: now.mono,
            is_still: false,
            still: still(now.mono),
            may_ask: false,
            call,
            place: None,
        },
    }
}

/// Whether a program goes on printing, although all rows are alike: the cursor moves, and nothing is
/// known of the terminal yet.
pub(super) fn is_printing(
    before: &Screen,
    after: &Screen,
    terminal: Option<&Arc<TtyEvidence>>,
) -> bool {
    let cursors = before.cursor.zip(after.cursor);
    terminal.is_none() && cursors.is_some_and(|(before, after)| before != after)
}
