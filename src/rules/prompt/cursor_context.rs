//! Where on a screen an answer would be typed, and which text is before it.

use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::secret;
use super::words::{is_mark, plain, plain_pattern};
use crate::model::{PromptKind, Screen};

/// A program leaves at most this many cells between its question and the answer.
const GAP: usize = 3;

/// How many blank rows may lie between a question and the cursor below it.
const BELOW: usize = 2;

/// The cursor position in relation to text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CursorContext {
    /// Right behind the text of this row.
    Behind(usize),
    /// On or before text of this row, or far behind it.
    On(usize),
    /// On a blank row; the nearest text above it, when it is near.
    Below(Option<usize>),
    /// The position is not known; the last row with text.
    Unknown(Option<usize>),
}

impl CursorContext {
    /// Returns the cursor's context on this screen.
    pub(super) fn of(screen: &Screen) -> Self {
        let last = screen.rows.iter().rposition(|row| !is_blank(row));
        let Some(cursor) = screen.cursor else {
            return Self::Unknown(last);
        };
        let (Ok(y), Ok(x)) = (usize::try_from(cursor.y), usize::try_from(cursor.x)) else {
            return Self::Unknown(last);
        };
        match screen.rows.get(y) {
            Some(row) if !is_blank(row) => {
                let (least, most) = widths(row.trim_end());
                if (least..=most + GAP).contains(&x) {
                    Self::Behind(y)
                } else {
                    Self::On(y)
                }
            }
            Some(_) | None => {
                let near = text_above(screen, y.min(screen.rows.len()));
                Self::Below(near.filter(|row| row + BELOW >= y))
            }
        }
    }

    /// Returns the row of the text next to which an answer would be typed.
    pub(super) fn row(self) -> Option<usize> {
        match self {
            Self::Behind(row) | Self::On(row) => Some(row),
            Self::Below(row) | Self::Unknown(row) => row,
        }
    }
}

/// Returns how many cells a text may have at least and at most. Whether a vowel sign or another
/// mark has a cell of its own depends on the terminal and its version, and so does whether emoji
/// that are joined are one.
pub(super) fn widths(text: &str) -> (usize, usize) {
    let whole = text.width();
    if text.is_ascii() {
        return (whole, whole);
    }
    let cells = |c: char| c.width().unwrap_or(0);
    let each: usize = text.chars().map(|c| cells(c).max(is_mark(c).into())).sum();
    let unmarked: usize = text.chars().filter(|c| !is_mark(*c)).map(cells).sum();
    (whole.min(unmarked), whole.max(each))
}

pub(super) fn is_blank(row: &str) -> bool {
    row.trim().is_empty()
}

/// Characters at the left and right edges of frames.
const FRAME: &[char] = &['│', '┃', '║', '╎', '┆', '▌', '▐', '|'];

/// What is between a question and a frame beside it.
const BESIDE: &str = "        ";

/// Marks before a question that are not part of it.
const MARKS: &[char] = &[
    '?', '◆', '◇', '△', '▲', '⚠', '❓', '●', '•', '»', '›', '❯', '✻', '✶', '▸', '▶',
];

/// The corners at the start of a frame's upper edge, and the characters of the edge.
const CORNERS: &[char] = &['┌', '╭', '┏', '╔'];
const EDGE: &[char] = &['┌', '╭', '┏', '╔', '─', '━', '═', '┐', '╮', '┓', '╗', ' '];

/// Whether frames, rules and scroll bars are drawn with this character.
pub(super) fn is_line_or_block(c: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&c)
}

/// Whether the row is the lower edge of a frame.
pub(super) fn is_lower_edge(row: &str) -> bool {
    let row = row.trim();
    row.starts_with(['└', '╰', '┗', '╚']) && row.ends_with(['┘', '╯', '┛', '╝'])
}

/// Returns the row without the frame around it; for an upper edge, its title.
pub(super) fn unframed(row: &str) -> &str {
    if row.trim_start().starts_with(CORNERS) && row.trim_end().ends_with(EDGE) {
        return row.trim().trim_matches(EDGE);
    }
    row.trim_start_matches(|c: char| c.is_whitespace() || FRAME.contains(&c))
        .trim_end_matches(|c: char| c.is_whitespace() || FRAME.contains(&c))
}

/// Whether there is more in the row than a frame and signs.
pub(super) fn has_words(row: &str) -> bool {
    unframed(row).chars().any(char::is_alphanumeric)
}

/// Whether the row has a frame on its left.
pub(super) fn is_framed(row: &str) -> bool {
    row.trim_start().starts_with(FRAME)
}

/// Whether the row has a frame on both sides.
pub(super) fn is_boxed(row: &str) -> bool {
    let row = row.trim();
    let sides: &[char] = &['│', '┃', '║', '|', 'x'];
    row.starts_with(sides) && row.ends_with(sides) && row.chars().count() > 2
}

/// Whether the text in brackets names keys to use.
fn is_about_keys(inside: &str) -> bool {
    let inside = inside.to_lowercase();
    ["arrow", "<space>", "<enter>", "shortcuts", "to toggle"]
        .iter()
        .any(|word| inside.contains(word))
}

/// Returns what a row asks, without frames, marks, and hints on how to answer.
pub(super) fn question(row: &str) -> &str {
    let text = unframed(row);
    let text = match text.rsplit_once(BESIDE) {
        Some((text, beside)) if beside.trim().chars().all(is_line_or_block) => text.trim_end(),
        Some(_) | None => text,
    };
    let unmarked = text
        .strip_prefix("[?]")
        .or_else(|| text.strip_prefix(MARKS))
        .filter(|rest| rest.starts_with(char::is_whitespace));
    let unmarked = unmarked.or_else(|| {
        // A pictogram before the question.
        let (mark, rest) = text.split_once(' ')?;
        let is_picture = mark.chars().all(|c| !c.is_ascii() && !c.is_alphanumeric());
        (is_picture && mark.chars().next().is_some_and(|c| c >= '\u{2600}')).then_some(rest)
    });
    let mut text = unmarked.unwrap_or(text).trim();
    for (open, close) in [('(', ')'), ('[', ']')] {
        // A hint that continues in the next row is not closed.
        let hint = text.rfind(open).filter(|at| {
            let inside = &text[at + open.len_utf8()..];
            let is_last = inside.ends_with(close) || !inside.contains(close);
            *at > 0 && is_last && is_about_keys(inside)
        });
        if let Some(at) = hint {
            text = text[..at].trim_end();
        }
    }
    // The default answer, or what has been typed, is behind such a mark.
    for mark in [" › ", " » ", " … ", " ‣ "] {
        if let Some((before, _)) = text.rsplit_once(mark)
            && before.chars().count() >= 4
        {
            text = before.trim_end();
        }
    }
    let text = text.trim_end_matches([' ', '›', '»', '‣']);
    let text = secret::unmasked(text).unwrap_or(text);
    // Libraries put a colon behind any text.
    let bare = text.strip_suffix(':').filter(|text| text.ends_with('?'));
    let text = bare.unwrap_or(text);
    // Such a mark alone asks for input; three dots behind a word continue it.
    text.strip_suffix(" …").map_or(text, str::trim_end)
}

// What the rules for drawn programs share.

/// How many of the last rows with text may contain a list or a dialog.
pub(super) const ROWS: usize = 24;

/// How long a screen must be unchanged while one of several threads is blocked reading a line, or a
/// program checks for keys, unless the cursor is behind a question: it may print a log, and servers
/// often do so every second.
pub(super) const LOG_STILL: Duration = Duration::from_millis(1500);

/// What a full-screen program waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DrawnPrompt {
    pub(super) kind: PromptKind,
    /// The row that asks, usually the first one of these.
    pub(super) row: usize,
    /// The rows of what asks, see [`super::PromptMatch::rows`].
    pub(super) rows: Range<usize>,
    pub(super) secret: bool,
    pub(super) rule: &'static str,
    /// What is asked, where its row has more than that.
    pub(super) asked: Option<String>,
    /// See [`super::PromptMatch::still_for`].
    pub(super) still_for: Duration,
}

impl DrawnPrompt {
    pub(super) fn new(kind: PromptKind, rows: Range<usize>, rule: &'static str) -> Self {
        Self {
            kind,
            row: rows.start,
            rows,
            secret: kind == PromptKind::Password,
            rule,
            asked: None,
            still_for: Duration::ZERO,
        }
    }
}

/// Returns the rows with text and their numbers, the last one first.
pub(super) fn text_rows(screen: &Screen) -> impl Iterator<Item = (usize, &str)> {
    let rows = screen.rows.iter().map(String::as_str).enumerate();
    rows.rev().filter(|(_, row)| !is_blank(row))
}

/// Returns the nearest row with text above this one.
pub(super) fn text_above(screen: &Screen, row: usize) -> Option<usize> {
    screen.rows[..row].iter().rposition(|row| !is_blank(row))
}

/// Counts the keys that a row explains, as in `enter to confirm, esc to cancel`.
pub(super) fn legend_marks(row: &str) -> usize {
    static LEGEND: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"(?:\b(?:enter|return|esc|escape|space|tab|arrows?|arrow[ -]keys?|up/down|ctrl[-+][[:word:]])\b|[↑↓←→⏎↵⇆␣⇥])[\])>}]?(?:/[↑↓←→[:word:]]+)*[\s:=-]{0,3}(?:keys?\s+)?(?:to\s+)?(?:[[:word:]]+\s+)?",
            r"(?:confirm|select|submit|cancel|navigate|toggle|choose|accept|reject|approve|reveal|proceed|pick|filter|go back|tick|mark|check|highlight|complete|take|move)",
        ))
    });
    LEGEND.find_iter(&plain(row)).count()
}

/// Whether a row names keys to use, in brackets or behind a dash.
pub(super) fn is_hint(row: &str) -> bool {
    static KEYS: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(
            r"[\[(][^\[\]()]*(?:\b(?:enter|return|space|tab|arrows?|arrow[ -]keys|up and down|up/down)\b|<(?:space|enter|tab|return)>|[↑↓])|- (?:use|space|return|enter)\b.*\barrow|- (?:space|return|enter|arrows?) to\b",
        )
    });
    let lower = row.to_lowercase();
    KEYS.is_match(&plain(row)) || (lower.contains("arrow") && lower.contains(['(', '[', '-']))
}

/// Returns the nearest row above that ends with a question mark, else the first row of its block.
pub(super) fn asking_above(screen: &Screen, below: usize) -> Option<usize> {
    let near = (below.saturating_sub(12)..below).rev();
    near.clone()
        .find(|row| question(&screen.rows[*row]).ends_with(['?', '？']))
        .or_else(|| {
            near.skip_while(|row| is_blank(&screen.rows[*row]))
                .take_while(|row| !is_blank(&screen.rows[*row]))
                .filter(|row| has_words(&screen.rows[*row]))
                .last()
        })
}

/// Whether this says what the key before it does: `? for shortcuts`, `? help`.
fn is_key_help(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    matches!(first, "for" | "to" | "help" | "more") || text.starts_with("toggle help")
}

/// Whether a row is marked as a question.
pub(super) fn is_marked(row: &str) -> bool {
    let text = unframed(row);
    ["? ", "[?] "].iter().any(|mark| {
        text.strip_prefix(mark).is_some_and(|rest| {
            rest.starts_with(|c: char| !c.is_whitespace()) && !is_key_help(rest)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CursorPosition;
    use crate::model::test_notation::screen;

    #[track_caller]
    fn check(text: &str, cursor: Option<(u32, u32)>, expected: CursorContext) {
        let screen = Screen {
            cursor: cursor.map(|(x, y)| CursorPosition { x, y }),
            ..screen(text)
        };
        assert_eq!(CursorContext::of(&screen), expected, "{screen:?}");
    }

    #[test]
    fn the_cursor_is_behind_on_or_below_text() {
        check("Go?", Some((4, 0)), CursorContext::Behind(0));
        check("Go?", Some((3, 0)), CursorContext::Behind(0));
        check("Go?", Some((2, 0)), CursorContext::On(0));
        check("Go?", Some((30, 0)), CursorContext::On(0));
        check("続行？", Some((6, 0)), CursorContext::Behind(0));
        check("பெயர்:", Some((6, 0)), CursorContext::Behind(0));
        check("Go?\n", Some((0, 1)), CursorContext::Below(Some(0)));
        check("Go?\n\n", Some((0, 2)), CursorContext::Below(Some(0)));
        check("Go?\n\n\n", Some((0, 3)), CursorContext::Below(None));
        check("", Some((0, 0)), CursorContext::Below(None));
        check("Go?\n", Some((0, 9)), CursorContext::Below(None));
        check("Go?\n", None, CursorContext::Unknown(Some(0)));
        check("", None, CursorContext::Unknown(None));
    }

    #[test]
    fn a_question_is_reported_without_decoration() {
        for (row, expected) in [
            ("? Use ESLint? › No / Yes", "Use ESLint?"),
            ("? Deploy? (Y/n)", "Deploy? (Y/n)"),
            ("? What now? (Use arrow keys)", "What now?"),
            ("Do it?  [Use arrows to move, type to filter]", "Do it?"),
            ("│ Allow rm?      │", "Allow rm?"),
            ("┌ Which kit? ────┐", "Which kit?"),
            (
                "? Pick parts (Press <space> to select, <a> to toggle all, <i> to",
                "Pick parts",
            ),
            ("? Pick one (Use shortcuts)", "Pick one"),
            ("🎤 What is it?", "What is it?"),
            ("（是/否）", "（是/否）"),
            ("? Pick › ", "Pick"),
            ("? Password ****", "Password"),
            ("┃  △ Permission required", "Permission required"),
            ("  Enter a value:", "Enter a value:"),
            ("? (Y)es / (N)o?", "(Y)es / (N)o?"),
            (">", ">"),
            ("> a b          ╰─────╯", "> a b"),
            ("#?", "#?"),
        ] {
            assert_eq!(question(row), expected, "{row}");
        }
    }
}
