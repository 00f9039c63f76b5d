//! What a terminal shows, as it was captured at one instant.

use std::ops::Range;

use super::row::{Buffer, Line, columns_of, split_at_column};

/// How much of a pane's history to read besides its screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum History {
    LastRows(usize),
    Whole,
}

impl History {
    /// How many rows are read for each line, and how many besides: lines of up to that many times the width
    /// of the pane are common, and blank rows at the end of the screen are no lines.
    const ROWS_PER_LINE: usize = 32;
    const MORE_ROWS: usize = 200;

    /// Returns what most likely contains so many of the last lines; `None` for none.
    pub(crate) fn of_lines(lines: usize) -> Option<Self> {
        let rows = lines.checked_mul(Self::ROWS_PER_LINE);
        let history = rows.map_or(Self::Whole, |rows| {
            Self::LastRows(rows.saturating_add(Self::MORE_ROWS))
        });
        (lines > 0).then_some(history)
    }
}

/// What to read of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The history that is read as rows.
    pub rows: History,
    /// The history that is read as lines; `None` for none.
    pub lines: Option<History>,
    /// Whether lines have their escape sequences for colours and attributes. Else they are sanitised.
    pub is_raw: bool,
}

impl Extent {
    /// The screen, and the row above it, without which nothing in its first row is recognised.
    pub(crate) const SCREEN: Self = Self {
        rows: History::LastRows(1),
        lines: None,
        is_raw: false,
    };

    pub(crate) const ALL: Self = Self {
        rows: History::Whole,
        ..Self::SCREEN
    };

    /// Returns the screen, and so much history as lines.
    pub(crate) fn of_lines(history: History, is_raw: bool) -> Self {
        Self {
            lines: Some(history),
            is_raw,
            ..Self::SCREEN
        }
    }
}

/// The rows of a pane's history and screen, with its dimensions and state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PaneOutput {
    /// History, as far as requested, and screen: one string per row, wrapped as on the screen,
    /// including blank rows at the end.
    pub rows: Vec<String>,
    /// The same as lines, as far as they were asked for: with wrapped rows joined, without the blank ones
    /// at the end and without tmux's banner of a dead pane.
    pub lines: Vec<String>,
    pub history: usize,
    pub limit: usize,
    pub width: usize,
    pub height: usize,
    /// The cursor's column and row on the screen, from 0.
    pub cursor: (usize, usize),
    /// Whether a full-screen program uses the alternate screen.
    pub is_alternate: bool,
    pub is_dead: bool,
    /// The process that tmux started in the pane, which distinguishes runs. `None` where tmux does
    /// not report it for a dead pane.
    pub pid: Option<u32>,
}

impl PaneOutput {
    pub(crate) fn screen(&self) -> &[String] {
        &self.rows[self.rows.len().saturating_sub(self.height)..]
    }

    /// Joins wrapped rows, from this one of its rows on: a row that fills its width continues in the next one.
    /// So many columns of the first row are old, everything else is new.
    pub(crate) fn unwrapped(&self, row: usize, old: usize) -> Vec<UnwrappedLine> {
        let mut lines: Vec<UnwrappedLine> = Vec::new();
        let mut goes_on = false;
        for (index, text) in self.rows.iter().enumerate().skip(row) {
            if !goes_on {
                lines.push(UnwrappedLine::default());
            }
            let line = lines.last_mut().expect("one was pushed");
            let old = if index == row { old } else { 0 };
            let (before, behind) = split_at_column(text, old);
            line.buffer.push_str(before, 0);
            line.buffer.push_str(behind, 1);
            line.rows.start = if goes_on { line.rows.start } else { index };
            line.rows.end = index + 1;
            goes_on = columns_of(text) >= self.width;
        }
        lines
    }

    /// Returns the text of these lines. Blank lines at the end are omitted.
    pub(crate) fn lines_from(&self, row: usize, column: usize) -> Vec<String> {
        let lines = self.unwrapped(row, column).into_iter();
        let mut lines: Vec<String> = lines.map(UnwrappedLine::into_new_text).collect();
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

    /// Returns the row of the cursor, counted from the top of the history.
    pub(crate) fn cursor_row(&self) -> usize {
        self.history + self.cursor.1
    }

    /// Returns the number of the first of [`PaneOutput::rows`], counted from the top of the history.
    pub(crate) fn first_row(&self) -> usize {
        (self.history + self.height).saturating_sub(self.rows.len())
    }
}

/// A line of captured rows.
#[derive(Default)]
pub(crate) struct UnwrappedLine {
    /// What is old has stamp 0, what is new 1.
    buffer: Buffer,
    /// The rows that were joined.
    pub(crate) rows: Range<usize>,
}

impl UnwrappedLine {
    pub(crate) fn line(&self, is_complete: bool) -> Line<'_> {
        self.buffer.line(is_complete)
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.line(true).is_fresh(0..self.buffer.len(), 0)
    }

    /// Returns it without what is old, which is at its beginning.
    fn into_new_text(mut self) -> String {
        let old = self.buffer.runs.first().map_or(0, |(end, _)| *end);
        self.buffer.text.split_off(old)
    }
}

/// Splits a stream of UTF-8 between characters: a character cut between two calls is passed on
/// whole.
///
/// The parser can join characters too, but vte 0.15 loses an ASCII character between two that are
/// cut.
#[derive(Debug, Default)]
pub(crate) struct Utf8Splitter {
    /// The start of a character.
    held: Vec<u8>,
}

impl Utf8Splitter {
    /// Passes on the bytes, except for an incomplete character at their end, which is kept for the
    /// next call. Bytes that are not UTF-8 are passed on unchanged.
    pub(crate) fn pass(&mut self, bytes: &[u8], mut whole: impl FnMut(&[u8])) {
        let held = std::mem::take(&mut self.held);
        let joined = (!held.is_empty()).then(|| [&held, bytes].concat());
        let bytes = joined.as_deref().unwrap_or(bytes);
        let (now, later) = bytes.split_at(bytes.len() - incomplete_tail(bytes));
        self.held.extend_from_slice(later);
        if !now.is_empty() {
            whole(now);
        }
    }
}

fn incomplete_tail(bytes: &[u8]) -> usize {
    // A character has four bytes at most.
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(start) = tail.iter().rposition(|byte| !matches!(byte, 0x80..=0xbf)) else {
        return 0;
    };
    match std::str::from_utf8(&tail[start..]) {
        Err(error) if error.error_len().is_none() => tail.len() - start,
        Ok(_) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::terminal::tests::cut;
    use proptest::prelude::*;

    /// A pane of 80 columns and 24 rows, with the cursor in this row.
    fn pane(history: usize, limit: usize, row: usize) -> PaneOutput {
        PaneOutput {
            history,
            limit,
            width: 80,
            height: 24,
            cursor: (0, row),
            ..PaneOutput::default()
        }
    }

    #[test]
    fn first_lines_complete_what_is_left() {
        let lines = |n: std::ops::Range<usize>| n.map(|n| n.to_string()).collect::<Vec<_>>();
        let same = |n| vec!["y".to_owned(); n];
        for (history, first, left, gap, n_lines) in [
            (89, lines(0..0), lines(0..100), None, 100),
            (90, lines(0..0), lines(10..110), Some(0), 100),
            (90, lines(0..10), lines(20..120), Some(10), 110),
            // Nothing was dropped yet.
            (90, lines(0..10), lines(0..110), None, 110),
            // That is not known of lines that repeat themselves.
            (90, same(10), same(110), Some(0), 110),
        ] {
            let (all, found) = pane(history, 100, 23).with_first_lines(&first, left);
            assert_eq!((found, all.len()), (gap, n_lines), "{first:?}");
        }
    }

    #[test]
    fn a_history_that_is_nearly_full_may_have_lost_rows() {
        for (history, limit, row, expected) in [
            (0, 2000, 0, false),
            (1799, 2000, 0, false),
            (1800, 2000, 0, true),
            (2000, 2000, 23, true),
            (4, 5, 0, true),
            (3, 5, 0, false),
            // Without a history there is only the screen.
            (0, 0, 22, false),
            (0, 0, 23, true),
        ] {
            let may_lack_rows = pane(history, limit, row).may_lack_rows();
            assert_eq!(may_lack_rows, expected, "{history} of {limit}");
        }
    }

    /// Returns what is passed on, piece by piece, and what is kept at the end.
    fn pieces(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut splitter = Utf8Splitter::default();
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.pass(chunk, |whole| pieces.push(whole.to_vec()));
        }
        (pieces, splitter.held)
    }

    #[test]
    fn a_character_is_held_until_it_is_whole() {
        let euro = "€".as_bytes();
        let (handed_on, held) = pieces(&[b"a", &euro[..1], &euro[1..2], b"", &euro[2..], b"b"]);
        assert_eq!(handed_on, [b"a".as_slice(), euro, b"b"]);
        assert!(held.is_empty());
        let (handed_on, held) = pieces(&[b"a\xf0\x9f\x8e"]);
        assert_eq!(handed_on, [b"a"]);
        assert_eq!(held, b"\xf0\x9f\x8e");
    }

    #[test]
    fn what_can_be_no_character_is_not_held() {
        for bytes in [&b"\xff"[..], b"\xe0\x80", b"\xc0", b"\x80\x80", b"\xf5"] {
            let (handed_on, held) = pieces(&[bytes]);
            assert_eq!(handed_on.concat(), bytes);
            assert!(held.is_empty(), "{bytes:x?}");
        }
        let (handed_on, held) = pieces(&[b"\xe2", b"\xc3", b"x"]);
        assert_eq!(handed_on, [&b"\xe2"[..], b"\xc3x"]);
        assert!(held.is_empty());
    }

    proptest! {
        #[test]
        fn cuts_change_no_text(
            bytes in prop_oneof![any::<String>().prop_map(String::into_bytes), any::<Vec<u8>>()],
            cuts: Vec<prop::sample::Index>,
        ) {
            let (handed_on, held) = pieces(&cut(&bytes, &cuts));
            prop_assert_eq!([handed_on.concat(), held.clone()].concat(), bytes.clone());
            let text: String = handed_on.iter().map(|piece| String::from_utf8_lossy(piece)).collect();
            let text = text + &String::from_utf8_lossy(&held);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
