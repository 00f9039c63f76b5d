//! Dialogs: a frame with buttons in it, as `dialog`, `whiptail` and many libraries draw them.

use std::sync::LazyLock;

use regex::Regex;

use super::cursor_context::{is_boxed, unframed};
use super::drawn::{DrawnPrompt, ROWS, text_rows};
use super::pattern::pattern;
use super::secret;
use super::words::LETTER;
use crate::model::{PromptKind, Screen};

/// Returns the dialog in a frame at the end of a screen.
pub(super) fn drawn(screen: &Screen) -> Option<DrawnPrompt> {
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
            let text = unframed(row);
            secret::is_masked(text) || names_secret(text)
        });
    Some(DrawnPrompt {
        secret: is_secret,
        ..DrawnPrompt::new(PromptKind::Dialog, row, top..end, "dialog with buttons")
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
    inside.contains(|c| c == ' ' || LETTER.has(c))
        && label.chars().all(|c| c == ' ' || LETTER.has(c))
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
    let says = |row: &usize| {
        unframed(&screen.rows[*row])
            .chars()
            .any(char::is_alphanumeric)
    };
    let inside = || (top..bottom).filter(|row| !is_rule(&screen.rows[*row]));
    let Some(first) = inside().find(says) else {
        return (top..=bottom).find(says).unwrap_or(bottom);
    };
    (first..bottom)
        .take_while(|row| says(row) && !is_rule(unframed(&screen.rows[*row])))
        .find(|row| unframed(&screen.rows[*row]).ends_with(['?', '？']))
        .unwrap_or(first)
}

fn names_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    ["password", "passphrase", "pin:"]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether a row is only a line that was drawn, perhaps with a title in it.
fn is_rule(row: &str) -> bool {
    let row = row.trim();
    row.starts_with(['┌', '├', '└', '╭', '╰', '┏', '┗', '╔', '╚', '+'])
        && row.chars().filter(|c| "─━═-┄".contains(*c)).count() >= 2
}
