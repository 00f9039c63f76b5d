//! Distinguishes the echo of an answer from a question.
//!
//! Typing an answer leaves it behind the question, and the cursor in the next row. If the program
//! then reads on without printing, the last text above the cursor seems to be the question, but it
//! is the answer.

use crate::model::{Screen, Task, TtyEvidence, TtyUse};
use crate::prompt::Judgement;

/// How many rows above a position must be equal for it to be the same position.
const CONTEXT: usize = 5;

/// The position where an answer would be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerPlace {
    run: Option<u32>,
    /// The rows above it.
    above: Vec<String>,
    /// The text in its row before anything was typed.
    text: String,
}

impl AnswerPlace {
    /// Returns the position at the cursor; `None` where it is not known, or on the alternate
    /// screen.
    fn at_cursor(task: &Task) -> Option<Self> {
        let screen = &task.screen;
        let row = cursor_row(screen)?;
        let above = screen.rows.get(..row)?;
        Some(Self {
            run: task.run,
            above: above[row.saturating_sub(CONTEXT)..].to_vec(),
            text: text_of(screen, row).to_owned(),
        })
    }

    /// Whether it is this row of the screen, whatever has been typed there since.
    fn is(&self, screen: &Screen, row: usize) -> bool {
        let Some(above) = screen.rows.get(..row) else {
            return false;
        };
        text_of(screen, row).starts_with(self.text.as_str())
            && above.len().min(CONTEXT) == self.above.len()
            && above.ends_with(&self.above)
    }

    /// Whether this row contains an answer that was submitted: the cursor is below it.
    fn is_answered_in(&self, screen: &Screen, row: usize) -> bool {
        cursor_row(screen).is_some_and(|cursor| cursor > row)
            && self.is(screen, row)
            && text_of(screen, row).len() > self.text.len()
    }
}

/// Removes an echoed answer from the judgement. Returns the position where the next answer would be
/// typed.
pub(super) fn follow(
    before: Option<&AnswerPlace>,
    task: &Task,
    terminal: Option<&TtyEvidence>,
    judgement: Option<&mut Judgement>,
) -> Option<AnswerPlace> {
    let before = before.filter(|before| before.run == task.run);
    let Some(judgement) = judgement else {
        return before.cloned();
    };
    // Where the terminal does not echo, a program shows an answer only behind words of its own.
    let echoes = terminal.is_none_or(|terminal| terminal.echo != Some(false));
    let is_echo = |row| {
        before.is_some_and(|before| {
            (echoes || !before.text.is_empty()) && before.is_answered_in(&task.screen, row)
        })
    };
    if let Some(found) = &mut judgement.found
        && is_echo(found.row)
    {
        judgement.row = None;
        if terminal.is_some_and(|terminal| terminal.reader == TtyUse::Reading) {
            // The program reads on without having printed anything.
            found.prompt.text.clear();
            found.row = usize::MAX;
            found.is_question = false;
        } else {
            judgement.found = None;
            judgement.rule = "the echo of the answer";
        }
    }
    let asks = judgement.found.is_some();
    let is_kept = before.is_some_and(|before| {
        cursor_row(&task.screen).is_some_and(|row| before.is(&task.screen, row))
    });
    // Typing moves the cursor, not the position.
    if asks && !is_kept {
        AnswerPlace::at_cursor(task)
    } else {
        before.cloned()
    }
}

fn cursor_row(screen: &Screen) -> Option<usize> {
    if screen.alternate == Some(true) {
        return None;
    }
    usize::try_from(screen.cursor?.y).ok()
}

fn text_of(screen: &Screen, row: usize) -> &str {
    screen.rows.get(row).map_or("", |row| row.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;
    use crate::prompt::{UserRules, judge};

    fn reading(reader: TtyUse) -> TtyEvidence {
        TtyEvidence {
            canonical: Some(true),
            echo: Some(true),
            reader,
            ..TtyEvidence::default()
        }
    }

    /// What is asked on each of these screens, one after the other; `-` for nothing.
    #[track_caller]
    fn check(reader: TtyUse, screens: &[(&str, &str)]) {
        let evidence = reading(reader);
        let mut place = None;
        for (index, (screen, expected)) in screens.iter().enumerate() {
            let task = task(&format!("@1#1 a running {screen}"));
            let mut judgement = judge(&task.screen, Some(&evidence), &UserRules::default());
            place = follow(place.as_ref(), &task, Some(&evidence), Some(&mut judgement));
            let asked = judgement.found.map(|found| found.prompt.text);
            assert_eq!(asked.as_deref().unwrap_or("-"), *expected, "screen {index}");
        }
    }

    #[test]
    fn an_answer_is_no_question() {
        check(
            TtyUse::Reading,
            &[
                ("cursor=6,0 : Name?", "Name?"),
                ("cursor=9,0 : Name? Ada", "Name? Ada"),
                ("cursor=0,1 : Name? Ada", ""),
                ("cursor=5,1 : Name? Ada|what?", "what?"),
                ("cursor=0,2 : Name? Ada|what?", ""),
                // It answers with words of its own.
                ("cursor=0,4 : Name? Ada|what?|x|Your age?", "Your age?"),
                ("cursor=0,5 : Name? Ada|what?|x|Your age?|36", ""),
            ],
        );
        // Without a word from the beginning.
        check(
            TtyUse::Reading,
            &[("cursor=0,0", ""), ("cursor=0,1 : my answer", "")],
        );
    }

    #[test]
    fn an_answer_is_no_question_by_its_text_alone_either() {
        check(
            TtyUse::Polling,
            &[
                ("cursor=6,0 : Name?", "Name?"),
                ("cursor=0,1 : Name? Press any key", "-"),
            ],
        );
    }

    #[test]
    fn a_list_that_is_drawn_again_below_itself_is_no_answer() {
        let list = |mark: &str| format!("Pick one:|  a|{mark} b|  c");
        let keys = TtyEvidence {
            canonical: Some(false),
            ..reading(TtyUse::Reading)
        };
        for echo in [true, false] {
            let evidence = TtyEvidence {
                echo: Some(echo),
                ..keys.clone()
            };
            let asked = |place: Option<&AnswerPlace>, screen: &str| {
                let task = task(&format!("@1#1 a running {screen}"));
                let mut judgement = judge(&task.screen, Some(&evidence), &UserRules::default());
                let place = follow(place, &task, Some(&evidence), Some(&mut judgement));
                (place, judgement.found.map(|found| found.prompt.text))
            };
            let (place, first) = asked(None, &format!("cursor=0,4 : {}|", list("❯")));
            assert_eq!(first.as_deref(), Some("Pick one:"));
            let twice = format!("cursor=0,8 : {}|{}|", list("❯"), list("❯"));
            let (_, again) = asked(place.as_ref(), &twice);
            let expected = if echo { "" } else { "Pick one:" };
            assert_eq!(again.as_deref(), Some(expected), "{echo}");
        }
    }

    #[test]
    fn the_same_words_elsewhere_are_a_question() {
        check(
            TtyUse::Reading,
            &[
                ("cursor=0,1 : Name?", "Name?"),
                // What was answered scrolled away with the rows above.
                ("cursor=0,2 : other|Name? Ada?", "Name? Ada?"),
            ],
        );
    }
}
