//! A model of a pane's terminal, limited to text: it turns output into lines as a user would read
//! them, and knows when each character was written.
//!
//! Waits for text are matched against the [`Line`]s that [`Terminal::write`] reports. Line-drawing
//! letters (`ESC ( 0`) are reported as the characters they draw. Colours, titles, images and sounds
//! are dropped. Everything that moves, writes or erases text behaves as in tmux; `tests/tmux.rs`
//! compares it with a real tmux.
//!
//! # Which lines are reported
//!
//! - A line that was written to is reported before anything on it is overwritten, erased, shifted
//!   or discarded, and at the latest when the call ends. Text that was there between two writes of a
//!   program is never missed. A run of characters written over others without moving the cursor is
//!   one change; the states within it are not reported.
//! - A line is reported as complete when a line feed leaves it, when it scrolls off the top, or
//!   when the main screen is cleared into the history; once, unless it is written to again.
//! - Rows that wrapped into each other are one line. What scrolled off its start is kept up to
//!   [`LINE_LIMIT`] bytes. Beyond that the line is reported in pieces that overlap by
//!   [`LINE_OVERLAP`] bytes, so a longer match can be cut and `^` can match where a piece starts.
//!
//! # Programs that paint
//!
//! A full-screen program writes cells, not lines. What it paints is reported row by row. Text that
//! it paints again, moved or not, counts as written again. A program that makes room at the top
//! (`ESC M`, reverse index) and paints what had been scrolled away repaints in this sense. Rows
//! that the terminal moves by itself keep their stamps: scrolling, inserting and deleting lines
//! write nothing. The alternate screen has its own rows and no history. The main screen comes back
//! as it was left, which reports nothing.

mod grid;
mod pane_output;
mod pattern;
mod perform;
mod row;
mod strings;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use pane_output::{Extent, History, PaneOutput, UnwrappedLine, Utf8Splitter};
pub(crate) use pattern::Pattern;
#[cfg(feature = "panel")]
pub(crate) use row::drawn;
pub(crate) use row::{
    LINE_LIMIT, LINE_OVERLAP, Line, Stamp, columns_of, comparable, fitted, split_at_column,
};

use grid::{ActiveScreen, Grid};
use row::Buffer;
use strings::Strings;
use writer::Writer;

/// The maximum width and height, as in tmux.
const SIZE_LIMIT: usize = 10_000;

/// The model of one pane's terminal.
///
/// Its memory is bounded by the size of the screen (twice that with an alternate screen) and
/// [`LINE_LIMIT`], whatever is written.
pub(crate) struct Terminal {
    strings: Strings,
    utf8: Utf8Splitter,
    parser: vte::Parser,
    grid: Grid,
}

impl Terminal {
    /// Returns an empty terminal with the cursor at the top left.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self {
            strings: Strings::default(),
            utf8: Utf8Splitter::default(),
            parser: vte::Parser::new(),
            grid: Grid::new(width.clamp(1, SIZE_LIMIT), height.clamp(1, SIZE_LIMIT)),
        }
    }

    /// Returns a terminal that shows a capture: the rows of the visible screen, the cursor's column
    /// and row as tmux counts them (the column is `width` when the next character wraps), and
    /// whether it is the alternate screen.
    ///
    /// All of it has stamp 0. A capture does not say which rows wrapped, so none did. Modes and
    /// margins are those of a new terminal. The main screen behind an alternate one is unknown: see
    /// [`Terminal::is_guess`].
    pub(crate) fn seeded(
        width: usize,
        height: usize,
        rows: &[String],
        cursor: (usize, usize),
        alternate: bool,
    ) -> Self {
        let mut terminal = Self::new(width, height);
        if alternate {
            terminal.grid.screen = ActiveScreen::AlternateOfUnknown;
            terminal.grid.cursor_of_main = Some((0, terminal.grid.height - 1));
        }
        terminal.grid.show(rows, cursor);
        terminal
    }

    /// Processes output. Every cell that it writes gets `stamp`. `line` is called with each
    /// reported line, as described in the module's documentation.
    ///
    /// Escape sequences and characters may be cut between calls. Bytes that are not UTF-8 become
    /// U+FFFD.
    pub(crate) fn write(&mut self, bytes: &[u8], stamp: Stamp, line: &mut dyn FnMut(&Line<'_>)) {
        let mut writer = Writer::new(&mut self.grid, stamp, line);
        self.strings.feed(bytes, |text| {
            self.utf8
                .pass(text, |whole| self.parser.advance(&mut writer, whole));
        });
        writer.report_all_changed();
    }

    /// Changes the size, and takes what tmux shows afterwards: tmux rewraps lines, which is not
    /// repeated here. All rows get stamp 0. Screen and modes do not change.
    ///
    /// The capture must have been taken when all earlier output had been written here too.
    pub(crate) fn resize(
        &mut self,
        width: usize,
        height: usize,
        rows: &[String],
        cursor: (usize, usize),
    ) {
        let width = width.clamp(1, SIZE_LIMIT);
        let height = height.clamp(1, SIZE_LIMIT);
        self.grid.resize(width, height);
        self.grid.show(rows, cursor);
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.grid.is_alternate()
    }

    /// Whether the screen is a guess, because the terminal started with an alternate screen and has
    /// left it since: rows may be wrongly blank, and the cursor may be elsewhere. New text is still
    /// reported, but not what was on its row before. [`Terminal::resize`] with a capture ends this.
    pub(crate) fn is_guess(&self) -> bool {
        matches!(self.grid.screen, ActiveScreen::Guess)
    }

    /// Returns the cursor's column and row. The column is the width when the next character wraps.
    pub(crate) fn cursor(&self) -> (usize, usize) {
        self.grid.cursor()
    }

    /// Returns how many rows have gone from the main screen into the history since the beginning,
    /// by scrolling or by clearing the screen.
    pub(crate) fn scrolled(&self) -> u64 {
        self.grid.scrolled
    }

    /// Returns the rows of the screen as `capture-pane -p` prints them, without trailing blanks,
    /// line drawing as letters.
    pub(crate) fn rows(&self) -> Vec<String> {
        let mut buffer = Buffer::default();
        let texts = self.grid.rows.iter().map(|row| {
            buffer.clear();
            row.render(&mut buffer, |letter| letter);
            buffer.line(false).text().to_owned()
        });
        texts.collect()
    }

    /// Whether a string (OSC, DCS, APC, a title) was started and not ended. All output belongs to
    /// it until its end, which may never come.
    pub(crate) fn is_in_string(&self) -> bool {
        self.strings.is_inside()
    }

    /// Stops waiting for the end of a string. tmux does this five seconds after the start; the
    /// caller has the clock.
    pub(crate) fn abandon_string(&mut self) {
        self.strings.abandon();
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("cursor", &self.cursor())
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}
