//! What a terminal shows, as it was captured at one instant.

use super::row::{columns_of, split_at_column};

/// The rows of a pane's history and screen, with its dimensions and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneOutput {
    /// History, as far as requested, and screen: one string per row, wrapped as on the screen,
    /// including blank rows at the end.
    pub rows: Vec<String>,
    /// Its last lines, with wrapped rows joined, if they were asked for.
    pub lines: Vec<String>,
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

/// A pane's output for reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneLog {
    /// The history that was read and the screen, with wrapped rows joined, without the blank rows
    /// at the end and without tmux's banner of a dead pane.
    pub lines: Vec<String>,
    /// The end of the output.
    pub end: PaneOutput,
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

    /// Adds the first lines of a run, which were read earlier, to all of its lines that are left.
    /// Returns behind how many lines some may be missing.
    pub(crate) fn with_first_lines(
        &self,
        first: &[String],
        left: Vec<String>,
    ) -> (Vec<String>, Option<usize>) {
        // tmux drops more rows at once than there are first lines. What repeats itself looks the same
        // after that.
        let is_repeated = || (1..first.len()).any(|by| first.starts_with(&first[by..]));
        if !self.may_lack_rows() {
            (left, None)
        } else if left.starts_with(first) {
            let is_whole = !first.is_empty() && !is_repeated();
            (left, (!is_whole).then_some(0))
        } else {
            ([first, &left].concat(), Some(first.len()))
        }
    }

    /// Whether no row has left the history.
    pub(crate) fn has_first_row(&self) -> bool {
        self.history < self.limit - self.limit / 10
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
    fn first_lines_complete_what_is_left() {
        let lines = |n: std::ops::Range<usize>| n.map(|n| n.to_string()).collect::<Vec<_>>();
        let check = |history, first: &[String], left: Vec<String>, gap, n_lines| {
            let output = PaneOutput {
                lines: Vec::new(),
                rows: Vec::new(),
                history,
                limit: 100,
                width: 80,
                height: 24,
                cursor: (0, 23),
                is_alternate: false,
                is_dead: false,
                pid: None,
            };
            let (all, found) = output.with_first_lines(first, left);
            assert_eq!((found, all.len()), (gap, n_lines));
        };
        check(89, &[], lines(0..100), None, 100);
        check(90, &[], lines(10..110), Some(0), 100);
        check(90, &lines(0..10), lines(20..120), Some(10), 110);
        // Nothing was dropped yet.
        check(90, &lines(0..10), lines(0..110), None, 110);
        // That is not known of lines that repeat themselves.
        let same = vec!["y".to_owned(); 110];
        check(90, &same[..10], same.clone(), Some(0), 110);
    }

    #[test]
    fn a_history_that_is_nearly_full_may_have_lost_rows() {
        let check = |history: usize, limit: usize, row: usize, expected: bool| {
            let output = PaneOutput {
                lines: Vec::new(),
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
