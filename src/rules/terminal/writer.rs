use std::ops::Range;

use super::grid::{ActiveScreen, Grid, Head, Modes, SavedCursor, blank_rows, usual_tabs};
use super::row::{Buffer, Charsets, Line, Stamp, Wrap, drawn, width_of};
use super::{LINE_LIMIT, LINE_OVERLAP};

/// The changes of one call to a screen. Reports each line before it changes.
pub(super) struct Writer<'a> {
    pub(super) grid: &'a mut Grid,
    stamp: Stamp,
    line: &'a mut dyn FnMut(&Line<'_>),
    buffer: Buffer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LinePart {
    /// What changed since it was reported.
    Changed,
    /// What was written since it was reported as complete.
    Complete,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        grid: &'a mut Grid,
        stamp: Stamp,
        line: &'a mut dyn FnMut(&Line<'_>),
    ) -> Self {
        Self {
            grid,
            stamp,
            line,
            buffer: Buffer::default(),
        }
    }

    // Writing.

    #[inline] // For each character of output: most end here.
    pub(super) fn print(&mut self, c: char) {
        if !self.append(c) {
            self.print_anywhere(c);
        }
    }

    /// Writes a character behind the last one of the cursor's row, as most are. Returns `false`
    /// without a change if more than that is to be done.
    #[inline]
    fn append(&mut self, c: char) -> bool {
        let grid = &mut *self.grid;
        let column = grid.column;
        let is_plain = matches!(c, ' '..='~') && grid.charsets.is_text();
        let row = &mut grid.rows[grid.row];
        if !is_plain || column != row.end() || column >= grid.width {
            return false;
        }
        if grid.modes.insert || !grid.modes.wrap {
            return false;
        }
        row.append(c, self.stamp);
        grid.last = Some(c);
        grid.jumped = false; // Nothing is overwritten.
        grid.column = column + 1;
        true
    }

    fn print_anywhere(&mut self, c: char) {
        let columns = width_of(c);
        let Grid { width, modes, .. } = *self.grid;
        self.grid.last = Some(c);
        if columns == 0 {
            let (column, row) = self.grid.cursor();
            self.grid.rows[row].combine(column, c, self.stamp);
            return;
        }
        if columns > width {
            return;
        }
        let fits = self.grid.column + columns <= width;
        if !fits && !modes.wrap {
            return; // tmux drops it instead of showing half of it.
        }
        if modes.insert && self.grid.column < width {
            self.before_overwriting();
            let (column, row) = self.grid.cursor();
            self.grid.rows[row].insert(column, columns, width);
        }
        if !fits {
            self.grid.rows[self.grid.row].wrap = Wrap::Joined;
            self.go_down();
            self.grid.column = 0;
        }
        self.before_overwriting();
        let (column, row) = self.grid.cursor();
        if self.grid.charsets.draws(c) {
            self.grid.rows[row].put_drawn(column, c, self.stamp);
        } else {
            self.grid.rows[row].put(column, c, columns, self.stamp);
        }
        let last = width - usize::from(!modes.wrap);
        self.grid.column = last.min(column + columns);
    }

    /// Reports the cursor's line when writing here replaces or precedes something not yet reported.
    fn before_overwriting(&mut self) {
        if !self.grid.jumped {
            return;
        }
        self.grid.jumped = false;
        let (column, row) = self.grid.cursor();
        if column < self.grid.rows[row].end() {
            self.report(row, LinePart::Changed);
        }
    }

    pub(super) fn repeat(&mut self, count: usize) {
        let Some(last) = self.grid.last else {
            return;
        };
        for _ in 0..count.min(self.grid.width - self.grid.column) {
            self.print(last);
        }
    }

    // Moving.

    /// Puts the cursor somewhere. A column one beyond the last is where the next character wraps.
    fn set_cursor(&mut self, column: usize, row: usize) {
        let grid = &mut *self.grid;
        grid.jumped = true;
        grid.column = match column {
            column if column > grid.width => grid.width - 1,
            column => column,
        };
        grid.row = row.min(grid.height - 1);
    }

    /// Moves to a column or row, counted from 0.
    pub(super) fn go_to(&mut self, column: Option<usize>, row: Option<usize>) {
        let (top, bottom) = self.grid.region;
        let row = row.map(|row| match self.grid.modes.origin {
            true => (top + row).min(bottom),
            false => row,
        });
        self.go_to_absolute(column, row);
    }

    fn go_to_absolute(&mut self, column: Option<usize>, row: Option<usize>) {
        let column = column.map_or(self.grid.column, |column| column.min(self.grid.width - 1));
        self.set_cursor(column, row.unwrap_or(self.grid.row));
    }

    pub(super) fn carriage_return(&mut self) {
        self.set_cursor(0, self.grid.row);
    }

    pub(super) fn up(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        let (top, _) = self.grid.region;
        let stop = if row < top { 0 } else { top };
        let column = column.min(self.grid.width - 1);
        self.set_cursor(column, row.saturating_sub(count).max(stop));
    }

    pub(super) fn down(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        let (_, bottom) = self.grid.region;
        let stop = match row > bottom {
            true => self.grid.height - 1,
            false => bottom,
        };
        let column = column.min(self.grid.width - 1);
        self.set_cursor(column, (row + count).min(stop));
    }

    pub(super) fn right(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        self.set_cursor((column + count).min(self.grid.width - 1), row);
    }

    pub(super) fn left(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        self.set_cursor(column.saturating_sub(count), row);
    }

    /// Moves back one column, over the edge where the line wrapped.
    pub(super) fn backspace(&mut self) {
        let (column, row) = self.grid.cursor();
        if column > 0 {
            self.set_cursor(column - 1, row);
        } else if row > 0 && self.grid.rows[row - 1].wrap != Wrap::No {
            self.set_cursor(self.grid.width - 1, row - 1);
        }
    }

    pub(super) fn tab(&mut self) {
        let (column, row) = self.grid.cursor();
        let last = self.grid.width - 1;
        if column < last {
            let stop = (column + 1..last).find(|&at| self.grid.tabs[at]);
            self.set_cursor(stop.unwrap_or(last), row);
        }
    }

    pub(super) fn back_tab(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        let mut column = column.min(self.grid.width - 1);
        for _ in 0..count.min(self.grid.width) {
            let stop = (0..column).rev().find(|&at| self.grid.tabs[at]);
            column = stop.unwrap_or(0);
        }
        self.set_cursor(column, row);
    }

    pub(super) fn set_tab(&mut self, is_set: bool) {
        if let Some(tab) = self.grid.tabs.get_mut(self.grid.column) {
            *tab = is_set;
        }
    }

    pub(super) fn save_cursor(&mut self) {
        let (column, row) = self.grid.cursor();
        let origin = self.grid.modes.origin;
        self.grid.saved = SavedCursor {
            column,
            row,
            origin,
            charsets: self.grid.charsets,
        };
    }

    pub(super) fn restore_cursor(&mut self) {
        let saved = self.grid.saved;
        self.grid.modes.origin = saved.origin;
        self.grid.charsets = saved.charsets;
        self.go_to_absolute(Some(saved.column), Some(saved.row));
    }

    // Moving up and down, and scrolling.

    pub(super) fn line_feed(&mut self) {
        self.report(self.grid.row, LinePart::Complete);
        self.go_down();
    }

    fn go_down(&mut self) {
        self.grid.jumped = true;
        if self.grid.row == self.grid.region.1 {
            self.scroll_up(1);
        } else if self.grid.row + 1 < self.grid.height {
            self.grid.row += 1;
        }
    }

    pub(super) fn reverse_index(&mut self) {
        self.grid.jumped = true;
        if self.grid.row == self.grid.region.0 {
            self.scroll_down(1);
        } else {
            self.grid.row = self.grid.row.saturating_sub(1);
        }
    }

    /// Moves the rows of the region up. tmux puts what leaves the main screen's region into its
    /// history, wherever the region starts.
    pub(super) fn scroll_up(&mut self, count: usize) {
        let (top, bottom) = self.grid.region;
        self.grid.jumped = true;
        if top == bottom && self.grid.is_alternate() {
            return; // As tmux does where there is no history.
        }
        for _ in 0..count.min(bottom - top + 1) {
            if top > 0 {
                self.report_leaving(top);
                self.grid.rows[top - 1].break_wrap();
            } else if self.grid.rows[0].is_joined() {
                self.take_into_head();
            } else {
                self.report_leaving(0);
                self.grid.head.clear();
            }
            self.move_row(top, bottom);
            if top + 1 == bottom && self.grid.is_alternate() {
                self.grid.rows[top].wrap = Wrap::No; // As tmux does.
            }
            self.count_scrolled(1);
        }
    }

    pub(super) fn scroll_down(&mut self, count: usize) {
        let (top, bottom) = self.grid.region;
        self.grid.jumped = true;
        if top < bottom {
            for _ in 0..count.min(bottom - top + 1) {
                self.insert_rows(top, bottom, 1);
            }
        }
    }

    pub(super) fn insert_lines(&mut self, count: usize) {
        let (top, bottom) = self.grid.region;
        let row = self.grid.row;
        if (top..=bottom).contains(&row) {
            self.insert_rows(row, bottom, count);
        } else {
            self.insert_rows_outside(row, count);
        }
    }

    /// Inserts below or above the scroll region as tmux does: rows that would move beyond the
    /// bottom stay where they are, unless others replace them.
    fn insert_rows_outside(&mut self, top: usize, count: usize) {
        let moved = self.grid.height.saturating_sub(top + count);
        if moved == 0 {
            return;
        }
        self.report_all_changed();
        self.break_before(top);
        self.break_after(top + count - 1); // tmux forgets the wrap when it moves the row.
        for from in (top..top + moved).rev() {
            self.grid.rows.swap(from, from + count);
        }
        for row in self.grid.rows.range_mut(top..top + moved.min(count)) {
            row.clear();
        }
    }

    pub(super) fn delete_lines(&mut self, count: usize) {
        let (top, bottom) = self.grid.region;
        let bottom = match (top..=bottom).contains(&self.grid.row) {
            true => bottom,
            false => self.grid.height - 1,
        };
        let top = self.grid.row;
        self.break_before(top);
        let count = count.min(bottom - top + 1);
        for _ in 0..count {
            self.report(top, LinePart::Changed);
            self.move_row(top, bottom);
        }
        if bottom - top >= count {
            self.break_after(bottom - count); // Its continuation stays behind.
        }
    }

    fn insert_rows(&mut self, top: usize, bottom: usize, count: usize) {
        let count = count.min(bottom - top + 1);
        self.break_before(top);
        self.break_after(top + count - 1); // tmux forgets the wrap when it moves the row.
        for _ in 0..count {
            self.report(bottom, LinePart::Changed);
            self.move_row(bottom, top);
        }
    }

    /// Removes a row and inserts it elsewhere, blank.
    fn move_row(&mut self, from: usize, to: usize) {
        if let Some(mut row) = self.grid.rows.remove(from) {
            row.clear();
            self.grid.rows.insert(to, row);
        }
    }

    fn take_into_head(&mut self) {
        let Grid { rows, head, .. } = &mut *self.grid;
        head.take(&rows[0]);
        if head.buffer.len() > LINE_LIMIT {
            if std::mem::take(&mut head.changed) {
                (self.line)(&head.buffer.line(false));
            }
            // The next piece of the line overlaps with it.
            head.buffer.keep_end(LINE_OVERLAP);
        }
    }

    fn count_scrolled(&mut self, count: usize) {
        if !self.grid.is_alternate() {
            self.grid.scrolled += count as u64;
        }
    }

    pub(super) fn set_region(&mut self, top: usize, bottom: usize) {
        let top = top.min(self.grid.height - 1);
        let bottom = bottom.min(self.grid.height - 1);
        if top < bottom {
            self.set_cursor(0, 0);
            self.grid.region = (top, bottom);
        }
    }

    // Erasing.

    pub(super) fn erase_characters(&mut self, count: usize) {
        let column = self.grid.column;
        self.erase(self.grid.row, column..column + count);
    }

    pub(super) fn erase_line_after(&mut self) {
        self.erase(self.grid.row, self.grid.column..self.grid.width);
    }

    pub(super) fn erase_line_before(&mut self) {
        self.erase(self.grid.row, 0..self.grid.column + 1);
    }

    pub(super) fn erase_line(&mut self) {
        self.erase(self.grid.row, 0..self.grid.width);
    }

    pub(super) fn erase_screen_after(&mut self) {
        if self.grid.cursor() == (0, 0) && !self.grid.is_alternate() {
            self.clear_into_history();
            return;
        }
        self.erase_line_after();
        self.erase_rows(self.grid.row + 1..self.grid.height);
    }

    pub(super) fn erase_screen_before(&mut self) {
        self.erase_rows(0..self.grid.row);
        self.erase_line_before();
    }

    pub(super) fn erase_screen(&mut self) {
        match self.grid.is_alternate() {
            true => self.erase_rows(0..self.grid.height),
            false => self.clear_into_history(),
        }
    }

    pub(super) fn erase_history(&mut self) {
        if self.grid.head.changed {
            self.report(0, LinePart::Changed);
        }
        self.grid.head.clear();
    }

    fn erase_rows(&mut self, rows: Range<usize>) {
        for row in rows {
            self.erase(row, 0..self.grid.width);
        }
    }

    /// Blanks columns of a row. A row that is blanked as a whole no longer continues another one.
    fn erase(&mut self, row: usize, columns: Range<usize>) {
        let width = self.grid.width;
        let end = columns.end.min(width);
        if columns.start >= end {
            return;
        }
        if columns.start < self.grid.rows[row].end() {
            self.report(row, LinePart::Changed);
            self.grid.rows[row].erase(columns.start, end, width);
        } else if end == width {
            self.grid.rows[row].break_wrap();
        }
        if columns.start == 0 && end == width {
            self.break_before(row);
            self.grid.rows[row].clear();
        }
    }

    /// Ends the line above a row there.
    fn break_before(&mut self, row: usize) {
        match row {
            0 => {
                if self.grid.head.changed {
                    self.report(0, LinePart::Changed);
                }
                self.grid.head.clear();
            }
            row => self.break_after(row - 1),
        }
    }

    fn break_after(&mut self, row: usize) {
        if self.grid.rows[row].is_joined() {
            self.report(row, LinePart::Changed);
            self.grid.rows[row].changed = true; // It is a separate line from now on.
        }
        self.grid.rows[row].wrap = Wrap::No;
    }

    /// Clears the main screen as tmux does: the rows down to the last one in use go into the
    /// history.
    fn clear_into_history(&mut self) {
        for row in 0..self.grid.height {
            self.report_leaving(row);
        }
        let used = self.grid.rows.iter().rposition(|row| row.used);
        self.count_scrolled(used.map_or(0, |last| last + 1));
        for row in &mut self.grid.rows {
            row.clear();
        }
        self.grid.head.clear();
    }

    pub(super) fn insert_characters(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        let width = self.grid.width;
        if column < width {
            self.report(row, LinePart::Changed);
            self.grid.rows[row].insert(column, count, width);
        }
    }

    pub(super) fn delete_characters(&mut self, count: usize) {
        let (column, row) = self.grid.cursor();
        if column == 0 && count >= self.grid.width {
            self.erase_line();
        } else if column < self.grid.width {
            self.report(row, LinePart::Changed);
            self.grid.rows[row].delete(column, count, self.grid.width);
        }
    }

    // Screens and modes.

    pub(super) fn enter_alternate(&mut self, save_cursor: bool) {
        if self.grid.is_alternate() {
            return;
        }
        if save_cursor {
            self.grid.cursor_of_main = Some(self.grid.cursor());
        }
        self.report_all_changed();
        let main = std::mem::replace(&mut self.grid.rows, blank_rows(self.grid.height));
        let head = std::mem::take(&mut self.grid.head);
        self.grid.screen = match self.grid.screen {
            ActiveScreen::Guess => ActiveScreen::AlternateOfUnknown,
            ActiveScreen::Main
            | ActiveScreen::Alternate { .. }
            | ActiveScreen::AlternateOfUnknown => ActiveScreen::Alternate { main, head },
        };
        self.grid.jumped = true;
    }

    pub(super) fn leave_alternate(&mut self, restore_cursor: bool) {
        if restore_cursor && let Some((column, row)) = self.grid.cursor_of_main {
            self.set_cursor(column, row);
        }
        if self.grid.is_alternate() {
            self.report_all_changed();
        }
        let shown = match std::mem::replace(&mut self.grid.screen, ActiveScreen::Main) {
            ActiveScreen::Main => ActiveScreen::Main,
            ActiveScreen::Guess => ActiveScreen::Guess,
            ActiveScreen::Alternate { main, head } => {
                self.grid.rows = main;
                self.grid.head = head;
                ActiveScreen::Main
            }
            ActiveScreen::AlternateOfUnknown => {
                self.grid.rows = blank_rows(self.grid.height);
                self.grid.head = Head::default();
                ActiveScreen::Guess
            }
        };
        self.grid.screen = shown;
        let (column, row) = self.grid.cursor();
        self.go_to_absolute(Some(column), Some(row));
    }

    pub(super) fn reset(&mut self) {
        self.grid.tabs = usual_tabs(self.grid.width);
        self.set_region(0, self.grid.height - 1);
        self.grid.modes = Modes::default();
        self.grid.charsets = Charsets::default();
        self.grid.saved = SavedCursor {
            origin: self.grid.saved.origin,
            ..SavedCursor::default()
        };
        self.erase_screen();
        self.set_cursor(0, 0);
    }

    // Reports.

    pub(super) fn report_all_changed(&mut self) {
        if self.grid.head.changed {
            self.report(0, LinePart::Changed);
        }
        for row in 0..self.grid.height {
            if self.grid.rows[row].changed {
                self.report(row, LinePart::Changed);
            }
        }
    }

    /// Reports the line of a row that goes into the history.
    fn report_leaving(&mut self, row: usize) {
        self.report(row, LinePart::Complete);
        self.report(row, LinePart::Changed);
    }

    /// Reports the line that a row belongs to, if there is something to report: the rows selected
    /// by `part` and, up to the limit, what is before and after them.
    fn report(&mut self, row: usize, part: LinePart) {
        let grid = &mut *self.grid;
        let (first, last) = grid.line_around(row);
        let has_head = first == 0 && grid.head.buffer.len() > 0;
        let wanted = |open: bool, changed: bool| match part {
            LinePart::Changed => changed,
            LinePart::Complete => open,
        };
        let head_wanted = has_head && wanted(grid.head.open, grid.head.changed);
        let mut rows =
            (first..=last).filter(|&at| wanted(grid.rows[at].open, grid.rows[at].changed));
        let Some(from) = rows.next().or(head_wanted.then_some(first)) else {
            return;
        };
        let to = rows.next_back().unwrap_or(from);

        let mut room = LINE_LIMIT;
        let mut start = if head_wanted { first } else { from };
        while start > first && room > 0 {
            start -= 1;
            room = room.saturating_sub(grid.rows[start].end());
        }
        let mut end = to;
        let mut room_after = LINE_LIMIT;
        while end < last && room_after > 0 {
            end += 1;
            room_after = room_after.saturating_sub(grid.rows[end].end());
        }

        self.buffer.clear();
        if has_head && start == 0 {
            self.buffer.push_end_of(&grid.head.buffer, room);
            grid.head.changed = false;
        }
        for row in grid.rows.range_mut(start..=end) {
            row.render(&mut self.buffer, drawn);
            row.changed = false;
        }
        if part == LinePart::Complete {
            for row in grid.rows.range_mut(first..=last) {
                row.open = false;
            }
            if has_head {
                grid.head.open = false;
            }
        }
        let line = self.buffer.line(part == LinePart::Complete);
        if !line.text().is_empty() {
            (self.line)(&line);
        }
    }
}
