//! What a terminal shows, as it was captured at one instant.

use super::row::{columns_of, split_at_column};

/// The rows of a pane's history and screen, with its dimensions and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneOutput {
    /// History, as far as requested, and screen: one string per row, wrapped as on the screen,
    /// including blank rows at the end.
    pub rows: Vec<String>,
    /// The number of rows of history.
    pub history: usize,
    /// The maximum number of rows of history.
    pub limit: usize,
    /// The pane's width in columns.
    pub width: usize,
    /// The pane's height in rows.
    pub height: usize,
    /// The cursor's column and row on the screen, from 0.
    pub cursor: (usize, usize),
    /// Whether a full-screen program uses the alternate screen.
    pub is_alternate: bool,
    /// Whether the pane's process has ended.
    pub is_dead: bool,
    /// The process that tmux started in the pane, which distinguishes runs. `None` where tmux does
    /// not report it for a dead pane.
    pub pid: Option<u32>,
}

impl PaneOutput {
    pub(crate) fn screen(&self) -> &[String] {
        &self.rows[self.rows.len().saturating_sub(self.height)..]
    }

    /// Returns the lines from this row and column on, with wrapped rows joined: a row that fills
    /// its width continues in the next one. Blank lines at the end are omitted.
    pub(crate) fn lines_from(&self, row: usize, column: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        let mut goes_on = false;
        for (index, text) in self.rows.iter().enumerate().skip(row) {
            let skipped = if index == row { column } else { 0 };
            let (_, rest) = split_at_column(text, skipped);
            match lines.last_mut().filter(|_| goes_on) {
                Some(line) => line.push_str(rest),
                None => lines.push(rest.to_owned()),
            }
            goes_on = columns_of(text) >= self.width;
        }
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines
    }

    /// Whether rows may have left the history. tmux drops the oldest tenth of a history that is full, so
    /// it is never shorter than the rest after that.
    pub(crate) fn may_lack_rows(&self) -> bool {
        if self.limit == 0 {
            return self.cursor.1 + 1 >= self.height;
        }
        self.history >= self.limit - self.limit.div_ceil(10)
    }

    /// Returns the row of the cursor, counted from the top of the history.
    pub(crate) fn cursor_row(&self) -> usize {
        self.history + self.cursor.1
    }

    /// Returns the number of the first of [`PaneOutput::rows`], counted from the top of the history.
    pub(crate) fn first_row(&self) -> usize {
        (self.history + self.height).saturating_sub(self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_is_nearly_full_may_have_lost_rows() {
        let check = |history: usize, limit: usize, row: usize, expected: bool| {
            let output = PaneOutput {
                rows: Vec::new(),
                history,
                limit,
                width: 80,
                height: 24,
                cursor: (0, row),
                is_alternate: false,
                is_dead: false,
                pid: None,
            };
            assert_eq!(output.may_lack_rows(), expected, "{history} of {limit}");
        };
        check(0, 2000, 0, false);
        check(1799, 2000, 0, false);
        check(1800, 2000, 0, true);
        check(2000, 2000, 23, true);
        check(4, 5, 0, true);
        check(3, 5, 0, false);
        // Without a history there is only the screen.
        check(0, 0, 22, false);
        check(0, 0, 23, true);
    }
}
