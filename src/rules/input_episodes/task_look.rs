//! Decides at one look whether a prompt is reported, goes on or is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::last_look::*;
use crate::model::*;
use crate::rules::prompt::{self, PromptMatch};

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
                Phase::Reported(report) => {
                    // Typing changes the row, not the question.
                    let found = PromptMatch {
                        prompt: before.found.prompt,
                        ..found.clone()
                    };
                    let call = self.last_look.call.as_ref();
                    let read = call.and_then(OngoingRead::for_certain);
                    let n_reads = self.reads_before.or(before.n_reads);
                    let gone_by = None;
                    let state = Phase::Reported(Report { gone_by, ..report });
                    return watch(&found, state, read.or(before.read), n_reads);
                }
                Phase::Candidate { .. } => self.is_due(found),
            },
            before => {
                if let Some(before) = before {
                    if let Some(kept) = self.until_gone(&before) {
                        return Some(kept);
                    }
                    resolve(before, events);
                }
                // There is evidence only for screens that are unchanged, or changed beside what asks.
                self.last_look.terminal.is_some() && self.owns_screen(found) && self.is_due(found)
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
            Phase::Reported(Report {
                since: Some(self.now),
                ..Report::default()
            }),
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

    fn is_due(&self, found: &PromptMatch) -> bool {
        let is_still_due = self.last_look.is_still
            && self.now.mono >= self.last_look.since + self.quiet.max(found.still_for);
        let beside = || self.due_beside(found);
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

    /// Whether an episode that was reported by evidence can be neither confirmed nor denied, because
    /// there is none now, for example while a user scrolls.
    fn lacks_evidence(&self, before: &Episode) -> bool {
        before.is_reported()
            && before.is_by_terminal
            && self.last_look.terminal.is_none()
            && self.is_alive_since(before)
    }

    fn is_alive_since(&self, before: &Episode) -> bool {
        self.task.is_alive() && !self.task.is_new_run_after(&before.task)
    }

    /// Whether the reported prompt has just been drawn again with lower numbers. A program that
    /// counts down does not read while it draws, so only a later look shows if it still waits.
    fn is_being_redrawn(&self, before: &Episode) -> bool {
        let row = before.found.row;
        let (old, new) = (&before.task.screen, &self.task.screen);
        let (Some(old_row), Some(new_row)) = (old.rows.get(row), new.rows.get(row)) else {
            return false;
        };
        let shown = PromptComparison {
            before: (old, row),
            after: (new, row),
        };
        before.is_reported()
            && self.is_alive_since(before)
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
            && self.is_alive_since(before)
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
        let report = before.report()?;
        if !self.is_alive_since(before) {
            return None;
        }
        let terminal = self.last_look.terminal.as_ref()?;
        let takes_input = terminal.reader.takes_input();
        let widths = before.task.screen.width.zip(self.task.screen.width);
        let is_resized = widths.is_some_and(|(before, after)| before != after);
        let redraw = match self.has_read_since(before) {
            None if !before.is_restored() || !takes_input => return None,
            Some(true) if before.takes_lines && self.takes_lines() => return None,
            Some(false) if takes_input && is_resized => None,
            None | Some(false) if takes_input && self.found.is_none() => Some(STILL_BESIDE),
            None | Some(_) => Some(self.quiet),
        };
        let due = redraw.map(|redraw| self.now.mono + redraw);
        let gone_by = due.map(|due| report.gone_by.map_or(due, |gone_by| gone_by.min(due)));
        if gone_by.is_some_and(|gone_by| self.now.mono >= gone_by) {
            return None;
        }
        let kept = without_evidence(before.clone(), self.task)?;
        Some(Episode {
            state: Phase::Reported(Report { gone_by, ..report }),
            ..kept
        })
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
        let continues = is_same_read(before.read, read)
            || (was_interrupted(before.read, read) && !found.is_question);
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
        let shown = PromptComparison {
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
        let shown = PromptComparison {
            before: (&old_screen, old_row),
            after: (&new_screen, new_row),
        };
        !shown.is_asked_again()
    }
}

/// With fewer rows of context than this, a full change may be a redraw, for example of a clock.
const PAGE: usize = 5;

/// Two screens with a prompt of the same words, and the prompt's row on each.
#[derive(Debug, Clone, Copy)]
pub(super) struct PromptComparison<'a> {
    pub(super) before: (&'a Screen, usize),
    pub(super) after: (&'a Screen, usize),
}

impl PromptComparison<'_> {
    /// Whether it is the same prompt in the same place with lower numbers, as `Starting in 9 s. Stop?
    /// [y/N]` is redrawn. Numbers that rise may count questions that were answered.
    pub(super) fn counts_down(&self, old: &str, new: &str) -> bool {
        let (before, old_row) = self.before;
        let (after, new_row) = self.after;
        // Where a prompt from before a restart was is not known.
        let is_same = |(old, new): (&String, &String)| is_same_but_animated(old, new);
        let is_in_place = old_row == usize::MAX
            || (old_row == new_row
                && (before.rows.iter().zip(after.rows.iter()))
                    .take(old_row)
                    .all(is_same));
        let ((old_words, old_numbers), (words, numbers)) = (numbers(old), numbers(new));
        is_in_place
            && old_words == words
            && old_numbers.len() == numbers.len()
            && numbers < old_numbers
    }

    /// Whether the screens alone show that the prompt was printed again after other output.
    ///
    /// A prompt that moved together with the rows above it has scrolled. One that kept its row
    /// while other rows were redrawn is the old one, unless its words are now also above it, or a
    /// whole page of other output has replaced what was above it.
    pub(super) fn is_asked_again(&self) -> bool {
        let (old, old_row) = self.before;
        let (new, new_row) = self.after;
        let (Some(asked), true) = (new.rows.get(new_row), old_row < old.rows.len()) else {
            return false;
        };
        // A full-screen program draws anywhere: its rows say nothing about order.
        if old.has_rows_of(new) || new.alternate == Some(true) {
            return false;
        }
        if self.is_moved_by_lines_above(asked.trim_end()) {
            return false;
        }
        if self.is_answered_above(asked.trim_end()) {
            return true;
        }
        if old_row == new_row {
            let old_above = &old.rows[..old_row];
            let new_above = &new.rows[..new_row];
            let asked_above = old_above
                .iter()
                .zip(new_above)
                .any(|(old, new)| old != new && new.starts_with(asked.trim_end()));
            let (alike, all) = alike(old_above, new_above);
            return asked_above || (all >= PAGE && (all - alike) * 5 >= all * 4);
        }
        // Align the two prompts and compare the rows above them.
        let shown = old_row.min(new_row);
        let (alike, all) = alike(
            &old.rows[old_row - shown..old_row],
            &new.rows[new_row - shown..new_row],
        );
        if all == 0 {
            new_row > old_row
        } else {
            alike * 2 < all
        }
    }

    /// Whether other lines were printed between the prompt and what was above it, and nothing else: the
    /// program has drawn its prompt again below them. An answered prompt would be above them.
    fn is_moved_by_lines_above(&self, asked: &str) -> bool {
        let (old, old_row) = self.before;
        let (new, new_row) = self.after;
        let (old_above, new_above) = (&old.rows[..old_row], &new.rows[..new_row]);
        // So many rows may have scrolled out of the screen.
        let n_left = (0..=old_above.len()).find(|out| new_above.starts_with(&old_above[*out..]));
        let n_kept = old_above.len() - n_left.unwrap_or(old_above.len());
        let is_text = |row: &String| !row.trim().is_empty();
        let has_context = !old_above.iter().any(is_text) || new_above[..n_kept].iter().any(is_text);
        // Without its mark and its choices, which change when it is answered.
        let choices = asked.rsplit_once(['(', '[']);
        let question = letters(choices.map_or(asked, |(before, _)| before));
        // A screen that is cleared to its end from the first cell goes to the history.
        let is_cleared = |row: usize| {
            old.first_visible() == old_row
                && row < new.first_visible()
                && new.rows[row] == old.rows[old_row]
        };
        let mut printed = (n_kept..new_row).filter(|row| !is_cleared(*row));
        has_context
            && !question.is_empty()
            && !printed.any(|row| letters(&new.rows[row]).starts_with(&question))
    }

    /// Whether the row of the old prompt, with or without an answer, is still below the same rows
    /// as before, and the new prompt is below it.
    fn is_answered_above(&self, asked: &str) -> bool {
        let (old, old_row) = self.before;
        let (new, new_row) = self.after;
        // Rows move up when a screen scrolls, never down.
        let candidates = (0..new_row.min(old_row + 1)).rev();
        let mut answered = candidates.filter(|row| new.rows[*row].starts_with(asked));
        let is_old = |row: usize| {
            let above = &old.rows[old_row - row..old_row];
            above == &new.rows[..row]
        };
        // Where much on the screen repeats itself, the prompt may as well have scrolled with the
        // rows above it. It has not if it is lower than before.
        let has_scrolled = || {
            let shown = new_row.min(old_row);
            old.rows[old_row - shown..old_row] == new.rows[new_row - shown..new_row]
        };
        answered.any(|row| is_old(row) && (new_row > old_row || (row > 0 && !has_scrolled())))
    }
}

/// Returns the text without white space and with a mark in place of each number, and the numbers.
fn numbers(text: &str) -> (String, Vec<u64>) {
    const MARK: char = '\0';
    let mut words = String::new();
    let mut numbers: Vec<u64> = Vec::new();
    let mut is_in_number = false;
    for c in text.chars() {
        let digit = c.to_digit(10).map(u64::from);
        match (digit, numbers.last_mut()) {
            (Some(digit), Some(number)) if is_in_number => {
                *number = number.saturating_mul(10).saturating_add(digit);
            }
            (Some(digit), _) => {
                words.push(MARK);
                numbers.push(digit);
            }
            (None, _) if c.is_whitespace() => {}
            (None, _) => words.push(c),
        }
        is_in_number = digit.is_some();
    }
    (words, numbers)
}

fn alike(old: &[String], new: &[String]) -> (usize, usize) {
    let pairs = old
        .iter()
        .zip(new)
        .filter(|(_, new)| !new.trim().is_empty());
    pairs.fold((0, 0), |(same, all), (old, new)| {
        (same + usize::from(old == new), all + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::screen_of as screen;

    #[test]
    fn whether_a_prompt_is_asked_again() {
        for (old, new, expected) in [
            // A prompt that is still there is the same.
            ("a|Go?", "a|Go?", false),
            ("12:00|Go?", "12:01|Go?", false),
            ("a|Go?|12:00", "a|Go?|12:01", false),
            ("a|b|c|Go?", "b|c|Go?|more", false),
            ("a|b|c|Go?", "Go?", false),
            ("c|Go?", "a|b|c|Go?", false),
            // A prompt asked again is another.
            ("Go?", "Go? y|ok|Go?", true),
            ("a|Go?", "a|Go? y|ok|Go?", true),
            ("a|b|Go?", "Go? y|ok|Go?", true),
            ("a|b|c|d|e|f|Go?", "1|2|3|4|5|6|Go?", true),
            ("a|b|Go?", "x|Go?", true),
            // In a screen that repeats itself as well.
            ("Go? a|1|Go?", "Go? a|1|Go? a|2|Go?", true),
            ("Go? a|1|Go? a|2|Go?", "Go? a|1|Go? a|2|Go? a|3|Go?", true),
            ("Go?|No.|Go?", "Go?|No.|Go?|No.|Go?", true),
            ("Go? a|s|Go?", "Go? a|s|Go? a|s|Go?", true),
            // The rows that are shown are full: the first ones have gone.
            ("1|Go? a|2|Go? a|3|Go?", "2|Go? a|3|Go? a|4|Go?", true),
            ("x|1|Go? a|2|Go?", "1|Go? a|2|Go? a|3|Go?", true),
            // It may as well have scrolled.
            ("x|s|Go? a|s|Go?", "s|Go? a|s|Go?", false),
            // Lines printed above a prompt do not ask it again.
            ("Go?", "GET /0|Go?", false),
            ("Go?", "GET /0|GET /1|Go?", false),
            ("a|Go?", "a|GET /0|Go?", false),
            // The screen is full.
            ("a|b|c|d|e|f|Go?", "b|c|d|e|f|GET /0|Go?", false),
            ("a|b|c|d|e|f|Go?", "d|e|f|1|2|3|Go?", false),
            ("a||Go?", "a||GET /0|Go?", false),
            ("||Go?", "||GET /0|Go?", false),
            // It was answered.
            ("a|Go?", "a|Go? y|GET /0|Go?", true),
            ("a|Go?", "a|Go?|GET /0|Go?", true),
            ("a|Go?", "a|✔ Go? · yes|GET /0|Go?", true),
            // The one above was there before.
            ("Go?|GET /0|Go?", "Go?|GET /0|GET /1|Go?", false),
            // Nothing of what was there is left.
            ("a|b|c|d|e|f|Go?", "1|2|3|4|5|6|Go?", true),
            ("a|Go?", "x|y|Go?", true),
        ] {
            let (old, new) = (screen(old), screen(new));
            let row = |screen: &Screen| screen.rows.iter().rposition(|row| row == "Go?").unwrap();
            let shown = PromptComparison {
                before: (&old, row(&old)),
                after: (&new, row(&new)),
            };
            let again = shown.is_asked_again();
            assert_eq!(again, expected, "{:?} -> {:?}", old.rows, new.rows);
        }
        // At the top of the screen, it was cleared.
        let at = |text, top| Screen {
            top: Some(top),
            ..screen(text)
        };
        for (top, expected) in [(0, true), (1, false)] {
            let shown = PromptComparison {
                before: (&at("Go?", 0), 0),
                after: (&at("Go?|GET /0|Go?", top), 2),
            };
            assert_eq!(shown.is_asked_again(), expected, "{top}");
        }
    }

    #[test]
    fn a_prompt_that_counts_down_is_the_same() {
        for (old, new, expected) in [
            ("a|Go in 10 s? [y/n]", "a|Go in  9 s? [y/n]", true),
            ("Go in 99 s?", "Go in 1 s?", true),
            ("Go? (1:00)", "Go? (0:59)", true),
            // These may have been answered.
            ("Player 1?", "Player 2?", false),
            ("Go in 9 s?", "Go in 9 s?", false),
            ("Go in 9 s?", "Stop in 8 s?", false),
            ("2 tries left?", "Wrong.|1 tries left?", false),
            ("a|2 tries left?", "Wrong.|1 tries left?", false),
            ("Port 80?", "Port?", false),
        ] {
            let (old, new) = (screen(old), screen(new));
            let (old_row, new_row) = (old.rows.len() - 1, new.rows.len() - 1);
            let shown = PromptComparison {
                before: (&old, old_row),
                after: (&new, new_row),
            };
            let counts = shown.counts_down(&old.rows[old_row], &new.rows[new_row]);
            assert_eq!(counts, expected, "{:?} -> {:?}", old.rows, new.rows);
        }
    }
}
