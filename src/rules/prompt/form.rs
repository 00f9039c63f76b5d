//! Dialogs and forms that are drawn anywhere on a screen of their own, beside other text: buttons below
//! what they answer, and a box below a question or a label.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::cursor_context::*;
use super::line::{self, Ask};
use super::words::pattern;
use super::{addressed, secret};
use crate::model::{CursorPosition, PromptKind, Screen};

/// Returns the dialog or form on the alternate screen. Unless the cursor is hidden, it must end the
/// screen: otherwise it may be a part of a text.
pub(super) fn drawn(screen: &Screen) -> Option<DrawnPrompt> {
    screen.alternate.filter(|is_alternate| *is_alternate)?;
    let wide = |c: char| std::iter::repeat_n('\0', c.width().unwrap_or(1).saturating_sub(1));
    let cells = |row: &str| {
        row.chars()
            .flat_map(|c| std::iter::once(c).chain(wide(c)))
            .collect()
    };
    let cells: Vec<Vec<char>> = screen.rows.iter().map(|row| cells(row)).collect();
    let drawing = Drawing {
        pieces: (0..)
            .zip(&cells)
            .map(|(row, cells)| pieces(row, cells))
            .collect(),
        cells,
        is_cursor_hidden: screen.is_cursor_hidden,
    };
    let rows = 0..screen.rows.len();
    let dialog = rows.clone().rev().find_map(|row| drawing.dialog(row));
    dialog.or_else(|| { rows }.find_map(|row| drawing.box_below(row)))
}

struct Piece {
    row: usize,
    columns: Range<usize>,
    text: String,
}

fn pieces(row: usize, cells: &[char]) -> Vec<Piece> {
    let is_blank = |x: usize| cells.get(x).is_none_or(|c| *c == ' ' || is_edge(*c));
    let is_gap = |x: usize| {
        let is_wide = || is_blank(x + 1) || x.checked_sub(1).is_none_or(is_blank);
        is_edge(cells[x]) || is_blank(x) && is_wide()
    };
    let columns: Vec<usize> = (0..cells.len()).collect();
    let parts = columns.chunk_by(|one, other| is_gap(*one) == is_gap(*other));
    let parts = parts.map(|part| part[0]..part[0] + part.len());
    let pieces = parts
        .filter(|part| !is_gap(part.start))
        .map(|columns| Piece {
            row,
            text: cells[columns.clone()]
                .iter()
                .filter(|c| **c != '\0')
                .collect(),
            columns,
        });
    pieces.collect()
}

/// The characters of each row by column, and its pieces of text.
struct Drawing {
    cells: Vec<Vec<char>>,
    pieces: Vec<Vec<Piece>>,
    is_cursor_hidden: bool,
}

impl Drawing {
    fn at(&self, row: usize, column: usize) -> char {
        let row = self.cells.get(row);
        row.and_then(|row| row.get(column)).copied().unwrap_or(' ')
    }

    /// Whether all of these cells are of an edge.
    fn is_edged(&self, row: usize, mut columns: Range<usize>) -> bool {
        columns.all(|x| is_line_or_block(self.at(row, x)))
    }

    /// Whether this is a button: in brackets, or in the middle between two edges.
    fn is_button(&self, piece: &Piece) -> bool {
        let mut beside = self.pieces[piece.row].iter();
        let behind = beside.find(|other| other.columns.start >= piece.columns.end);
        let is_end = |text: &str| text.ends_with(['>', ']', ')']);
        let is_closed = is_end(&piece.text)
            || behind.is_some_and(|end| end.text.len() == 1 && is_end(&end.text));
        let inside = piece
            .text
            .strip_prefix(['<', '[', '('])
            .filter(|_| is_closed);
        let label = inside.map(|text| text.trim_end_matches(['>', ']', ')']).trim());
        if label.is_some_and(|label| label.len() > 1 && is_label(label)) {
            return true;
        }
        let Some(above) = piece.row.checked_sub(1) else {
            return false;
        };
        let is_above = |x: &usize| self.is_edged(above, *x..x + 1);
        let start = (0..=piece.columns.start).rev().take_while(is_above).last();
        let end = (piece.columns.start..).take_while(is_above).last();
        let (Some(start), Some(end)) = (start, end) else {
            return false;
        };
        let beside = self.pieces[piece.row].iter();
        let beside = beside.filter(|piece| (start..=end).contains(&piece.columns.start));
        let beside: Vec<&Piece> = beside.collect();
        let before = beside
            .first()
            .map_or(0, |first| first.columns.start - start);
        let behind = beside
            .last()
            .map_or(0, |last| (end + 1).saturating_sub(last.columns.end));
        // A field has its text at its start.
        before.abs_diff(behind) <= 3
            && beside.iter().all(|piece| is_label(&piece.text))
            && self.is_edged(piece.row + 1, piece.columns.clone())
    }

    fn buttons(&self, row: usize) -> impl Iterator<Item = &Piece> {
        self.pieces[row]
            .iter()
            .filter(|piece| self.is_button(piece))
    }

    /// Returns the dialog whose last buttons are in this row.
    fn dialog(&self, bottom: usize) -> Option<DrawnPrompt> {
        const ABOVE: usize = 5;
        const BESIDE: usize = 12;
        let mut buttons: Vec<&Piece> = self.buttons(bottom).collect();
        let mut top = buttons.first()?.row;
        // Buttons one below the other may be in boxes.
        while let Some(button) = (top.saturating_sub(3)..top)
            .rev()
            .find_map(|row| self.buttons(row).next())
        {
            top = button.row;
            buttons.extend(self.buttons(top));
        }
        let left = buttons.iter().map(|button| button.columns.start).min()?;
        let right = buttons.iter().map(|button| button.columns.end).max()?;
        if buttons.len() < 2 || !(self.is_cursor_hidden || self.ends(bottom)) {
            return None;
        }
        // A side of the frame goes on above the buttons.
        let goes_on = |row: usize, x: usize| self.at(row, x) == self.at(bottom, x);
        let is_side = |x: &usize| is_edge(self.at(bottom, *x)) && top > 1 && goes_on(top - 2, *x);
        let right_side = (right..self.cells[bottom].len()).find(is_side);
        let sides = (0..left).rev().find(is_side).zip(right_side);
        let (from, to) = sides.unwrap_or((left.saturating_sub(BESIDE), right + BESIDE));
        let is_inside =
            |row: &usize| sides.map_or(row + ABOVE >= top, |side| goes_on(*row, side.0));
        let inside = (0..top)
            .rev()
            .take_while(is_inside)
            .flat_map(|row| &self.pieces[row]);
        let is_near = |piece: &&Piece| piece.columns.end > from && piece.columns.start < to;
        let mut texts: Vec<&Piece> = inside.filter(is_near).collect();
        if sides.is_none() {
            texts.truncate(1);
        }
        let is_asking = |piece: &&&Piece| asks(&piece.text).is_some_and(|ask| ask.is_plain);
        let decides = |button: &&Piece| {
            let label = button.text.to_lowercase();
            let label = label.trim_matches(|c: char| !c.is_alphanumeric());
            is_yes_or_no(&format!("<{label}>")) || ["ok", "cancel"].contains(&label)
        };
        // Work that can be cancelled shows how far it is.
        let may_state = sides.is_some() && !texts.iter().any(|piece| piece.text.contains('%'));
        let stating = || {
            texts
                .last()
                .filter(|_| may_state && buttons.iter().any(decides))
        };
        let asking = texts.iter().find(is_asking).or_else(stating)?;
        Some(asking.asks_with(PromptKind::Dialog, bottom, "dialog with buttons"))
    }

    /// Returns the box below the question or label in this row.
    fn box_below(&self, row: usize) -> Option<DrawnPrompt> {
        // Text that goes on is no label. A title may be above it.
        let is_blank = |row: usize| self.pieces[row].is_empty();
        let is_first = row == 0 || is_blank(row - 1) || (0..row - 1).all(is_blank);
        let mut labels = self.pieces[row].iter().filter(|_| is_first);
        labels.find_map(|label| {
            let ask = asks(&label.text)?;
            let start = label.columns.start;
            let is_edge = |row: usize| self.is_edged(row, start..start + 2);
            let is_above = |x: &usize| self.is_edged(row + 1, *x..x + 1);
            let side = (0..=start)
                .rev()
                .take_while(is_above)
                .last()
                .filter(|_| is_edge(row + 1))?;
            let goes_on = |row: &usize| self.is_edged(*row, side..side + 1);
            let inside = (row + 2..self.cells.len()).take_while(goes_on);
            let bottom = inside.clone().find(|row| is_edge(*row))?;
            let is_row = |at: &usize| *at < bottom && (!is_blank(*at) || bottom == row + 3);
            let n_rows = inside.filter(is_row).count();
            // What is searched for is no answer.
            let word = label
                .text
                .split(|c: char| !c.is_alphanumeric())
                .next()?
                .to_lowercase();
            let is_field = n_rows == 1 && !["search", "filter", "find"].contains(&&*word);
            let is_asked = self.is_cursor_hidden && (ask.is_plain || is_field);
            let kind = if n_rows == 1 {
                ask.kind
            } else {
                PromptKind::Menu
            };
            (n_rows > 0 && (is_asked || self.ends(bottom)))
                .then(|| label.asks_with(kind, bottom, "a box below a question or a label"))
        })
    }

    /// Whether no text is below this row.
    fn ends(&self, row: usize) -> bool {
        self.pieces[row + 1..].iter().all(Vec::is_empty)
    }
}

impl Piece {
    /// Returns the prompt that this text is, which ends with the row `bottom`.
    fn asks_with(&self, kind: PromptKind, bottom: usize, rule: &'static str) -> DrawnPrompt {
        DrawnPrompt {
            asked: Some(self.text.clone()),
            still_for: LOG_STILL,
            ..DrawnPrompt::new(kind, self.row..bottom + 1, rule)
        }
    }
}

/// Returns what a piece of text asks for, unless it is one of a log.
fn asks(text: &str) -> Option<Ask> {
    line::asks(text).filter(|_| !addressed::is_log(text))
}

// Dialogs: a frame with buttons in it, as `dialog`, `whiptail` and many libraries draw them.

/// Returns the dialog in a frame at the end of a screen.
pub(super) fn dialog(screen: &Screen) -> Option<DrawnPrompt> {
    let (bottom, buttons) = text_rows(screen)
        .take(ROWS)
        .find(|(_, row)| is_boxed(row) && has_buttons(row))?;
    let is_of_frame = |row: &usize| is_boxed(&screen.rows[*row]) || is_rule(&screen.rows[*row]);
    let top = (0..bottom)
        .rev()
        .take_while(is_of_frame)
        .last()
        .unwrap_or(bottom);
    let row = asking(screen, top, bottom);
    let below = (bottom + 1..screen.rows.len()).take_while(is_of_frame);
    let end = below.last().unwrap_or(bottom) + 1;
    let mut inside = screen.rows[top..bottom].iter();
    let is_secret = !is_yes_or_no(buttons)
        && inside.any(|row| {
            let text = unframed(row).to_lowercase();
            let names = |word: &&str| text.contains(word);
            secret::is_masked(&text) || ["password", "passphrase", "pin:"].iter().any(names)
        });
    Some(DrawnPrompt {
        row,
        secret: is_secret,
        ..DrawnPrompt::new(PromptKind::Dialog, top..end, "dialog with buttons")
    })
}

fn has_buttons(row: &str) -> bool {
    static BUTTONS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"[<\[]\s*(?:ok|yes|no|cancel|continue|back|go back|finish|next|help|exit|quit|select|done|accept|abort|ja|nein|abbrechen|oui|non|annuler|weiter|zurück|sí|aceptar|cancelar)\s*[>\]]",
        )
    });
    BUTTONS.is_match(row) || are_buttons(unframed(row))
}

/// Whether the text is two buttons or more side by side and nothing else, whatever they are called:
/// `<Löschen>  <Behalten>`.
fn are_buttons(text: &str) -> bool {
    let Some(text) = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'))
    else {
        return false;
    };
    // Between two buttons: `>`, white space, `<`.
    let mut parts = text.split('>');
    let first = parts.next().is_some_and(is_label);
    let mut others = parts.peekable();
    first
        && others.peek().is_some()
        && others.all(|part| {
            let (space, label) = part.split_once('<').unwrap_or(("", ""));
            !space.is_empty() && space.trim().is_empty() && is_label(label)
        })
}

/// Whether this may be the text of a button.
pub(super) fn is_label(inside: &str) -> bool {
    const LENGTH: usize = 20;
    let label = inside.trim();
    inside.contains(|c: char| c == ' ' || c.is_alphabetic())
        && label.chars().all(|c| c == ' ' || c.is_alphabetic())
        && label.chars().count() <= LENGTH
}

/// Whether nothing but yes and no can be answered, so that nothing is typed.
pub(super) fn is_yes_or_no(buttons: &str) -> bool {
    static YES: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"[<\[]\s*(?:yes|no|ja|nein|oui|non|sí)\s*[>\]]"));
    YES.is_match(buttons)
}

/// Returns the row that asks between the top and the buttons: of the first rows with text below
/// the frame the one that ends with a question mark, else the first. A frame that holds buttons
/// and no text has only its title.
fn asking(screen: &Screen, top: usize, bottom: usize) -> usize {
    let says = |row: &usize| has_words(&screen.rows[*row]);
    let inside = || (top..bottom).filter(|row| !is_rule(&screen.rows[*row]));
    let Some(first) = inside().find(says) else {
        return (top..=bottom).find(says).unwrap_or(bottom);
    };
    (first..bottom)
        .take_while(|row| says(row) && !is_rule(unframed(&screen.rows[*row])))
        .find(|row| unframed(&screen.rows[*row]).ends_with(['?', '？']))
        .unwrap_or(first)
}

/// Whether a row is only a line that was drawn, perhaps with a title in it.
fn is_rule(row: &str) -> bool {
    let row = row.trim();
    row.starts_with(['┌', '├', '└', '╭', '╰', '┏', '┗', '╔', '╚', '+'])
        && row.chars().filter(|c| "─━═-┄".contains(*c)).count() >= 2
}

// A field whose cursor is drawn by the program, while the terminal's is hidden: `Project name: ▮`.

/// Marks to type behind.
const MARKS: &[char] = &['>', '›', '❯'];

/// Returns the screen with the cursor behind what the field asks for, and nothing else in that row;
/// `None` where there is no such field, or nothing says what it is for.
pub(super) fn with_cursor(screen: &Screen) -> Option<Screen> {
    let cursor = screen.drawn_cursor?;
    let y = usize::try_from(cursor.y).ok()?;
    let row = |y: Option<usize>| {
        y.and_then(|y| screen.rows.get(y))
            .map_or("", String::as_str)
    };
    let before = before(row(Some(y)), usize::try_from(cursor.x).ok()?);
    let typed = inside(before);
    let is_in_frame = before.trim_start().starts_with(is_edge);
    // A text that is edited has lines above and below it that say anything.
    let is_alone = || {
        let beside = [y.checked_sub(1), Some(y + 1)];
        beside.into_iter().all(|y| inside(row(y)).is_empty())
    };
    if !typed.is_empty() && (screen.alternate != Some(true) || is_alone()) {
        let whole = line::asks(typed).map(|_| typed);
        let begun = || line::asks_before_answer(typed).map(|(asked, _)| asked);
        let marked = || is_marked(typed).then_some(typed);
        if let Some(asked) = whole.or_else(begun).or_else(marked) {
            return behind(screen, y, before, asked);
        }
    }
    if !(typed.is_empty() || is_in_frame || typed.starts_with(MARKS)) {
        return None;
    }
    // Directly above it, or above the upper edge of its frame.
    let above = y.checked_sub(1)?;
    let is_framed = inside(row(Some(above))).is_empty() && !is_blank(row(Some(above)));
    let above = if is_framed {
        above.checked_sub(1)?
    } else {
        above
    };
    let line = row(Some(above));
    let label = inside(line);
    let asks = line::asks(label).is_some_and(|ask| ask.is_plain || ask.rule == line::LABEL_RULE);
    if !asks || addressed::is_log(label) {
        return None;
    }
    behind(screen, above, line, label)
}

/// Whether frames are drawn with this character.
pub(super) fn is_edge(c: char) -> bool {
    is_line_or_block(c) || matches!(c, '|' | '+')
}

/// Returns the text without frames and blanks around it.
fn inside(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || is_edge(c))
}

/// Returns what is left of a column.
fn before(row: &str, column: usize) -> &str {
    let mut at = 0;
    let end = row.char_indices().find(|(_, c)| {
        let is_behind = at >= column;
        at += c.width().unwrap_or(0);
        is_behind
    });
    end.map_or(row, |(end, _)| &row[..end])
}

/// Returns the screen with the cursor behind the first part of a row, `asked`, which is a piece of it.
fn behind(screen: &Screen, row: usize, line: &str, asked: &str) -> Option<Screen> {
    let end = line.find(asked)? + asked.len();
    let cursor = CursorPosition {
        x: u32::try_from(line[..end].width()).ok()?,
        y: u32::try_from(row).ok()?,
    };
    Some(Screen {
        cursor: Some(cursor),
        is_cursor_hidden: false,
        ..screen.with_row(row, &line[..end])
    })
}
