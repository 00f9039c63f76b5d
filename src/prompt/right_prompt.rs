//! Text at the right edge of the row in which something is typed, as shells and libraries show it.

use unicode_width::UnicodeWidthStr as _;

use super::cursor_context::widths;
use crate::model::Screen;

/// What is typed and the text at the edge are at least this many cells apart.
const GAP: usize = 8;

/// Returns the screen without the text at the right edge of the cursor's row; `None` where there is
/// none.
pub(super) fn without(screen: &Screen) -> Option<Screen> {
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

    #[track_caller]
    fn check(text: &str, x: u32, expected: Option<&str>) {
        let screen = Screen {
            rows: [text.to_owned()].into(),
            cursor: Some(CursorPosition { x, y: 0 }),
            top: None,
            last_lines: None,
            width: Some(30),
            alternate: Some(false),
            ..Screen::default()
        };
        let found = without(&screen).map(|screen| screen.rows[0].clone());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn text_at_the_right_edge_is_left_out() {
        check("Which file?           step 1/3", 12, Some("Which file?"));
        check("Which file?          step 1/3 ", 12, Some("Which file?"));
        // The cursor is elsewhere, or the text is.
        check("Which file?           step 1/3", 30, None);
        check("Which file?         step 1/3  ", 12, None);
        check("Which file?", 12, None);
    }
}
