//! A text that is scrolled and searched: a task's log, the help, an explanation.

use ratatui::text::Line;

use super::input_line::InputLine;

/// By how many columns a text moves sideways.
const SIDEWAYS: usize = 8;

/// A text with a position in it.
#[derive(Debug, Clone, Default)]
pub(super) struct LogView {
    /// What it is.
    pub(super) title: String,
    pub(super) lines: Vec<Line<'static>>,
    /// The lines in lower case, to search in.
    searched: Vec<String>,
    /// The first line that is shown.
    pub(super) top: usize,
    /// The first column that is shown.
    pub(super) left: usize,
    /// How many lines fit.
    height: usize,
    /// What is searched for; empty when nothing is.
    query: String,
    /// The search that is being typed.
    pub(super) typed: Option<InputLine>,
    /// The line that was found.
    pub(super) found: Option<usize>,
}

/// How to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Up,
    Down,
    PageUp,
    PageDown,
    Start,
    End,
    Left,
    Right,
}

impl LogView {
    pub(super) fn new(title: String, lines: Vec<Line<'static>>, height: usize) -> Self {
        let searched = lines.iter().map(|line| line.to_string().to_lowercase());
        Self {
            title,
            searched: searched.collect(),
            lines,
            height,
            ..Self::default()
        }
    }

    pub(super) fn resize(&mut self, height: usize) {
        let was_at_end = self.top == self.last_top() && self.top > 0;
        self.height = height;
        self.top = self.top.min(self.last_top());
        if was_at_end {
            self.top = self.last_top();
        }
    }

    fn last_top(&self) -> usize {
        self.lines.len().saturating_sub(self.height)
    }

    pub(super) fn go(&mut self, to: Move) {
        let page = self.height.saturating_sub(1).max(1);
        self.top = match to {
            Move::Up => self.top.saturating_sub(1),
            Move::Down => self.top + 1,
            Move::PageUp => self.top.saturating_sub(page),
            Move::PageDown => self.top + page,
            Move::Start => 0,
            Move::End => self.last_top(),
            Move::Left | Move::Right => self.top,
        }
        .min(self.last_top());
        self.left = match to {
            Move::Left => self.left.saturating_sub(SIDEWAYS),
            Move::Right => {
                let shown = self.lines.iter().skip(self.top).take(self.height);
                let longest = shown.map(Line::width).max().unwrap_or_default();
                (self.left + SIDEWAYS).min(longest.saturating_sub(1))
            }
            Move::Up | Move::Down | Move::PageUp | Move::PageDown | Move::Start | Move::End => {
                self.left
            }
        };
    }

    /// Searches backwards from the end of what is shown. Returns whether there is such a line.
    pub(super) fn search(&mut self, query: &str) -> bool {
        self.query = query.to_lowercase();
        self.found = None;
        let end = (self.top + self.height).min(self.lines.len());
        self.find(end, false)
    }

    /// Goes to the next line that was searched for, downwards or upwards, around the end. Returns
    /// whether there is one.
    pub(super) fn search_again(&mut self, is_down: bool) -> bool {
        let from = match (self.found, is_down) {
            (Some(found), true) => found + 1,
            (Some(found), false) => found,
            (None, _) => self.top,
        };
        self.find(from, is_down)
    }

    fn find(&mut self, from: usize, is_down: bool) -> bool {
        let n = self.searched.len();
        let from = from.min(n);
        if self.query.is_empty() {
            return false;
        }
        let has = |at: &usize| self.searched[*at].contains(&self.query);
        let found = if is_down {
            (from..n).chain(0..from).find(has)
        } else {
            (0..from).rev().chain((from..n).rev()).find(has)
        };
        let Some(found) = found else { return false };
        self.found = Some(found);
        if !(self.top..self.top + self.height).contains(&found) {
            self.top = found.saturating_sub(self.height / 2).min(self.last_top());
        }
        true
    }

    /// Whether something was searched for.
    pub(super) fn has_query(&self) -> bool {
        !self.query.is_empty()
    }
}
