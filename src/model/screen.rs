//! What a pane shows, and how much of it is told.

use std::sync::Arc;

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
        let Self {
            rows: _,
            cursor,
            alternate,
            top: _,
            width: _,
            last_lines: _,
            is_cursor_hidden,
            drawn_cursor,
        } = self;
        (cursor, alternate, is_cursor_hidden, drawn_cursor)
            == (
                &other.cursor,
                &other.alternate,
                &other.is_cursor_hidden,
                &other.drawn_cursor,
            )
            && self.has_rows_of(other)
    }
}

impl Screen {
    /// Whether the rows are equal. Rows that are shared are not compared one by one.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows) || self.rows == other.rows
    }

    /// Returns the screen with this text in a row.
    ///
    /// # Panics
    ///
    /// When it has no such row.
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

    #[test]
    fn the_last_lines_are_whole_or_the_last_rows_that_have_text() {
        let screen = Screen {
            rows: ["a", "", "b", "  ", "c  ", "d", ""]
                .map(String::from)
                .into(),
            ..Screen::default()
        };
        assert_eq!(screen.last_lines(), ["b", "c", "d"]);
        let wrapped = Screen {
            last_lines: Some(["b", "cd"].map(String::from).into()),
            ..screen
        };
        assert_eq!(wrapped.last_lines(), ["b", "cd"]);
        let long = Screen {
            rows: ["x".repeat(501)].into(),
            ..Screen::default()
        };
        assert_eq!(long.last_lines(), ["x".repeat(499) + "…"]);
    }
}

#[cfg(test)]
mod open_question_tests {
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
