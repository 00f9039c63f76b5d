//! What errors repeat of the file.

use crate::model::text;

/// The maximum length of what an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 100;

/// Returns a key, a value or a parser's message as an error repeats it: one sanitised line.
pub(super) fn quotable(text: &str) -> String {
    text::one_line(text.as_bytes(), MAX_QUOTED_CHARS)
}
