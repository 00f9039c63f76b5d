//! A pane's terminal, as far as text goes: its output becomes lines as a person would read them,
//! and every character knows when it was written.
//!
//! Waits on text are matched against the [`Line`]s that [`Terminal::write`] tells. Lines that are
//! drawn with letters (`ESC ( 0`) are told as they are drawn. Colours, titles, images and sounds are
//! dropped; everything that moves, writes or erases text is done
//! the way tmux does it, and measured against a real tmux (`tests/tmux.rs`).
//!
//! # What is told
//!
//! - A line that was written to is told before anything on it is overwritten, erased, shifted or
//!   thrown away, and at the latest when the call ends. What stood there between two writes of a
//!   program is never missed; a run of characters written over others without moving the cursor
//!   is one change, so the states within it are not told.
//! - A line is told as complete when a line feed leaves it, when it scrolls off the top, or when
//!   the main screen is cleared into the history; once, unless it is written to again.
//! - Rows that wrapped into each other are one line. What scrolled off its beginning is kept up
//!   to [`LINE_LIMIT`] bytes; beyond that the line is told in pieces that overlap by
//!   [`LINE_OVERLAP`] bytes, so a longer match can be cut and `^` can match where a piece begins.
//!
//! # Programs that paint
//!
//! A full-screen program writes cells, not lines. What it paints is told row by row, and text
//! that it paints again, moved or not, counts as written again: a repaint of old text is new. A
//! program that makes room at the top (`ESC M`, reverse index) and paints what was scrolled away
//! before is such a repaint. Rows that the terminal moves by itself keep their stamps: scrolling,
//! inserting and deleting lines make nothing new. The alternate screen has rows of its own and
//! no history; the main screen comes back as it was left, and that tells nothing.

mod buffer;
mod charset;
mod grid;
mod line;
mod pattern;
mod perform;
mod row;
mod strings;
mod utf8;
mod writer;

#[cfg(test)]
mod tests;

use grid::Grid;
use strings::Strings;
use writer::Writer;

pub use line::{Line, Stamp};
pub use pattern::{Pattern, PatternError};
pub use row::{columns_of, split_at_column};
pub use utf8::Utf8Splitter;

/// How many bytes of a line are told around what changed on it, and kept of what scrolled off.
pub const LINE_LIMIT: usize = 16 * 1024;

/// By how many bytes the pieces of a line longer than [`LINE_LIMIT`] overlap.
pub const LINE_OVERLAP: usize = 4 * 1024;

/// The largest width and height; those of tmux.
const SIZE_LIMIT: usize = 10_000;

/// The model of one pane's terminal.
///
/// Its memory is bounded by the size of the screen (twice that with an alternate screen) and
/// [`LINE_LIMIT`], whatever is written.
///
/// ```
/// use tmux_task::terminal::{Pattern, Terminal};
///
/// let mut terminal = Terminal::seeded(80, 24, &["READY> ".to_owned()], (7, 0), false);
/// let ready = Pattern::literal("READY", false);
/// let mut found = Vec::new();
/// terminal.write(b"unrelated\r\n\x1b[32mREA", 1, &mut |line| found.extend(ready.find(line, 0)));
/// assert!(found.is_empty());
/// terminal.write(b"DY\x1b[m", 2, &mut |line| found.extend(ready.find(line, 0)));
/// assert_eq!(found, vec![0..5]);
/// ```
pub struct Terminal {
    strings: Strings,
    utf8: Utf8Splitter,
    parser: vte::Parser,
    grid: Grid,
}

impl Terminal {
    /// Returns an empty terminal with the cursor at the top left.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            strings: Strings::default(),
            utf8: Utf8Splitter::default(),
            parser: vte::Parser::new(),
            grid: Grid::new(width.clamp(1, SIZE_LIMIT), height.clamp(1, SIZE_LIMIT)),
        }
    }

    /// Returns a terminal that shows what was captured: the rows of the visible screen, the
    /// cursor's column and row as tmux counts them (the column is `width` when the next
    /// character wraps), and whether that is the alternate screen.
    ///
    /// All of it has stamp 0. A capture does not say which rows wrapped, so none did; modes and
    /// margins are taken as those of a new terminal. What the main screen shows behind an
    /// alternate one is not known: see [`Terminal::is_guess`].
    #[must_use]
    pub fn seeded(
        width: usize,
        height: usize,
        rows: &[String],
        cursor: (usize, usize),
        alternate: bool,
    ) -> Self {
        let mut terminal = Self::new(width, height);
        if alternate {
            terminal.grid.enter_unknown_alternate();
        }
        terminal.grid.show(rows, cursor);
        terminal
    }

    /// Takes output. Every cell that it writes gets `stamp`; `line` is told lines as the module
    /// says.
    ///
    /// Escape sequences and characters may be cut between calls. Bytes that are no UTF-8 become
    /// U+FFFD.
    pub fn write(&mut self, bytes: &[u8], stamp: Stamp, line: &mut dyn FnMut(&Line<'_>)) {
        let mut writer = Writer::new(&mut self.grid, stamp, line);
        self.strings.feed(bytes, |text| {
            self.utf8
                .pass(text, |whole| self.parser.advance(&mut writer, whole));
        });
        writer.tell_all_changed();
    }

    /// Takes a new size, and what tmux shows after it: it wraps lines anew, which is not done
    /// again here. All rows have stamp 0 after that; the screen and the modes stay as they are.
    ///
    /// To be called with a capture that was taken when all output written before was written
    /// here too.
    pub fn resize(&mut self, width: usize, height: usize, rows: &[String], cursor: (usize, usize)) {
        let width = width.clamp(1, SIZE_LIMIT);
        let height = height.clamp(1, SIZE_LIMIT);
        self.grid.resize(width, height);
        self.grid.show(rows, cursor);
    }

    /// Whether the alternate screen is shown.
    #[must_use]
    pub fn is_alternate(&self) -> bool {
        self.grid.is_alternate()
    }

    /// Whether the screen shown is a guess, because the terminal began with an alternate screen
    /// and that was left since: rows are blank that are not, and the cursor may be elsewhere. New
    /// text is told all the same, but not what stood on its row before. [`Terminal::resize`] with
    /// a capture ends it.
    #[must_use]
    pub fn is_guess(&self) -> bool {
        self.grid.is_guess()
    }

    /// The cursor's column and row. The column is the width when the next character wraps.
    #[must_use]
    pub fn cursor(&self) -> (usize, usize) {
        self.grid.cursor()
    }

    /// How many rows have gone from the main screen into the history since the beginning, by
    /// scrolling or by clearing the screen.
    #[must_use]
    pub fn scrolled(&self) -> u64 {
        self.grid.scrolled()
    }

    /// The rows of the screen as `capture-pane -p` shows them, without trailing blanks: lines that
    /// are drawn with letters as those letters.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        self.grid.texts()
    }

    /// Whether a string (OSC, DCS, APC, a title) was begun and not ended. All output is part of
    /// it until its end comes, which may be never.
    #[must_use]
    pub fn is_in_string(&self) -> bool {
        self.strings.is_inside()
    }

    /// Gives up waiting for the end of a string. tmux does so five seconds after it began; the
    /// clock is the caller's.
    pub fn abandon_string(&mut self) {
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
