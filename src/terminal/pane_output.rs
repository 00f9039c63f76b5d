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
    fn may_lack_rows(&self) -> bool {
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
    pub(crate) fn pass(&mut self, mut bytes: &[u8], mut whole: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            while incomplete_tail(&self.held) > 0 {
                match bytes.split_first() {
                    Some((&byte, rest)) if is_continuation(byte) => {
                        self.held.push(byte);
                        bytes = rest;
                    }
                    Some(_) => break,
                    None => return,
                }
            }
            whole(&self.held);
            self.held.clear();
        }
        let (now, later) = bytes.split_at(bytes.len() - incomplete_tail(bytes));
        self.held.extend_from_slice(later);
        if !now.is_empty() {
            whole(now);
        }
    }
}

/// Returns how many bytes at the end are the start of a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    // A character has four bytes at most.
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(start) = tail.iter().rposition(|&byte| !is_continuation(byte)) else {
        return 0;
    };
    match std::str::from_utf8(&tail[start..]) {
        Err(error) if error.error_len().is_none() => tail.len() - start,
        Ok(_) | Err(_) => 0,
    }
}

fn is_continuation(byte: u8) -> bool {
    matches!(byte, 0x80..=0xbf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        for bytes in [
            &b"\xff"[..],
            b"\xe0\x80",
            b"\xc0",
            b"\x80\x80\x80\x80",
            b"\xf5",
        ] {
            let (handed_on, held) = pieces(&[bytes]);
            assert_eq!(handed_on.concat(), bytes);
            assert!(held.is_empty(), "{bytes:x?}");
        }
        let (handed_on, held) = pieces(&[b"\xe2", b"\xc3", b"x"]);
        assert_eq!(handed_on, [&b"\xe2"[..], b"\xc3", b"x"]);
        assert!(held.is_empty());
    }

    proptest! {
        #[test]
        fn cuts_change_no_text(
            bytes in prop_oneof![any::<String>().prop_map(String::into_bytes), any::<Vec<u8>>()],
            cuts: Vec<prop::sample::Index>,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|at| &bytes[at[0]..at[1]]).collect();
            let (handed_on, held) = pieces(&chunks);
            prop_assert_eq!([handed_on.concat(), held.clone()].concat(), bytes.clone());
            let text: String = handed_on.iter().map(|piece| String::from_utf8_lossy(piece)).collect();
            let text = text + &String::from_utf8_lossy(&held);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
