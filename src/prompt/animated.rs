//! A turning sign behind a question: `Continue? [y/N] |`.

use unicode_width::UnicodeWidthStr as _;

use super::cursor_context::CursorContext;
use super::line;
use crate::model::{CursorPosition, Screen, without_last_sign};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, x: u32, expected: Option<&str>) {
        let screen = Screen {
            rows: [text.to_owned()].into(),
            cursor: Some(CursorPosition { x, y: 0 }),
            ..Screen::default()
        };
        let found = without_sign(&screen).map(|screen| screen.rows[0].clone());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn a_sign_behind_a_question_is_left_out() {
        for sign in ["|", "/", "-", "\\", "⠙", "◐"] {
            check(
                &format!("Continue? [y/N] {sign}"),
                17,
                Some("Continue? [y/N]"),
            );
        }
        check("Continue? [y/N] /", 0, None);
        check("Loading: /", 10, None);
        check("Continue? [y/N]", 16, None);
    }
}
