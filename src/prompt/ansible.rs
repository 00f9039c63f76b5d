//! Ansible's `pause`: its text is above a fresh line, in raw mode, and may be anything. It is
//! recognised by the name of the task: in the banner, and in brackets right below it.

use super::cursor_context::is_blank;
use super::drawn::{DrawnPrompt, text_rows};
use super::line;
use super::secret;
use crate::model::{PromptKind, Screen};

/// The maximum number of rows of a pause's text.
const ROWS: usize = 12;

/// Returns the pause at the end of a screen.
pub(super) fn drawn(screen: &Screen) -> Option<DrawnPrompt> {
    let (last, text) = text_rows(screen).next()?;
    let text = text.trim();
    // A pause that ends by itself says how, without a colon at the end.
    text.ends_with(':').then_some(())?;
    let first = (last.saturating_sub(ROWS)..last).rev().find(|row| {
        let row = screen.rows[*row].trim();
        row.starts_with('[') && row.ends_with(']')
    })?;
    let named = screen.rows[first].trim();
    let banner = screen.rows[first.checked_sub(1)?].trim_end();
    // `TASK [role : name] *****` above `[role : name]`.
    let is_banner = banner
        .trim_end_matches('*')
        .trim_end()
        .ends_with(&format!(" {named}"));
    let is_one = (first..=last).all(|row| !is_blank(&screen.rows[row]));
    if !is_banner || !banner.ends_with("**") || !is_one || first == last {
        return None;
    }
    let kind = if secret::is_label(text) {
        PromptKind::Password
    } else {
        let asked = text.trim_end_matches(':').trim_end();
        line::asks(asked).map_or(PromptKind::Key, |ask| ask.kind)
    };
    Some(DrawnPrompt::new(
        kind,
        last,
        first..last + 1,
        "pause of Ansible",
    ))
}
