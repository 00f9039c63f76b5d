//! Dialogs and forms that are drawn anywhere on a screen of their own, beside other text: buttons below
//! what they answer, and a box below a question or a label.

use std::ops::Range;

use unicode_width::UnicodeWidthChar as _;

use super::addressed;
use super::cursor_context::is_line_or_block;
use super::dialog::{is_label, is_yes_or_no};
use super::drawn::{DrawnPrompt, LOG_STILL};
use super::drawn_field::is_edge;
use super::line::{self, Ask};
use crate::model::{PromptKind, Screen};

/// Returns the dialog or form on the alternate screen. Unless the cursor is hidden, it must end the
/// screen: otherwise it may be a part of a text.
pub(super) fn drawn(screen: &Screen) -> Option<DrawnPrompt> {
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
    let rows = || (0..screen.rows.len()).filter(|_| screen.alternate == Some(true));
    let dialog = rows().rev().find_map(|row| drawing.dialog(row));
    dialog.or_else(|| rows().find_map(|row| drawing.box_below(row)))
}

/// Text without frames and wide gaps.
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
            ..DrawnPrompt::new(kind, self.row, self.row..bottom + 1, rule)
        }
    }
}

/// Returns what a piece of text asks for, unless it is one of a log.
fn asks(text: &str) -> Option<Ask> {
    line::asks(text).filter(|_| !addressed::is_log(text))
}
