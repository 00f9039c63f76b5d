//! Distinguishes a prompt that is still there from the same words asked again.

use crate::model::{ReadCall, Screen, without_animation};

/// With fewer rows of context than this, a full change may be a redraw, for example of a clock.
const PAGE: usize = 5;

/// Two screens with a prompt of the same words, and the prompt's row on each.
#[derive(Debug, Clone, Copy)]
pub(super) struct PromptComparison<'a> {
    pub(super) before: (&'a Screen, usize),
    pub(super) after: (&'a Screen, usize),
}

impl PromptComparison<'_> {
    /// Whether the prompt was asked again. `calls` are the calls that read lines at either time,
    /// where they are known and differ.
    pub(super) fn is_asked_again(&self, calls: Option<(ReadCall, ReadCall)>) -> bool {
        match calls {
            // A line was read: the answer, even if the screen was cleared since.
            Some((before, after)) if after.has_read_since(&before) => true,
            // Another call, and whether the first one read anything is not known.
            Some((before, after)) if before.thread != after.thread || after.bytes.is_none() => {
                (!self.has_same_rows() && self.is_repeated_above()) || self.is_written_again()
            }
            // Interrupted by a signal, or nothing is known.
            Some(_) | None => self.is_written_again(),
        }
    }

    /// Whether it is the same prompt in the same place, and only its numbers are lower than in the
    /// words `old` that were reported: `Starting in 9 s. Stop? [y/N]` is redrawn each second.
    /// Numbers that rise may count questions, which have been answered one by one.
    pub(super) fn counts_down(&self, old: &str, new: &str) -> bool {
        let (before, old_row) = self.before;
        let (after, new_row) = self.after;
        // Where a prompt from before a restart was is not known.
        let is_same =
            |(old, new): (&String, &String)| without_animation(old) == without_animation(new);
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

    fn has_same_rows(&self) -> bool {
        self.before.0.has_rows_of(self.after.0)
    }

    /// Whether a row above the prompt starts with the same words.
    fn is_repeated_above(&self) -> bool {
        let (screen, row) = self.after;
        let Some(asked) = screen.rows.get(row).map(|row| row.trim_end()) else {
            return false;
        };
        !asked.is_empty() && screen.rows[..row].iter().any(|row| row.starts_with(asked))
    }

    /// Whether the screens alone show that the prompt was printed again after other output.
    ///
    /// A prompt that moved together with the rows above it has scrolled. One that kept its row
    /// while other rows were redrawn is the old one, unless its words are now also above it, or a
    /// whole page of other output has replaced what was above it.
    fn is_written_again(&self) -> bool {
        let (old, old_row) = self.before;
        let (new, new_row) = self.after;
        let (Some(asked), true) = (new.rows.get(new_row), old_row < old.rows.len()) else {
            return false;
        };
        // A full-screen program draws anywhere: its rows say nothing about order.
        if self.has_same_rows() || new.alternate == Some(true) {
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

/// Returns the number of pairs of equal rows, and of all pairs in which the new row has text.
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

    #[track_caller]
    fn check(old: &str, new: &str, expected: bool) {
        check_read(None, old, new, expected);
    }

    #[track_caller]
    fn check_read(calls: Option<(ReadCall, ReadCall)>, old: &str, new: &str, expected: bool) {
        let screen = |text: &str| Screen {
            rows: text.split('|').map(str::to_owned).collect(),
            ..Screen::default()
        };
        let (old, new) = (screen(old), screen(new));
        let row = |screen: &Screen| {
            screen
                .rows
                .iter()
                .rposition(|row| row == "Go?")
                .expect("the prompt is there")
        };
        let shown = PromptComparison {
            before: (&old, row(&old)),
            after: (&new, row(&new)),
        };
        assert_eq!(
            shown.is_asked_again(calls),
            expected,
            "{:?} -> {:?}",
            old.rows,
            new.rows
        );
    }

    #[test]
    fn a_prompt_that_is_still_there_is_the_same() {
        check("a|Go?", "a|Go?", false);
        check("12:00|Go?", "12:01|Go?", false);
        check("a|Go?|12:00", "a|Go?|12:01", false);
        check("a|b|c|Go?", "b|c|Go?|more", false);
        check("a|b|c|Go?", "Go?", false);
        check("c|Go?", "a|b|c|Go?", false);
    }

    #[test]
    fn a_prompt_asked_again_is_another() {
        check("Go?", "Go? y|ok|Go?", true);
        check("a|Go?", "a|Go? y|ok|Go?", true);
        check("a|b|Go?", "Go? y|ok|Go?", true);
        check("a|b|c|d|e|f|Go?", "1|2|3|4|5|6|Go?", true);
        check("a|b|Go?", "x|Go?", true);
    }

    #[test]
    fn a_question_in_a_screen_that_repeats_itself_is_another() {
        check("Go? a|1|Go?", "Go? a|1|Go? a|2|Go?", true);
        check("Go? a|1|Go? a|2|Go?", "Go? a|1|Go? a|2|Go? a|3|Go?", true);
        check("Go?|No.|Go?", "Go?|No.|Go?|No.|Go?", true);
        check("Go? a|s|Go?", "Go? a|s|Go? a|s|Go?", true);
        // The rows that are shown are full: the first ones have gone.
        check("1|Go? a|2|Go? a|3|Go?", "2|Go? a|3|Go? a|4|Go?", true);
        check("x|1|Go? a|2|Go?", "1|Go? a|2|Go? a|3|Go?", true);
        // It may as well have scrolled.
        check("x|s|Go? a|s|Go?", "s|Go? a|s|Go?", false);
    }

    #[test]
    fn a_prompt_that_counts_down_is_the_same() {
        let check = |old: &str, new: &str, expected: bool| {
            let screen = |text: &str| Screen {
                rows: text.split('|').map(str::to_owned).collect(),
                ..Screen::default()
            };
            let (old, new) = (screen(old), screen(new));
            let (old_row, new_row) = (old.rows.len() - 1, new.rows.len() - 1);
            let shown = PromptComparison {
                before: (&old, old_row),
                after: (&new, new_row),
            };
            assert_eq!(
                shown.counts_down(&old.rows[old_row], &new.rows[new_row]),
                expected,
                "{:?} -> {:?}",
                old.rows,
                new.rows
            );
        };
        check("a|Go in 10 s? [y/n]", "a|Go in  9 s? [y/n]", true);
        check("Go in 99 s?", "Go in 1 s?", true);
        check("Go? (1:00)", "Go? (0:59)", true);
        // These may have been answered.
        check("Player 1?", "Player 2?", false);
        check("Go in 9 s?", "Go in 9 s?", false);
        check("Go in 9 s?", "Stop in 8 s?", false);
        check("2 tries left?", "Wrong.|1 tries left?", false);
        check("a|2 tries left?", "Wrong.|1 tries left?", false);
        check("Port 80?", "Port?", false);
    }

    fn call(thread: u32, switches: u64, bytes: Option<u64>) -> ReadCall {
        ReadCall {
            thread,
            switches,
            bytes,
        }
    }

    #[test]
    fn a_line_that_was_read_is_an_answer() {
        let answered = Some((call(1, 5, Some(10)), call(1, 6, Some(12))));
        check_read(answered, "s|Go? a|s|Go?", "s|Go? a|s|Go?", true);
        check_read(answered, "a|b|c|Go?", "b|c|Go? y|Go?", true);
        check_read(answered, "a|b|c|Go?", "c|ok|Go?", true);
        // It was cleared and drawn as before.
        check_read(answered, "a|Go?", "a|Go?", true);

        let interrupted = Some((call(1, 5, Some(10)), call(1, 6, Some(10))));
        check_read(interrupted, "a|b|c|Go?", "b|c|Go?|more", false);
        check_read(interrupted, "a|Go?", "a|Go?", false);

        let another = Some((call(1, 5, Some(10)), call(2, 1, Some(9))));
        check_read(another, "x|s|Go? a|s|Go?", "s|Go? a|s|Go?", true);
        check_read(another, "a|Go?", "a|Go?", false);
        let uncounted = Some((call(1, 5, None), call(1, 6, None)));
        check_read(uncounted, "x|s|Go? a|s|Go?", "s|Go? a|s|Go?", true);
        check_read(uncounted, "a|b|c|Go?", "b|c|Go?|more", false);
    }
}
