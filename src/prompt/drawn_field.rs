//! A field whose cursor is drawn by the program, while the terminal's is hidden: `Project name: ▮`, in
//! a frame or not, empty, with a placeholder, or with text that was typed.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::cursor_context::{is_blank, is_line_or_block};
use super::drawn::is_marked;
use super::{addressed, line};
use crate::model::{CursorPosition, Screen};

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
