//! Decides at one look whether a prompt is reported, goes on or is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::episode::{Episode, Phase, is_known, resolve, without_evidence};
use super::last_look::LastLook;
use super::ongoing_read::{self, OngoingRead};
use super::reprompt;
use crate::model::{Event, EventKind, Now, PromptKind, Task, has_same_words, without_animation};
use crate::prompt::{self, PromptMatch};

/// How long the rows that ask must have been the same on a screen that is never unchanged for long,
/// before their prompt is reported.
const STILL_BESIDE: Duration = Duration::from_millis(1500);

/// One task at one look.
pub(super) struct TaskLook<'a> {
    pub(super) task: &'a Arc<Task>,
    pub(super) found: Option<PromptMatch>,
    pub(super) last_look: &'a LastLook,
    /// The number that rises when input was read, as of the look before. What was read since may have
    /// been read after this look's screen was.
    pub(super) reads_before: Option<u64>,
    pub(super) quiet: Duration,
    pub(super) now: Now,
}

impl TaskLook<'_> {
    /// Returns the episode of this task after this look, and adds its events.
    pub(super) fn admit(self, before: Option<Episode>, events: &mut Vec<Event>) -> Option<Episode> {
        if let Some(before) = &before
            && self.lacks_evidence(before)
        {
            return without_evidence(before.clone(), self.task);
        }
        let Some(found) = &self.found else {
            let before = before?;
            if self.is_being_redrawn(&before) || self.is_still_open(&before) {
                return without_evidence(before, self.task);
            }
            if let Some(kept) = self.until_gone(&before) {
                return Some(kept);
            }
            if is_known(self.task) || self.task.is_new_run_after(&before.task) {
                resolve(before, events);
                return None;
            }
            return without_evidence(before, self.task);
        };
        let watch = |found: &PromptMatch, state, read, n_reads| {
            Some(Episode {
                task: Arc::clone(self.task),
                found: found.clone(),
                state,
                read,
                n_reads,
                is_by_terminal: self.last_look.terminal.is_some(),
                takes_lines: self.takes_lines(),
            })
        };
        let is_reported = match before {
            Some(before) if self.continues(&before, found) => match before.state {
                Phase::Reported { since, .. } => {
                    // Typing changes the row, not the question.
                    let found = PromptMatch {
                        prompt: before.found.prompt,
                        ..found.clone()
                    };
                    let read = self
                        .last_look
                        .call
                        .as_ref()
                        .and_then(OngoingRead::for_certain);
                    let n_reads = self.reads_before.or(before.n_reads);
                    let state = Phase::Reported {
                        since,
                        gone_by: None,
                    };
                    return watch(&found, state, read.or(before.read), n_reads);
                }
                Phase::Candidate { .. } => self.is_due(),
            },
            before => {
                if let Some(before) = before {
                    if let Some(kept) = self.until_gone(&before) {
                        return Some(kept);
                    }
                    resolve(before, events);
                }
                // There is evidence only for screens that are unchanged, or changed beside what asks.
                self.last_look.terminal.is_some() && self.owns_screen(found) && self.is_due()
            }
        };
        if !is_reported {
            return watch(
                found,
                Phase::Candidate {
                    since: self.last_look.since,
                    due_beside: self.due_beside(found),
                },
                None,
                None,
            );
        }
        let kind = EventKind::Input {
            prompt: found.prompt.clone(),
        };
        events.push(Event {
            kind,
            task: Task::clone(self.task),
        });
        watch(
            found,
            Phase::Reported {
                since: Some(self.now),
                gone_by: None,
            },
            self.last_look.read(),
            self.last_look.n_reads(),
        )
    }

    /// Whether the screen certainly has what was printed before the call that reads the terminal.
    /// A look reads the screen first and the process second, so a prompt may have been printed in
    /// between. Another look, at once, shows it.
    fn owns_screen(&self, found: &PromptMatch) -> bool {
        let call = self.last_look.call.as_ref();
        found.is_question || call.is_some_and(|call| call.for_certain().is_some())
    }

    fn is_due(&self) -> bool {
        let still_for = self
            .found
            .as_ref()
            .map_or(Duration::ZERO, |found| found.still_for);
        let is_still_due = self.last_look.is_still
            && self.now.mono >= self.last_look.since + self.quiet.max(still_for);
        let beside = || self.due_beside(self.found.as_ref()?);
        is_still_due || beside().is_some_and(|due| due <= self.now.mono)
    }

    /// Returns when a prompt can be reported although other rows move; `None` where it cannot. The
    /// program may be at work, so the kernel has to show that it takes input, and the words or the
    /// list that it asks for some.
    fn due_beside(&self, found: &PromptMatch) -> Option<Instant> {
        let terminal = self.last_look.terminal.as_ref()?;
        let still_for = self.quiet.max(STILL_BESIDE).max(found.still_for);
        (terminal.reader.takes_input() && found.is_question && prompt::asks_beside(found))
            .then(|| self.last_look.still.since + still_for)
    }

    /// Whether an episode that was reported by evidence on the terminal can be neither confirmed
    /// nor denied, because there is no evidence now, for example while a user scrolls.
    fn lacks_evidence(&self, before: &Episode) -> bool {
        before.is_reported()
            && before.is_by_terminal
            && self.last_look.terminal.is_none()
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
    }

    /// Whether the reported prompt has just been drawn again with lower numbers. A program that
    /// counts down does not read while it draws, so only a later look shows if it still waits.
    fn is_being_redrawn(&self, before: &Episode) -> bool {
        let row = before.found.row;
        let (old, new) = (&before.task.screen, &self.task.screen);
        let (Some(old_row), Some(new_row)) = (old.rows.get(row), new.rows.get(row)) else {
            return false;
        };
        let shown = reprompt::PromptComparison {
            before: (old, row),
            after: (new, row),
        };
        before.is_reported()
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
            && !self.last_look.is_still
            && shown.counts_down(old_row, new_row)
    }

    /// Whether the reported prompt is still on the screen, although the cursor has left it, and the
    /// program still takes input and has read none: it printed something without drawing the prompt
    /// again.
    fn is_still_open(&self, before: &Episode) -> bool {
        let terminal = self.last_look.terminal.as_ref();
        let asked = before.found.prompt.text.as_str();
        before.is_reported()
            && before.found.is_question
            && self.task.is_alive()
            && !self.task.is_new_run_after(&before.task)
            && terminal.is_some_and(|terminal| terminal.reader.takes_input())
            && self.has_read_since(before) == Some(false)
            && !asked.is_empty()
            && (self.task.screen.rows[self.task.screen.first_visible()..].iter())
                .any(|row| row.contains(asked))
    }

    /// Returns a reported prompt that is not on the screen, as long as the program may only be drawing
    /// it again: nothing was read, or keys, which may also be what the terminal reports of itself. A
    /// screen of another width may show it only in part, or not at all.
    fn until_gone(&self, before: &Episode) -> Option<Episode> {
        let Phase::Reported { since, gone_by } = before.state else {
            return None;
        };
        if !self.task.is_alive() || self.task.is_new_run_after(&before.task) {
            return None;
        }
        let terminal = self.last_look.terminal.as_ref()?;
        let takes_input = terminal.reader.takes_input();
        let redraw = match self.has_read_since(before) {
            None if !before.is_restored() || !takes_input => return None,
            Some(true) if before.takes_lines && self.takes_lines() => return None,
            Some(false) if takes_input && self.is_resized_since(before) => None,
            None | Some(false) if takes_input && self.found.is_none() => Some(STILL_BESIDE),
            None | Some(_) => Some(self.quiet),
        };
        let due = redraw.map(|redraw| self.now.mono + redraw);
        let gone_by = due.map(|due| gone_by.map_or(due, |gone_by| gone_by.min(due)));
        if gone_by.is_some_and(|gone_by| self.now.mono >= gone_by) {
            return None;
        }
        let kept = without_evidence(before.clone(), self.task)?;
        Some(Episode {
            state: Phase::Reported { since, gone_by },
            ..kept
        })
    }

    /// Whether the pane has had another width since the prompt was last found.
    fn is_resized_since(&self, before: &Episode) -> bool {
        let widths = before.task.screen.width.zip(self.task.screen.width);
        widths.is_some_and(|(before, after)| before != after)
    }

    /// Whether the terminal is in line mode. Libraries switch to it for a moment when they print.
    fn takes_lines(&self) -> bool {
        let terminal = self.last_look.terminal.as_ref();
        terminal.is_some_and(|terminal| terminal.canonical == Some(true))
    }

    /// Whether input was read since a prompt was reported; `None` where that is not known.
    fn has_read_since(&self, before: &Episode) -> Option<bool> {
        let reads = before.n_reads.zip(self.last_look.n_reads());
        reads.map(|(before, after)| before != after)
    }

    /// Whether a full-screen pager or editor goes on: the text of its last row is not a new
    /// question.
    fn is_same_page(&self, before: &Episode, found: &PromptMatch) -> bool {
        let kind = found.prompt.kind;
        matches!(kind, PromptKind::Pager | PromptKind::Editor)
            && before.found.prompt.kind == kind
            && before.task.screen.alternate == Some(true)
            && self.task.screen.alternate == Some(true)
    }

    /// Whether the task's prompt is the same as before, possibly with a part of the answer behind
    /// it.
    fn continues(&self, before: &Episode, found: &PromptMatch) -> bool {
        if self.task.is_new_run_after(&before.task) {
            return false;
        }
        let read = self.last_look.read();
        let is_reported = before.is_reported();
        // Nothing was answered, whatever was printed meanwhile.
        let continues = ongoing_read::is_same(before.read, read)
            || (ongoing_read::was_interrupted(before.read, read) && !found.is_question);
        if is_reported && continues {
            return true;
        }
        if self.is_same_page(before, found) {
            return true;
        }
        let (old, new) = (&before.found.prompt.text, &found.prompt.text);
        let has_read = self.has_read_since(before);
        // An earlier answer, or what was printed since, may look like the text of one that has none.
        let is_unread = has_read == Some(false) || before.is_restored();
        if is_reported && is_unread && old.is_empty() && !found.is_question {
            return true;
        }
        match has_read {
            Some(false) if is_reported => return has_same_words(old, new),
            // A line was read: the answer, even if the screen was cleared since. Where keys are read
            // one by one, it may have been any key, or what the terminal reports of itself.
            Some(true) if before.takes_lines && self.takes_lines() => return false,
            Some(_) | None => {}
        }
        let (old_screen, new_screen) = (&before.task.screen, &self.task.screen);
        let (old_row, new_row) = (before.found.row, found.row);
        let shown = reprompt::PromptComparison {
            before: (old_screen, old_row),
            after: (new_screen, new_row),
        };
        let is_same = old == new || (!old.is_empty() && new.starts_with(old.as_str()));
        if is_same {
            return !shown.is_asked_again();
        }
        let (old, new) = (without_animation(old), without_animation(new));
        if has_read == Some(true) || old.is_empty() {
            return false;
        }
        if !new.starts_with(&old) {
            return is_reported && shown.counts_down(&old, &new) && !shown.is_asked_again();
        }
        // Only with the same signs everywhere do the screens show what was asked again.
        let (old_screen, new_screen) = (
            old_screen.without_animation(),
            new_screen.without_animation(),
        );
        let shown = reprompt::PromptComparison {
            before: (&old_screen, old_row),
            after: (&new_screen, new_row),
        };
        !shown.is_asked_again()
    }
}
