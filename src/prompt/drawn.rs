//! What the rules for drawn programs share: their result, and how they read rows.

use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;

use super::cursor_context::{is_blank, question, unframed};
use super::pattern::{plain, plain_pattern};
use crate::model::{PromptKind, Screen};

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
    /// The row that asks.
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
    pub(super) fn new(
        kind: PromptKind,
        row: usize,
        rows: Range<usize>,
        rule: &'static str,
    ) -> Self {
        Self {
            kind,
            row,
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
    screen
        .rows
        .iter()
        .map(String::as_str)
        .enumerate()
        .rev()
        .filter(|(_, row)| !is_blank(row))
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
    let says = |row: &usize| {
        unframed(&screen.rows[*row])
            .chars()
            .any(char::is_alphanumeric)
    };
    near.clone()
        .find(|row| question(&screen.rows[*row]).ends_with(['?', '？']))
        .or_else(|| {
            near.skip_while(|row| is_blank(&screen.rows[*row]))
                .take_while(|row| !is_blank(&screen.rows[*row]))
                .filter(says)
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
