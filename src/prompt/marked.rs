//! Questions that prompt libraries mark: `? Which framework?`, with the choices below.
//!
//! Rows below such a row belong to it if the cursor is within them: programs that print leave the
//! cursor behind what they have printed, not inside it.

use super::choices;
use super::cursor_context::{CursorContext, is_blank, question, unframed};
use super::drawn::{DrawnPrompt, is_hint, is_marked, legend_marks, text_rows};
use super::line;
use super::list;
use super::secret;
use crate::model::{PromptKind, Screen};

/// The maximum number of rows of a question and its choices.
const ROWS: usize = 24;

/// A row at least this long may continue in the next one.
const WRAPS_FROM: usize = 40;

/// Returns what is asked by the marked question that the cursor is in, or behind the end of.
pub(super) fn drawn(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    let (end, _) = text_rows(screen).next()?;
    let at = match context {
        CursorContext::Behind(row) | CursorContext::On(row) => row,
        CursorContext::Unknown(Some(row)) => row,
        // A blank row of a list that is still drawn: within it, or in a row that was started.
        CursorContext::Below(near) => {
            let cursor = screen.cursor?;
            let y = usize::try_from(cursor.y).ok()?;
            near.filter(|near| y < end || (*near == end && cursor.x > 0))?
        }
        CursorContext::Unknown(None) => return None,
    };
    let row = (at.saturating_sub(ROWS)..=at)
        .rev()
        .find(|row| screen.rows.get(*row).is_some_and(|row| is_marked(row)))?;
    let body: Vec<&str> = screen.rows[row + 1..=end.max(row)]
        .iter()
        .map(String::as_str)
        .filter(|row| !is_blank(row))
        .collect();
    let asked = question(&screen.rows[row]);
    if !asked.chars().any(char::is_alphanumeric) {
        return None;
    }
    let choices = body.iter().filter(|row| !is_help(row)).count();
    // A program drew the rows below the cursor and went back to the question.
    let is_above = at == row;
    if choices > 0 && !is_above && !are_choices(&screen.rows[row], &body) {
        return None;
    }
    let kind = if choices > 0 {
        PromptKind::Menu
    } else {
        kind_of_field(&screen.rows[row], asked, &body)
    };
    Some(DrawnPrompt::new(
        kind,
        row,
        row..if choices > 0 { end } else { at }.max(row) + 1,
        if choices > 0 {
            "choices below a marked question"
        } else {
            "marked as a question"
        },
    ))
}

/// Whether these rows are the rest of a question too long for its row, then choices, at least one
/// with a mark or a number, and hints.
fn are_choices(first: &str, body: &[&str]) -> bool {
    let mut above = first;
    let mut rows = body
        .iter()
        .skip_while(|row| {
            let goes_on = above.chars().count() >= WRAPS_FROM && !list::is_choice(row);
            above = row;
            goes_on
        })
        .peekable();
    let is_choice = |row: &str| list::is_choice(row) || list::is_pointed(row);
    let is_part = |row: &&&str| is_choice(row) || is_help(row) || is_indented(row);
    rows.peek().is_some() && body.iter().any(|row| is_choice(row)) && rows.all(|row| is_part(&row))
}

fn is_indented(row: &str) -> bool {
    row.starts_with(char::is_whitespace) || row.starts_with(['┌', '└', '╭', '╰', '│'])
}

/// Whether a row explains how to answer.
fn is_help(row: &str) -> bool {
    let text = row.trim_end();
    legend_marks(row) > 0
        || is_hint(row)
        || text.ends_with("nstructions:")
        || text.ends_with("Answer:")
        || text.to_lowercase().contains("filter")
}

/// Returns the kind of answer to type behind the question.
fn kind_of_field(row: &str, asked: &str, below: &[&str]) -> PromptKind {
    let text = unframed(row);
    let typed = text.rsplit(['›', '»', '‣', '…']).next().unwrap_or_default();
    let is_masked = secret::unmasked(text).is_some() || secret::is_masked(typed.trim());
    // The library offers to show what was typed.
    let can_show = below
        .iter()
        .any(|row| row.contains("toggle") && row.contains("visib"));
    if is_masked || can_show || secret::is_question(asked) {
        return PromptKind::Password;
    }
    if let Some(ask) = line::asks(asked).filter(|ask| ask.kind != PromptKind::Text) {
        return ask.kind;
    }
    if let Some((one, other)) = typed.trim().split_once(" / ")
        && choices::is_yes_and_no(one, other)
    {
        return PromptKind::Confirm;
    }
    glued_letters(asked).unwrap_or_else(|| line::kind_of_question(asked))
}

/// The letters that may be typed, in brackets: `Conflict in a.txt (yaxH)`.
fn glued_letters(asked: &str) -> Option<PromptKind> {
    // The letter that Enter would select may follow them.
    let bare = asked.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let letters = if asked.len() - bare.len() <= 1 {
        bare.trim_end()
    } else {
        asked
    };
    let inside = letters.strip_suffix(')')?.rsplit_once('(')?.1;
    let letters = inside.to_lowercase();
    let is_each_once = letters
        .char_indices()
        .all(|(at, c)| c.is_ascii_alphabetic() && !letters[..at].contains(c));
    // In all such lists the last letter shows help.
    ((2..=12).contains(&letters.len()) && is_each_once && letters.ends_with('h'))
        .then_some(PromptKind::Menu)
}
