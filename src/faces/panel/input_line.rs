//! One line of text that the user types.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::model::text;

/// The maximum length, in characters.
const LONGEST: usize = 4000;

/// A line being typed, with a cursor in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct InputLine {
    before: String,
    after: String,
}

impl InputLine {
    pub(super) fn with(text: &str) -> Self {
        Self {
            before: text.to_owned(),
            after: String::new(),
        }
    }

    /// Takes a key that edits. Returns whether the text may have changed.
    pub(super) fn edit(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_alt = key.modifiers.contains(KeyModifiers::ALT);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other keys do not edit")]
        match key.code {
            KeyCode::Char('u') if is_control => self.before.clear(),
            KeyCode::Char('w') if is_control => {
                let kept = self.before.trim_end();
                let kept = kept.rfind(' ').map_or(0, |blank| blank + 1);
                self.before.truncate(kept);
            }
            KeyCode::Char('a') if is_control => self.go_to_start(),
            KeyCode::Char('e') if is_control => self.go_to_end(),
            KeyCode::Char(c) if !is_control && !is_alt => self.insert(&c.to_string()),
            KeyCode::Backspace => {
                self.before.pop();
            }
            KeyCode::Delete if !self.after.is_empty() => {
                self.after.remove(0);
            }
            KeyCode::Left => {
                if let Some(c) = self.before.pop() {
                    self.after.insert(0, c);
                }
            }
            KeyCode::Right if !self.after.is_empty() => {
                let c = self.after.remove(0);
                self.before.push(c);
            }
            KeyCode::Home => self.go_to_start(),
            KeyCode::End => self.go_to_end(),
            _ => return false,
        }
        true
    }

    /// Inserts a text at the cursor: its first line, without control characters.
    pub(super) fn insert(&mut self, pasted: &str) {
        let line = pasted.lines().next().unwrap_or_default();
        let clean = text::piece(line.as_bytes());
        let room = LONGEST.saturating_sub(self.text().chars().count());
        self.before.extend(clean.chars().take(room));
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    /// The parts before and after the cursor.
    pub(super) fn parts(&self) -> (&str, &str) {
        (&self.before, &self.after)
    }

    fn go_to_start(&mut self) {
        self.after.insert_str(0, &self.before);
        self.before.clear();
    }

    fn go_to_end(&mut self) {
        self.before.push_str(&self.after);
        self.after.clear();
    }
}

/// It may be a password.
impl std::fmt::Debug for InputLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InputLine(..)")
    }
}
