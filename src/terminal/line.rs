use std::ops::Range;

/// How many bytes of a line are reported around a change, and kept of what scrolled off.
pub(crate) const LINE_LIMIT: usize = 16 * 1024;

/// By how many bytes the pieces of a line longer than [`LINE_LIMIT`] overlap.
pub(crate) const LINE_OVERLAP: usize = 4 * 1024;

/// Which chunk of output wrote a cell. 0 marks cells that were there at the beginning.
pub(crate) type Stamp = u64;

/// A logical line at one moment: rows that wrapped into each other are one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The text, including blanks written at its end.
    full: &'a str,
    /// The length of `full` without them, in bytes.
    trimmed: usize,
    /// The end of each run of bytes with the same stamp, and that stamp.
    runs: &'a [(usize, Stamp)],
    complete: bool,
}

impl<'a> Line<'a> {
    /// Returns a line of this text. Each entry of `runs` is the end of a run of bytes, and its
    /// stamp.
    pub(crate) fn new(full: &'a str, runs: &'a [(usize, Stamp)], complete: bool) -> Self {
        Self {
            full,
            trimmed: full.trim_end_matches(' ').len(),
            runs,
            complete,
        }
    }

    /// Returns the line without trailing blanks.
    pub(crate) fn text(&self) -> &'a str {
        &self.full[..self.trimmed]
    }

    /// Returns the line with the blanks that a program wrote at its end, as after a question.
    pub(crate) fn text_with_blanks(&self) -> &'a str {
        self.full
    }

    /// Whether any character in this byte range was written with a stamp greater than `since`.
    /// Cells that were skipped or erased do not count as written.
    pub(crate) fn is_fresh(&self, range: Range<usize>, since: Stamp) -> bool {
        let first = self.runs.partition_point(|&(end, _)| end <= range.start);
        let mut start = first.checked_sub(1).map_or(0, |before| self.runs[before].0);
        for &(end, stamp) in &self.runs[first..] {
            if start >= range.end {
                return false;
            }
            if stamp > since && range.start < range.end {
                return true;
            }
            start = end;
        }
        false
    }

    /// Whether the line was ended by a line feed or by scrolling off the screen.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}
