//! What a pane shows, and how much of it is told.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::text;

/// How many of a task's last lines are quoted to a user or an agent.
pub const QUOTED_LINES: usize = 3;
/// The maximum length of a quoted line, in characters.
pub const QUOTED_CHARS: usize = 500;

/// The maximum number of rows of a preview; a full-screen program's screen may have
/// [`ALTERNATE_ROWS`].
const PREVIEW_ROWS: usize = 20;
/// The maximum number of rows of a preview of the alternate screen.
const ALTERNATE_ROWS: usize = 50;
/// The maximum size of a preview, in bytes.
const PREVIEW_BYTES: usize = 4096;

/// The last rows of a pane's history and screen, wrapped as on the screen.
#[derive(Debug, Clone, Default, Eq, Deserialize)]
#[serde(from = "Preview")]
pub struct Screen {
    /// Sanitised text, one string per row, without trailing blanks.
    ///
    /// Shared, because a look contains the rows of every task and few of them have changed.
    pub rows: Arc<[String]>,
    /// The cursor position; `None` where it is not known.
    pub cursor: Option<CursorPosition>,
    /// Whether a full-screen program uses the alternate screen; `None` where it is not known.
    pub alternate: Option<bool>,
    /// The index in [`Screen::rows`] of the first row that is not history; `None` where it is not known.
    /// Not compared.
    pub top: Option<u32>,
    /// How many cells a row has; `None` where it is not known. Not compared: it says how the rows
    /// are to be read.
    pub width: Option<u32>,
    /// The last [`QUOTED_LINES`] lines that have text, as they are quoted, with wrapped rows joined;
    /// `None` where they are the last rows. Not compared: they follow from what was printed, as the
    /// rows do.
    pub last_lines: Option<Arc<[String]>>,
    /// Whether the program has hidden the cursor.
    pub is_cursor_hidden: bool,
    /// Where the program draws a cursor of its own, while the terminal's is hidden.
    pub drawn_cursor: Option<CursorPosition>,
}

/// A [`Screen`] as it is read.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preview {
    /// The last rows of history and screen, wrapped as on the screen; untrusted text without
    /// control characters.
    output_preview: String,
    /// The last lines that have text, at most three, with wrapped rows joined; `…` marks where one of more
    /// than 500 characters is cut. Absent: they are the last rows of `outputPreview`.
    #[schemars(with = "Vec<String>", skip_serializing_if = "Vec::is_empty")]
    last_lines: Vec<String>,
    /// The cursor's column, from 0.
    #[serde(deserialize_with = "place")]
    #[schemars(with = "u32", default)]
    cursor_x: Option<u32>,
    /// The cursor's row within `outputPreview`, from 0.
    #[serde(deserialize_with = "place")]
    #[schemars(with = "u32", default)]
    cursor_y: Option<u32>,
    /// Whether a full-screen program uses the alternate screen.
    #[schemars(with = "bool", default)]
    alternate_on: Option<bool>,
}

/// Reads the cursor's column or row. A position outside of the preview counts as unknown.
fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let place = Option::<i64>::deserialize(from)?;
    Ok(place.and_then(|place| u32::try_from(place).ok()))
}

impl From<Preview> for Screen {
    fn from(preview: Preview) -> Self {
        let row = |row: &str| text::row(row.as_bytes());
        let rows = preview.output_preview.split('\n').map(row);
        let lines = preview.last_lines.iter().take(QUOTED_LINES);
        let lines = lines.map(|line| text::bounded(&row(line), QUOTED_CHARS));
        let cursor = preview.cursor_x.zip(preview.cursor_y);
        Self {
            rows: rows
                .filter(|_| !preview.output_preview.is_empty())
                .collect(),
            cursor: cursor.map(|(x, y)| CursorPosition { x, y }),
            alternate: preview.alternate_on,
            last_lines: (!preview.last_lines.is_empty()).then(|| lines.collect()),
            ..Self::default()
        }
    }
}

/// A position on a [`Screen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorPosition {
    /// Column, from 0.
    pub x: u32,
    /// Row within [`Screen::rows`], from 0.
    pub y: u32,
}

impl PartialEq for Screen {
    fn eq(&self, other: &Self) -> bool {
        self.signs() == other.signs() && self.has_rows_of(other)
    }
}

impl Screen {
    /// Returns what is compared besides the rows.
    fn signs(&self) -> impl PartialEq + use<> {
        let Self {
            rows: _,
            cursor,
            alternate,
            top: _,
            width: _,
            last_lines: _,
            is_cursor_hidden,
            drawn_cursor,
        } = *self;
        (cursor, alternate, is_cursor_hidden, drawn_cursor)
    }

    /// Whether the rows are equal. Rows that are shared are not compared one by one.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows) || self.rows == other.rows
    }

    /// Returns the screen with this text in a row.
    pub fn with_row(&self, row: usize, text: &str) -> Self {
        let mut rows = self.rows.to_vec();
        text.clone_into(&mut rows[row]);
        Self {
            rows: rows.into(),
            ..self.clone()
        }
    }

    /// Forgets what it shows, apart from the last lines where they are not its last rows.
    pub fn forget_rows(&mut self) {
        self.rows = Arc::default();
    }

    /// Returns the index of the first row that is not history; 0 where it is not known.
    pub fn first_visible(&self) -> usize {
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        top.unwrap_or(0).min(self.rows.len())
    }

    /// Returns the screen with blank rows in place of its history.
    pub fn without_history(&self) -> Self {
        let top = self.first_visible();
        if self.rows[..top].iter().all(String::is_empty) {
            return self.clone();
        }
        let blank = std::iter::repeat_n(String::new(), top);
        Self {
            rows: blank.chain(self.rows[top..].iter().cloned()).collect(),
            ..self.clone()
        }
    }

    /// Returns the last rows that fit into a preview, with the cursor adjusted. Where the cursor is too far
    /// above the last row, the preview ends some rows below the cursor's, or with it.
    pub(super) fn preview(&self) -> Self {
        let most = if self.alternate == Some(true) {
            ALTERNATE_ROWS
        } else {
            PREVIEW_ROWS
        };
        let rows = &self.rows[..];
        let fitting = |end: usize| {
            let mut bytes = 0;
            let fits = rows[..end].iter().rev().take(most).take_while(|row| {
                bytes += row.len() + 1;
                bytes <= PREVIEW_BYTES + 1
            });
            end - fits.count()..end
        };
        let with_cursor = self.cursor.and_then(|cursor| {
            let row = usize::try_from(cursor.y).ok()?;
            let below = rows.get(row + 1..)?;
            let ends = [below.len(), most / 2, 0].map(|n| {
                let below = &below[..n.min(below.len())];
                let is_text = |row: &String| !row.trim().is_empty();
                row + 1 + below.iter().rposition(is_text).map_or(0, |last| last + 1)
            });
            let mut windows = ends.into_iter().map(fitting);
            windows.find(|window| window.contains(&row))
        });
        let window = with_cursor.unwrap_or_else(|| fitting(rows.len()));
        let of_rows = |rows: &[String], cursor| Self {
            rows: rows.into(),
            cursor,
            last_lines: None,
            ..self.clone()
        };
        if let (true, Some(last)) = (window.is_empty(), rows.last()) {
            // One row that is longer than a whole preview: its end was written last.
            let start = last.ceil_char_boundary(last.len().saturating_sub(PREVIEW_BYTES));
            return of_rows(&[last[start..].to_owned()], None);
        }
        let cursor = self.cursor.and_then(|cursor| {
            let y = cursor.y.checked_sub(u32::try_from(window.start).ok()?)?;
            Some(CursorPosition { x: cursor.x, y })
        });
        of_rows(&rows[window], cursor)
    }

    /// Returns the last lines that have text, as they are quoted: at most [`QUOTED_LINES`], with wrapped
    /// rows joined.
    pub fn last_lines(&self) -> Vec<String> {
        if let Some(lines) = &self.last_lines {
            return lines.to_vec();
        }
        let rows = self.rows.iter().rev().map(|row| row.trim_end());
        let rows = rows.filter(|row| !row.is_empty()).take(QUOTED_LINES);
        let mut lines: Vec<String> = rows.map(|row| text::bounded(row, QUOTED_CHARS)).collect();
        lines.reverse();
        lines
    }
}

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
    let (old, new) = (letters(before), letters(after));
    if old.is_empty() {
        before == after
    } else {
        new.starts_with(&old) || new.ends_with(&old)
    }
}

/// Returns the letters of a text alone.
pub fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphabetic()).collect()
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

// Text without what programs redraw all the time: turning signs, growing dots, and times. A prompt with
// such a part is one prompt, however often it is drawn.

/// A time that is shown, and not asked about: it is the first of its row, in brackets, or behind a word such
/// as `in`. `0:09`, `12:00:03`, `9s`, `1.5 s`, `10 seconds`, `1m 5s`.
static SHOWN_TIME: LazyLock<Regex> = LazyLock::new(|| {
    let unit = "(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)";
    let time =
        format!(r"(?:[0-9]+(?::[0-9]{{2}})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)? ?{unit})(?-u:\b)");
    let before = r"^(?:[^\pL\pN]*[^\pL\pN.])?|[(\[{<]\s*|(?:^|\s)(?:in|after|within)\s+";
    Regex::new(&format!(r"({before}){time}(?:\s*{time})*")).expect("a constant pattern compiles")
});

/// Returns the text without what a program may animate in it, a zero in place of a time that it shows, and
/// without white space, which moves when that changes its width.
pub fn without_animation(text: &str) -> String {
    without_signs(&SHOWN_TIME.replace_all(text, "${1}0"))
}

/// Whether two texts are the same, apart from what is animated in them.
pub fn is_same_but_animated(text: &str, other: &str) -> bool {
    text == other || without_animation(text) == without_animation(other)
}

fn without_signs(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let is_kept = |at: &usize| {
        !chars[*at].is_whitespace() && !is_sign_at(&chars, *at) && !is_dot_at(&chars, *at)
    };
    (0..chars.len())
        .filter(is_kept)
        .map(|at| chars[at])
        .collect()
}

/// Whether two texts differ at most in turning signs, growing dots and white space. A time may be what
/// is asked about.
pub fn is_same_except_signs(text: &str, other: &str) -> bool {
    let rest = without_signs(text);
    !rest.is_empty() && rest == without_signs(other)
}

/// Returns the text without a turning sign at its end, behind white space; `None` where there is
/// none.
pub fn without_last_sign(text: &str) -> Option<&str> {
    let (before, sign) = text.trim_end().rsplit_once(char::is_whitespace)?;
    let mut chars = sign.chars();
    let is_sign = |c| is_sign(c) || is_bar(c);
    let is_one = chars.next().is_some_and(is_sign) && chars.next().is_none();
    is_one.then(|| before.trim_end())
}

impl Screen {
    /// Whether the rows differ at most in what programs animate, and in white space. Rows that are
    /// shared are not compared one by one.
    pub fn is_same_but_animated(&self, other: &Self) -> bool {
        self.has_rows_of(other) || are_same_rows(&self.rows, &other.rows, is_same_but_animated)
    }

    /// Returns the screen without what programs animate.
    pub fn without_animation(&self) -> Self {
        Self {
            rows: self.rows.iter().map(|row| without_animation(row)).collect(),
            ..self.clone()
        }
    }
}

/// Whether the character is used for nothing but to show that a program is at work. Marks of choices
/// in a list, such as `●` or `▶`, are not included.
fn is_sign(c: char) -> bool {
    matches!(
        c,
        // Braille patterns, parts of frames and of blocks.
        '\u{2800}'..='\u{28ff}' | '\u{2500}'..='\u{259f}'
        // Quarters and halves of circles and squares, triangles.
        | '◐'..='◓' | '◜'..='◥' | '◰'..='◷'
        // Stars.
        | '✠'..='❉'
        // Trigrams, hourglasses, clocks, globes and moons.
        | '☰'..='☷' | '⌛' | '⏳' | '🕐'..='🕧' | '🌍'..='🌏' | '🌑'..='🌘'
        | '…' | '⋯' | '·' | '∙'
    )
}

/// Whether the character is a position of a bar that turns.
fn is_bar(c: char) -> bool {
    matches!(c, '|' | '/' | '-' | '\\')
}

fn is_sign_at(chars: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| chars[before]);
    let is_edge = |c: Option<char>, bracket: &[char]| {
        c.is_none_or(|c| c.is_whitespace() || bracket.contains(&c))
    };
    is_sign(chars[at])
        || is_bar(chars[at])
            && is_edge(before, &['[', '(', '{', '<'])
            && is_edge(chars.get(at + 1).copied(), &[']', ')', '}', '>'])
}

/// Whether there is a dot behind a word, perhaps with others, and nothing of a path or of a number.
fn is_dot_at(chars: &[char], at: usize) -> bool {
    let is_dot = |c: &&char| **c == '.';
    let mut before = chars[..at].iter().rev().skip_while(is_dot);
    let mut behind = chars[at..].iter().skip_while(is_dot);
    let ends_word = |c: &char| c.is_whitespace() || matches!(c, ')' | ']' | '}' | '>');
    chars[at] == '.'
        && before.next().is_some_and(|c| c.is_alphanumeric())
        && behind.next().is_none_or(ends_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::screen_of as screen;

    #[test]
    fn the_last_lines_are_whole_or_the_last_rows_that_have_text() {
        assert_eq!(screen("a||b|  |c  |d|").last_lines(), ["b", "c", "d"]);
        let wrapped = Screen {
            last_lines: Some(["b", "cd"].map(String::from).into()),
            ..screen("a||b|  |c  |d|")
        };
        assert_eq!(wrapped.last_lines(), ["b", "cd"]);
        let long = screen(&"x".repeat(501));
        assert_eq!(long.last_lines(), ["x".repeat(499) + "…"]);
    }

    #[test]
    fn a_question_is_found_wherever_it_was_moved() {
        for (rows, shown, expected) in [
            ("Go? [y/n]", "Go? [y/n]", true),
            ("Go? [y/n]", "GET /0|GET /1|Go? [y/n]", true),
            ("Go? [y/n]", "Go? [y/n] GET /0|", true),
            ("Go? [y/n]  1%", "x|Go? [y/n]  99%", true),
            ("Which?|❯ a|  b", "ok|Which?|❯ a|  b||12 tokens", true),
            ("Which?|❯ a|  b", "Which?|  a|❯ b", true),
            ("Which?|❯ a|  b", "Which?|❯ c|  b", false),
            ("Which?|❯ a|  b", "Which?|❯ a", false),
            ("Go?", "Stop?", false),
        ] {
            let question = OpenQuestion {
                is_reported: true,
                rows: screen(rows).rows,
            };
            let found = question.is_on(&screen(shown));
            assert_eq!(found, expected, "{rows} on {shown}");
        }
    }

    #[test]
    fn figures_are_no_words() {
        for (before, after, expected) in [
            ("Go? [y/N]", "Go? [y/N]", true),
            ("Go? [y/N] 1%", "Go? [y/N] 2%", true),
            ("Go? (1.2k tokens)", "Go? (13.9k tokens)", true),
            ("Go? [##  ]", "Go? [### ]", true),
            ("Go?", "Go? yes", true),
            ("Go? [y/N]", "Go Go? [y/N]", true),
            ("Go?", "Stop?", false),
            ("Delete a? [y/N]", "Delete b? [y/N]", false),
            (">", ">", true),
            (">", "Go?", false),
        ] {
            assert_eq!(has_same_words(before, after), expected, "{before} {after}");
        }
    }

    #[test]
    fn what_turns_grows_or_counts_time_is_left_out() {
        for texts in [
            &["| Go?", "/ Go?", "- Go?", "\\ Go?", "  Go?"][..],
            &["[|] Go? [y/N]", "[\\] Go? [y/N]"],
            &["Go? [y/N] |", "Go? [y/N] -", "Go? [y/N] ⠙"],
            &["[⠋] Go?", "[⠙] Go?", "[⣾] Go?"],
            &["◐ Go?", "🌒 Go?", "🕐 Go?", "✶ Go?", "▁▂ Go?"],
            &["Go.", "Go..", "Go...", "Go   "],
            &["Go (9s)", "Go (10s)", "Go (1 s)", "Go (0:59)", "Go (1.5s)"],
            &["12:00:59 Go?", "12:01:00 Go?"],
            &["Go in 1 second?", "Go in 10 seconds?"],
        ] {
            let first = without_animation(texts[0]);
            assert!(first.contains("Go"), "{first}");
            for text in texts {
                assert_eq!(without_animation(text), first, "{text}");
            }
        }
    }

    #[test]
    fn what_is_asked_is_not_left_out() {
        for (text, expected) in [
            ("Go? [y/N]", "Go?[y/N]"),
            ("Use src/a-b.rs?", "Usesrc/a-b.rs?"),
            ("Player 2?", "Player2?"),
            ("Use v1.2 of s3?", "Usev1.2ofs3?"),
            ("Remove 3 seeds?", "Remove3seeds?"),
            ("Port 80:8080?", "Port80:8080?"),
            ("● Yes ○ No", "●Yes○No"),
            ("> Yes   No", ">YesNo"),
            ("Copy 45%?", "Copy45%?"),
            ("Read .env?", "Read.env?"),
            ("Delete ../build?", "Delete../build?"),
            ("Delete ./build?", "Delete./build?"),
            ("Delete .. ?", "Delete..?"),
            ("Delete the snapshot of 10:30?", "Deletethesnapshotof10:30?"),
            ("Keep 5 minutes?", "Keep5minutes?"),
        ] {
            assert_eq!(without_animation(text), expected, "{text}");
        }
    }

    #[test]
    fn an_answer_is_for_the_question_that_it_names() {
        for (text, other, expected) in [
            ("/ Go? [y/N]", "- Go? [y/N]", true),
            ("Go...", "Go.", true),
            ("Go (9s)", "Go (8s)", false),
            ("Delete ./build? [y/N]", "Delete /build? [y/N]", false),
            ("Keep 5 minutes?", "Keep 500 minutes?", false),
            ("Restore 10:30? [y/N]", "Restore 11:30? [y/N]", false),
            ("|", "/", false),
        ] {
            assert_eq!(is_same_except_signs(text, other), expected, "{text}");
        }
    }

    #[test]
    fn a_sign_at_the_end_is_one_character() {
        assert_eq!(without_last_sign("Go? [y/N] | "), Some("Go? [y/N]"));
        assert_eq!(without_last_sign("Go?  ⠙"), Some("Go?"));
        for text in ["Go?|", "Go?", "Go? --", "Go? >", "|"] {
            assert_eq!(without_last_sign(text), None, "{text}");
        }
    }
}
