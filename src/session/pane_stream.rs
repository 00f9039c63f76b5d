//! The output of one followed pane, as lines.

use std::time::{Duration, Instant};

use crate::model::{Now, text};
use crate::terminal::{Line, PaneOutput, Stamp, Terminal, comparable};
use crate::wait::Anchor;

/// After how long tmux gives up waiting for the end of a string.
const STRING_LASTS: Duration = Duration::from_secs(5);

/// One pane's output, from the start of following.
#[derive(Debug)]
pub(super) struct PaneStream {
    terminal: Terminal,
    /// The stamp of the last chunk of output.
    stamp: Stamp,
    /// How many rows of history there were when nothing had scrolled off this terminal.
    scrolled_before: i64,
    /// Since when a string (a title, an image) has been unterminated.
    in_string_since: Option<Instant>,
    /// The last written line that has not ended, if it goes to output streams.
    pub(super) unfinished: Option<String>,
    state: StreamState,
}

/// Whether all output of a pane arrives.
#[derive(Debug)]
enum StreamState {
    /// All of it, so far.
    Whole,
    /// The pane was paused when its terminal's cursor was here, if that is known. Later output has
    /// a gap before it and is not used: the pane has to be read.
    Paused(Option<Anchor>),
}

impl PaneStream {
    /// Begins with this screen of a pane.
    pub(super) fn new(output: &PaneOutput) -> Self {
        Self {
            terminal: Terminal::seeded(
                output.width,
                output.height,
                output.screen(),
                output.cursor,
                output.is_alternate,
            ),
            stamp: 0,
            scrolled_before: i64::try_from(output.history).unwrap_or(i64::MAX),
            in_string_since: None,
            unfinished: None,
            state: StreamState::Whole,
        }
    }

    /// Returns the stamp of the last output: everything on the screen is that old or older.
    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether the screen is a guess: a full-screen program that was active at the first read has
    /// ended.
    pub(super) fn is_guess(&self) -> bool {
        self.terminal.is_guess()
    }

    /// Whether output is missing, so that the pane has to be read.
    pub(super) fn is_paused(&self) -> bool {
        match self.state {
            StreamState::Whole => false,
            StreamState::Paused(_) => true,
        }
    }

    /// Notes that further output does not arrive.
    pub(super) fn pause(&mut self) {
        self.state = StreamState::Paused(self.anchor());
    }

    /// Continues with the pane's present contents.
    pub(super) fn resume(&mut self, output: &PaneOutput) {
        self.stamp += 1;
        self.show(output);
        self.state = StreamState::Whole;
    }

    /// Whether the pane contains more than has arrived.
    pub(super) fn is_short_of(&self, output: &PaneOutput) -> bool {
        let (known, shown) = (written(&self.rows()), written(&output.rows));
        !shown.ends_with(&known) || known.is_empty() != shown.is_empty()
    }

    /// Returns the terminal's rows as in a capture.
    fn rows(&self) -> Vec<String> {
        let rows = self.terminal.rows();
        rows.iter().map(|row| text::row(row.as_bytes())).collect()
    }

    /// Shows the pane's present contents: all of them are old.
    pub(super) fn show(&mut self, output: &PaneOutput) {
        self.terminal
            .resize(output.width, output.height, output.screen(), output.cursor);
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.scrolled_before = signed(output.history as u64) - signed(self.terminal.scrolled());
    }

    /// Returns up to which row of the pane's history output has arrived; `None` where rows do not
    /// scroll.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        if let StreamState::Paused(anchor) = &self.state {
            return anchor.clone();
        }
        if self.terminal.is_alternate() || self.terminal.is_guess() {
            return None;
        }
        let scrolled = i64::try_from(self.terminal.scrolled()).ok()?;
        let top = usize::try_from(self.scrolled_before + scrolled).ok()?;
        let (column, row) = self.terminal.cursor();
        Some(Anchor::at(&self.rows(), top, top + row, column))
    }

    /// Processes output.
    pub(super) fn write(&mut self, bytes: &[u8], now: Now, line: &mut dyn FnMut(&Line<'_>)) {
        let given_up = |since: Instant| now.mono.saturating_duration_since(since) >= STRING_LASTS;
        if self.in_string_since.is_some_and(given_up) {
            self.terminal.abandon_string();
        }
        self.stamp += 1;
        self.terminal.write(bytes, self.stamp, line);
        self.in_string_since = self
            .terminal
            .is_in_string()
            .then(|| self.in_string_since.unwrap_or(now.mono));
    }
}

/// Returns the rows without blank ones at the end, as they can be compared with those of tmux.
fn written(rows: &[String]) -> Vec<String> {
    let n = rows.iter().rposition(|row| !row.is_empty());
    let rows = rows[..n.map_or(0, |last| last + 1)].iter();
    rows.map(|row| comparable(row)).collect()
}
