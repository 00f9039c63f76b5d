//! What a task asks, where that is on a screen, and what is typed into it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Screen;

/// What a task asks, reported or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// Whether it was reported as `input`.
    pub is_reported: bool,
    /// The rows that ask; empty where none do.
    pub rows: Arc<[String]>,
}

impl OpenQuestion {
    /// Whether all of its rows are visible on this screen, apart from figures and what is animated in them.
    pub fn is_on(&self, screen: &Screen) -> bool {
        let n_rows = self.rows.len();
        let mut places = screen.rows[screen.first_visible()..].windows(n_rows.max(1));
        n_rows > 0 && places.any(|rows| are_same_rows(&self.rows, rows, has_same_words))
    }
}

/// Whether these are as many rows, and each of them is the same by this comparison.
pub fn are_same_rows(
    before: &[String],
    after: &[String],
    is_same: impl Fn(&str, &str) -> bool,
) -> bool {
    let mut pairs = before.iter().zip(after);
    before.len() == after.len() && pairs.all(|(before, after)| is_same(before, after))
}

/// Whether two texts have the same letters, apart from more at one end. Figures, bars and signs may be
/// drawn again while nobody answers, an answer is typed behind the question, and when the screen is
/// resized, what is before it may be what is left of the question itself.
pub fn has_same_words(before: &str, after: &str) -> bool {
    let words = |text: &str| -> String { text.chars().filter(|c| c.is_alphabetic()).collect() };
    let (old, new) = (words(before), words(after));
    if old.is_empty() {
        before == after
    } else {
        new.starts_with(&old) || new.ends_with(&old)
    }
}

/// What to type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TypedInput {
    /// A text, character by character.
    Text(String),
    /// Keys, by tmux's names.
    Keys(Vec<String>),
    /// A text that must not be visible anywhere.
    Secret(SecretText),
}

/// A text that must not be visible anywhere: no log contains it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(text: &str) -> Screen {
        Screen {
            rows: text.split('|').map(str::to_owned).collect(),
            ..Screen::default()
        }
    }

    #[test]
    fn a_question_is_found_wherever_it_was_moved() {
        let check = |rows: &str, shown: &str, expected: bool| {
            let question = OpenQuestion {
                is_reported: true,
                rows: screen(rows).rows,
            };
            assert_eq!(
                question.is_on(&screen(shown)),
                expected,
                "{rows} on {shown}"
            );
        };
        check("Go? [y/n]", "Go? [y/n]", true);
        check("Go? [y/n]", "GET /0|GET /1|Go? [y/n]", true);
        check("Go? [y/n]", "Go? [y/n] GET /0|", true);
        check("Go? [y/n]  1%", "x|Go? [y/n]  99%", true);
        check("Which?|❯ a|  b", "ok|Which?|❯ a|  b||12 tokens", true);
        check("Which?|❯ a|  b", "Which?|  a|❯ b", true);
        check("Which?|❯ a|  b", "Which?|❯ c|  b", false);
        check("Which?|❯ a|  b", "Which?|❯ a", false);
        check("Go?", "Stop?", false);
    }

    #[test]
    fn figures_are_no_words() {
        let check = |before, after, expected| {
            assert_eq!(has_same_words(before, after), expected, "{before} {after}");
        };
        check("Go? [y/N]", "Go? [y/N]", true);
        check("Go? [y/N] 1%", "Go? [y/N] 2%", true);
        check("Go? (1.2k tokens)", "Go? (13.9k tokens)", true);
        check("Go? [##  ]", "Go? [### ]", true);
        check("Go?", "Go? yes", true);
        check("Go? [y/N]", "Go Go? [y/N]", true);
        check("Go?", "Stop?", false);
        check("Delete a? [y/N]", "Delete b? [y/N]", false);
        check(">", ">", true);
        check(">", "Go?", false);
    }
}
