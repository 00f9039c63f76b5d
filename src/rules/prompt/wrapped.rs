//! Screens as a question is looked for in them: text joined that was wrapped, as of questions that are longer
//! than the pane is wide, and without animated signs and prompts at the right edge.

use unicode_width::UnicodeWidthStr as _;

use super::cursor_context::{CursorContext, is_framed, is_line_or_block, widths};
use super::line;
use crate::model::{CursorPosition, Screen, without_last_sign};

/// The maximum length of a reported prompt, in characters.
pub(super) const MAX_PROMPT_CHARS: usize = 300;

/// Returns the screen with the text of the cursor's row together with what was wrapped above it, in
/// the cursor's row; `None` where nothing seems to be wrapped.
///
/// tmux does not print which rows it has wrapped. A row that fills the pane, or all of it but a last
/// cell that may be blank, probably goes on in the next one. Full-screen programs wrap by themselves.
pub(super) fn unwrapped(screen: &Screen) -> Option<Screen> {
    let cursor = screen.cursor?;
    let row = usize::try_from(cursor.y).ok()?;
    let (first, text) = above(screen, row)?;
    let before = u32::try_from(text.width()).ok()?;
    let mut rows = screen.rows.to_vec();
    rows[first..row].fill(String::new());
    rows[row] = text + &screen.rows[row];
    Some(Screen {
        rows: rows.into(),
        cursor: Some(CursorPosition {
            x: cursor.x + before,
            y: cursor.y,
        }),
        ..screen.clone()
    })
}

/// Returns the line that ends in this row, with what was wrapped above it.
pub(super) fn line_of(screen: &Screen, row: usize) -> String {
    let above = above(screen, row).map_or(String::new(), |(_, text)| text);
    above + &screen.rows[row]
}

/// Returns the first row of the line that ends in this row, and its text above this row; `None` where
/// nothing seems to be wrapped.
fn above(screen: &Screen, row: usize) -> Option<(usize, String)> {
    let width = usize::try_from(screen.width?).ok()?;
    let last = screen.rows.get(row).filter(|row| !row.trim().is_empty())?;
    if screen.alternate == Some(true) {
        return None;
    }
    let mut n_chars = last.chars().count();
    let above = screen.rows[..row].iter().rev().take_while(|row| {
        n_chars += row.chars().count() + 1;
        n_chars <= MAX_PROMPT_CHARS && goes_on(row, width)
    });
    let first = row - above.count();
    if first == row {
        return None;
    }
    let mut text = String::new();
    for part in &screen.rows[first..row] {
        text.push_str(part.trim_end());
        if part.trim_end().width() < width {
            text.push(' ');
        }
    }
    Some((first, text))
}

/// Whether the text of a row probably goes on in the next one.
fn goes_on(row: &str, width: usize) -> bool {
    let text = row.trim_end();
    (width.saturating_sub(1)..=width).contains(&text.width())
        && text.chars().any(char::is_alphanumeric)
        && !is_framed(text)
        && !text.ends_with(is_line_or_block)
}

/// Returns the screen without the sign between a question and the cursor; `None` where there is none.
pub(super) fn without_sign(screen: &Screen) -> Option<Screen> {
    let CursorContext::Behind(row) = CursorContext::of(screen) else {
        return None;
    };
    let asked = without_last_sign(&screen.rows[row])?;
    // With less, it is what a program at work shows: `Loading: |`.
    line::asks(asked).filter(|ask| ask.is_plain)?;
    let cursor = CursorPosition {
        x: u32::try_from(asked.width()).ok()?,
        ..screen.cursor?
    };
    Some(Screen {
        cursor: Some(cursor),
        ..screen.with_row(row, asked)
    })
}

/// What is typed and the text at the edge are at least this many cells apart.
const GAP: usize = 8;

/// Returns the screen without the text at the right edge of the cursor's row; `None` where there is
/// none.
pub(super) fn without_right_prompt(screen: &Screen) -> Option<Screen> {
    let width = usize::try_from(screen.width?).ok()?;
    let cursor = screen.cursor.filter(|_| screen.alternate != Some(true))?;
    let row = usize::try_from(cursor.y).ok()?;
    let text = screen.rows.get(row)?.trim_end();
    let is_at_edge = (width.saturating_sub(1)..=width).contains(&text.width());
    let (left, right) = text.rsplit_once(&" ".repeat(GAP))?;
    let left = left.trim_end();
    let (least, most) = widths(left);
    let is_behind = usize::try_from(cursor.x).is_ok_and(|x| (least..=most + 1).contains(&x));
    if !is_at_edge || !is_behind || left.is_empty() || right.is_empty() {
        return None;
    }
    Some(screen.with_row(row, left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CursorPosition;
    use crate::model::test_notation::screen;

    #[track_caller]
    fn check(rows: &[&str], (x, y): (u32, u32), expected: Option<(&str, u32)>) {
        let screen = Screen {
            cursor: Some(CursorPosition { x, y }),
            width: Some(10),
            alternate: Some(false),
            ..screen(&rows.join("\n"))
        };
        let unwrapped = unwrapped(&screen);
        let row = usize::try_from(y).unwrap();
        let found = unwrapped.as_ref().map(|screen| {
            let cursor = screen.cursor.unwrap();
            (screen.rows[row].as_str(), cursor.x)
        });
        assert_eq!(found, expected, "{rows:?}");
    }

    #[test]
    fn a_wrapped_question_is_whole() {
        let wrapped = ["ls", "Remove the", " old files", "? [y/N]"];
        check(&wrapped, (8, 3), Some(("Remove the old files? [y/N]", 28)));
        // The last cell of the row was a blank.
        check(
            &["Delete it", "now? [y/N]"],
            (10, 1),
            Some(("Delete it now? [y/N]", 20)),
        );
        check(
            &["日本語日本", "語? "],
            (4, 1),
            Some(("日本語日本語? ", 14)),
        );
    }

    #[test]
    fn what_ends_before_the_edge_or_is_drawn_is_no_part_of_the_question() {
        check(&["ls", "now? [y/N]"], (10, 1), None);
        check(&["----------", "now? [y/N]"], (10, 1), None);
        check(&["│ a name │", "now? [y/N]"], (10, 1), None);
        check(&["> a name │", "now? [y/N]"], (10, 1), None);
        check(&["> a name █", " 1/9 ─────", "> "], (2, 2), None);
        check(&["Remove the", ""], (0, 1), None);
        check(&["Remove the"], (10, 0), None);
    }

    #[track_caller]
    fn check_right(text: &str, x: u32, expected: Option<&str>) {
        let screen = Screen {
            cursor: Some(CursorPosition { x, y: 0 }),
            width: Some(30),
            alternate: Some(false),
            ..screen(text)
        };
        let found = without_right_prompt(&screen).map(|screen| screen.rows[0].clone());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn text_at_the_right_edge_is_left_out() {
        check_right("Which file?           step 1/3", 12, Some("Which file?"));
        check_right("Which file?          step 1/3 ", 12, Some("Which file?"));
        // The cursor is elsewhere, or the text is.
        check_right("Which file?           step 1/3", 30, None);
        check_right("Which file?         step 1/3  ", 12, None);
        check_right("Which file?", 12, None);
    }
}
