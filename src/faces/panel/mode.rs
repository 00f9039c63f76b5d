//! What the keys mean, and what is asked of the user meanwhile.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;

use super::board::{SessionKey, TaskKey};
use crate::model::text;
use crate::rules::wire::SendRequest;

#[derive(Debug, Default)]
pub(super) enum Mode {
    /// They choose a task and what to do with it.
    #[default]
    List,
    /// They change the filter.
    Filter(InputLine),
    /// They are a line for a task.
    Line(TypedLine),
    /// They say whether to do this.
    Confirm {
        question: String,
        effect: PanelEffect,
    },
    /// They move in a text.
    View { of: Subject, view: LogView },
}

/// What the user wants done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PanelEffect {
    /// Show the task's window in the user's terminal.
    Attach { task: TaskKey },
    /// Type into a task.
    Send {
        session: SessionKey,
        /// The task's.
        name: String,
        request: SendRequest,
    },
    /// End the task.
    Kill { task: TaskKey, name: String },
    /// Run it again.
    Rerun { task: TaskKey, name: String },
    /// Remove the session's tasks that have ended.
    Prune { session: SessionKey },
    /// Find out why the task is or is not judged to wait.
    Explain { task: TaskKey },
    /// Read its output.
    ReadLog { task: TaskKey },
    /// Read the end of it.
    Preview { task: TaskKey, is_full_screen: bool },
}

impl PanelEffect {
    pub(super) fn session(&self) -> SessionKey {
        match self {
            Self::Send { session, .. } | Self::Prune { session } => *session,
            Self::Attach { task }
            | Self::Kill { task, .. }
            | Self::Rerun { task, .. }
            | Self::Explain { task }
            | Self::ReadLog { task }
            | Self::Preview { task, .. } => task.session,
        }
    }
}

#[derive(Debug)]
pub(super) struct TypedLine {
    pub(super) task: TaskKey,
    pub(super) name: String,
    /// The prompt that was shown when the user chose to answer it; `None` for a line that answers none.
    pub(super) prompt: Option<String>,
    pub(super) line: InputLine,
    /// Whether it must not be shown; `None` until that is known.
    pub(super) is_secret: Option<bool>,
    /// Whether the user has finished it before that was known.
    pub(super) is_finished: bool,
}

/// What a text is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Help,
    Explanation(TaskKey),
    Log(TaskKey),
}

impl Mode {
    pub(super) fn question(&self) -> Option<String> {
        match self {
            Self::Line(TypedLine {
                name,
                prompt,
                is_secret,
                ..
            }) => {
                let hidden = match is_secret {
                    Some(true) => " (typed text is hidden)",
                    Some(false) | None => "",
                };
                Some(match prompt {
                    Some(prompt) => format!("{name} asks{hidden}: {prompt}"),
                    None => format!("A line for {name} (Esc: no)"),
                })
            }
            Self::Confirm { question, .. } => Some(format!("{question} y/n")),
            Self::List | Self::Filter(_) | Self::View { .. } => None,
        }
    }

    /// Returns what is being typed, and the mark in front of it.
    pub(super) fn typed(&self) -> Option<(&'static str, &InputLine)> {
        match self {
            Self::Line(TypedLine { line, .. }) => Some(("> ", line)),
            Self::Filter(line) => Some(("/", line)),
            Self::View { view, .. } => view.typed.as_ref().map(|line| ("/", line)),
            Self::List | Self::Confirm { .. } => None,
        }
    }

    /// Whether what is being typed may be shown.
    pub(super) fn shows_typed(&self) -> bool {
        !matches!(self, Self::Line(line) if line.is_secret != Some(false))
    }
}

/// A line being typed, with a cursor in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct InputLine {
    pub(super) before: String,
    pub(super) after: String,
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
        let code = match (key.code, is_control) {
            (KeyCode::Char('a'), true) => KeyCode::Home,
            (KeyCode::Char('e'), true) => KeyCode::End,
            (code, _) => code,
        };
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other keys do not edit")]
        match code {
            KeyCode::Char('u') if is_control => self.before.clear(),
            KeyCode::Char('w') if is_control => {
                let kept = self.before.trim_end();
                let kept = kept.rfind(' ').map_or(0, |blank| blank + 1);
                self.before.truncate(kept);
            }
            KeyCode::Char(c) if !is_control => self.insert(&c.to_string()),
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
            KeyCode::Home => self.after.insert_str(0, &std::mem::take(&mut self.before)),
            KeyCode::End => self.before += &std::mem::take(&mut self.after),
            _ => return false,
        }
        true
    }

    /// Inserts a text at the cursor: its first line, without control characters.
    pub(super) fn insert(&mut self, pasted: &str) {
        let line = pasted.lines().next().unwrap_or_default();
        self.before.push_str(&text::piece(line.as_bytes()));
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }
}

/// It may be a password.
impl std::fmt::Debug for InputLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InputLine(..)")
    }
}

/// By how many columns a text moves sideways.
const SIDEWAYS: usize = 8;

/// A text with a position in it.
#[derive(Debug, Clone, Default)]
pub(super) struct LogView {
    pub(super) title: String,
    pub(super) lines: Vec<Line<'static>>,
    /// The first line that is shown.
    pub(super) top: usize,
    /// The first column that is shown.
    pub(super) left: usize,
    /// How many lines fit.
    height: usize,
    /// What is searched for; empty when nothing is.
    pub(super) query: String,
    /// The search that is being typed.
    pub(super) typed: Option<InputLine>,
    pub(super) found: Option<usize>,
}

impl LogView {
    pub(super) fn new(title: String, lines: Vec<Line<'static>>, height: usize) -> Self {
        Self {
            title,
            lines,
            height,
            ..Self::default()
        }
    }

    pub(super) fn resize(&mut self, height: usize) {
        let was_at_end = self.top == self.last_top() && self.top > 0;
        self.height = height;
        self.go_by(if was_at_end { isize::MAX } else { 0 });
    }

    fn last_top(&self) -> usize {
        self.lines.len().saturating_sub(self.height)
    }

    /// By how many lines a key for a page moves.
    pub(super) fn page(&self) -> isize {
        isize::try_from(self.height).map_or(1, |height| (height - 1).max(1))
    }

    pub(super) fn go_by(&mut self, lines: isize) {
        self.top = self.top.saturating_add_signed(lines).min(self.last_top());
    }

    pub(super) fn go_left(&mut self) {
        self.left = self.left.saturating_sub(SIDEWAYS);
    }

    pub(super) fn go_right(&mut self) {
        let shown = self.lines.iter().skip(self.top).take(self.height);
        let longest = shown.map(Line::width).max().unwrap_or_default();
        self.left = (self.left + SIDEWAYS).min(longest.saturating_sub(1));
    }

    /// Searches backwards from the end of what is shown. Returns whether there is such a line.
    pub(super) fn search(&mut self, query: &str) -> bool {
        self.query = query.to_lowercase();
        self.found = None;
        let end = (self.top + self.height).min(self.lines.len());
        self.find(end, false)
    }

    /// Goes to the next such line, also around the end. Returns whether there is one.
    pub(super) fn search_again(&mut self, is_down: bool) -> bool {
        let from = match (self.found, is_down) {
            (Some(found), true) => found + 1,
            (Some(found), false) => found,
            (None, _) => self.top,
        };
        self.find(from, is_down)
    }

    fn find(&mut self, from: usize, is_down: bool) -> bool {
        let n = self.lines.len();
        let from = from.min(n);
        if self.query.is_empty() {
            return false;
        }
        let text = |at: usize| self.lines[at].to_string().to_lowercase();
        let has = |at: &usize| text(*at).contains(&self.query);
        let found = if is_down {
            (from..n).chain(0..from).find(has)
        } else {
            (0..from).rev().chain((from..n).rev()).find(has)
        };
        self.found = found.or(self.found);
        if let Some(found) = found
            && !(self.top..self.top + self.height).contains(&found)
        {
            self.top = found.saturating_sub(self.height / 2).min(self.last_top());
        }
        found.is_some()
    }
}

pub(super) const KEYS: [(&str, &str); 14] = [
    ("j k ↓ ↑", "choose a task"),
    ("g G", "first, last task"),
    ("a", "answer what it asks"),
    ("s", "send it a line"),
    ("Enter", "go to its window"),
    ("l", "its log; / n N search"),
    ("e", "why it waits, or not"),
    ("x", "kill it"),
    ("r", "run it again"),
    ("p", "remove ended tasks"),
    ("/", "filter; Esc shows all"),
    ("?", "this help"),
    ("q", "quit"),
    ("mouse", "click, wheel"),
];

pub(super) fn help() -> Vec<String> {
    let line = |(key, does): &(&str, &str)| {
        let pad = 8_usize.saturating_sub(key.chars().count());
        format!("{key}{:pad$} {does}", "")
    };
    KEYS.iter().map(line).collect()
}
