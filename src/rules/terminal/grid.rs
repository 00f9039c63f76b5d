use std::collections::VecDeque;

use super::row::{Buffer, Charsets, Row, drawn};

/// The state of a terminal's screen, and queries on it. [`super::writer::Writer`] changes it.
#[derive(Debug, Default)]
pub(super) struct Grid {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Always `height` rows.
    pub(super) rows: VecDeque<Row>,
    /// The scrolled-off start of the line that the first row continues.
    pub(super) head: Head,
    /// At most `width`, where the next character wraps.
    pub(super) column: usize,
    pub(super) row: usize,
    /// The first and last row of the scroll region.
    pub(super) region: (usize, usize),
    /// For each column whether it is a tab stop.
    pub(super) tabs: Vec<bool>,
    pub(super) modes: Modes,
    pub(super) charsets: Charsets,
    /// What `ESC 7` saved.
    pub(super) saved: SavedCursor,
    pub(super) screen: ActiveScreen,
    /// Where mode 1049 puts the cursor when the alternate screen is left.
    pub(super) cursor_of_main: Option<(usize, usize)>,
    pub(super) scrolled: u64,
    /// Whether the cursor was moved, other than by writing, since the last character.
    pub(super) jumped: bool,
    /// The character that REP repeats: the last one, when nothing came after it.
    pub(super) last: Option<char>,
}

/// The start of a line whose end is still on the screen.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) buffer: Buffer,
    /// Whether it contains a row that was written to since it was reported as complete.
    pub(super) open: bool,
    /// Whether it contains a row that changed since it was reported.
    pub(super) changed: bool,
}

impl Head {
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.open = false;
        self.changed = false;
    }

    /// Appends the row that leaves the screen.
    pub(super) fn take(&mut self, row: &Row) {
        row.render(&mut self.buffer, drawn);
        self.open |= row.open;
        self.changed |= row.changed;
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Modes {
    pub(super) wrap: bool,
    pub(super) insert: bool,
    /// Whether rows are counted from the first row of the scroll region.
    pub(super) origin: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            wrap: true,
            insert: false,
            origin: false,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SavedCursor {
    pub(super) column: usize,
    pub(super) row: usize,
    pub(super) origin: bool,
    pub(super) charsets: Charsets,
}

/// Which screen the rows belong to.
#[derive(Debug, Default)]
pub(super) enum ActiveScreen {
    #[default]
    Main,
    /// The main screen, of which only what was written since is known.
    Guess,
    /// The alternate screen, with the main screen behind it.
    Alternate { main: VecDeque<Row>, head: Head },
    /// The alternate screen; the main screen behind it was never captured.
    AlternateOfUnknown,
}

impl Grid {
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            rows: blank_rows(height),
            region: (0, height - 1),
            tabs: usual_tabs(width),
            ..Self::default()
        }
    }

    /// Shows a capture. The cursor's line stays open if it was open.
    pub(super) fn show(&mut self, texts: &[String], (column, row): (usize, usize)) {
        let open = self.rows.get(self.row).is_some_and(|row| row.open);
        let texts = texts.iter().map(String::as_str);
        let texts = texts.chain(std::iter::repeat("")).take(self.height);
        let rows = texts.map(|text| Row::captured(text, self.width));
        self.rows = rows.collect();
        self.head.clear();
        self.column = column.min(self.width);
        self.row = row.min(self.height - 1);
        self.rows[self.row].open = open;
        self.jumped = true;
        if let ActiveScreen::Guess = self.screen {
            self.screen = ActiveScreen::Main;
        }
    }

    pub(super) fn resize(&mut self, width: usize, height: usize) {
        if width != self.width {
            self.tabs = usual_tabs(width);
        }
        if let ActiveScreen::Alternate { main, head } = &mut self.screen {
            main.resize(height, Row::default());
            for row in main.iter_mut() {
                row.truncate(width);
            }
            head.clear();
        }
        self.width = width;
        self.height = height;
        self.region = (0, height - 1);
    }

    pub(super) fn is_alternate(&self) -> bool {
        match self.screen {
            ActiveScreen::Main | ActiveScreen::Guess => false,
            ActiveScreen::Alternate { .. } | ActiveScreen::AlternateOfUnknown => true,
        }
    }

    pub(super) fn cursor(&self) -> (usize, usize) {
        (self.column, self.row)
    }

    /// Returns the first and last row of the line that a row belongs to.
    pub(super) fn line_around(&self, row: usize) -> (usize, usize) {
        let mut first = row;
        while first > 0 && self.rows[first - 1].is_joined() {
            first -= 1;
        }
        let mut last = row;
        while last + 1 < self.height && self.rows[last].is_joined() {
            last += 1;
        }
        (first, last)
    }
}

pub(super) fn blank_rows(height: usize) -> VecDeque<Row> {
    std::iter::repeat_n(Row::default(), height).collect()
}

pub(super) fn usual_tabs(width: usize) -> Vec<bool> {
    (0..width)
        .map(|column| column > 0 && column % 8 == 0)
        .collect()
}
