use std::ops::Range;

use unicode_width::UnicodeWidthChar;

/// The maximum size of a cell's combining marks, in bytes; tmux has about that much room for a
/// whole character.
const MARKS_LIMIT: usize = 32;

#[derive(Debug, Clone)]
pub(super) struct Cell {
    stamp: Stamp,
    /// Characters combined with it.
    marks: Option<Box<str>>,
    content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Never written, or erased.
    Blank,
    Narrow(char),
    /// A line-drawing character, by its letter.
    Drawn(char),
    Wide(char),
    /// The right half of a wide character.
    Padding,
}

impl Cell {
    const BLANK: Self = Self {
        stamp: 0,
        marks: None,
        content: Content::Blank,
    };

    fn is_padding(&self) -> bool {
        self.content == Content::Padding
    }
}

/// Whether a row continues in the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Wrap {
    #[default]
    No,
    /// The cursor wrapped here, which a backspace can undo, but the end of the row was erased
    /// since. To a reader the next row is another line.
    Erased,
    Joined,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// Up to the last cell that was written; blank beyond it.
    cells: Vec<Cell>,
    pub(super) wrap: Wrap,
    /// Whether it was written to since it was reported as complete.
    pub(super) open: bool,
    /// Whether it changed since it was reported.
    pub(super) changed: bool,
    /// Whether it ever had contents since it was cleared as a whole. tmux moves such rows into the
    /// history when the screen is cleared.
    pub(super) used: bool,
}

impl Row {
    /// Returns a row with captured text, stamp 0.
    pub(super) fn captured(text: &str, width: usize) -> Self {
        let mut row = Self::default();
        let mut at = 0;
        for c in text.chars() {
            match width_of(c) {
                _ if c == '\t' => at = (at / 8 + 1) * 8,
                0 => row.combine(at, c, 0),
                columns if at + columns <= width => {
                    row.put(at, c, columns, 0);
                    at += columns;
                }
                _ => break,
            }
        }
        row.wrap = Wrap::No;
        row.open = false;
        row.changed = false;
        row
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear();
        self.wrap = Wrap::No;
        self.open = false;
        self.changed = false;
        self.used = false;
    }

    pub(super) fn end(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn is_joined(&self) -> bool {
        self.wrap == Wrap::Joined
    }

    pub(super) fn break_wrap(&mut self) {
        if self.wrap == Wrap::Joined {
            self.wrap = Wrap::Erased;
        }
    }

    /// Writes a character of one column behind the last cell in use.
    #[inline] // For each character of output.
    pub(super) fn append(&mut self, c: char, stamp: Stamp) {
        self.open = true;
        self.changed = true;
        self.used = true;
        self.cells.push(Cell {
            stamp,
            marks: None,
            content: Content::Narrow(c),
        });
    }

    /// Writes a character of one or two columns.
    pub(super) fn put(&mut self, at: usize, c: char, columns: usize, stamp: Stamp) {
        let cell = Cell {
            stamp,
            marks: None,
            content: match columns {
                1 => Content::Narrow(c),
                _ => Content::Wide(c),
            },
        };
        self.open = true;
        self.changed = true;
        self.used = true;
        if at < self.cells.len() {
            self.break_characters(at, columns);
            self.cells[at] = cell;
        } else {
            // Most characters are written right behind the last one.
            if at > self.cells.len() {
                self.cells.resize(at, Cell::BLANK);
            }
            self.cells.push(cell);
        }
        if columns == 2 {
            let padding = Cell {
                stamp,
                marks: None,
                content: Content::Padding,
            };
            match self.cells.get_mut(at + 1) {
                Some(cell) => *cell = padding,
                None => self.cells.push(padding),
            }
        }
    }

    /// Writes a line-drawing character, by its letter.
    pub(super) fn put_drawn(&mut self, at: usize, letter: char, stamp: Stamp) {
        self.put(at, letter, 1, stamp);
        if let Some(cell) = self.cells.get_mut(at) {
            cell.content = Content::Drawn(letter);
        }
    }

    /// Blanks the remaining halves of wide characters when these columns are written.
    fn break_characters(&mut self, at: usize, columns: usize) {
        let mut first = at;
        while first > 0 && self.cells[first].is_padding() {
            self.cells[first] = Cell::BLANK;
            first -= 1;
        }
        if first != at {
            self.cells[first] = Cell::BLANK;
        }
        let after = self.cells.iter_mut().skip(at + columns);
        for cell in after.take_while(|cell| cell.is_padding()) {
            *cell = Cell::BLANK;
        }
    }

    /// Adds a combining mark to the character before a column. At the left edge there is none.
    pub(super) fn combine(&mut self, at: usize, mark: char, stamp: Stamp) {
        let Some(mut before) = at.checked_sub(1) else {
            return;
        };
        if before >= self.cells.len() {
            self.cells.resize(at, Cell::BLANK);
        }
        if before > 0 && self.cells[before].is_padding() {
            before -= 1;
        }
        let cell = &mut self.cells[before];
        let marks = cell.marks.as_deref().unwrap_or_default();
        if cell.is_padding() || marks.len() + mark.len_utf8() > MARKS_LIMIT {
            return;
        }
        if cell.content == Content::Blank {
            cell.content = Content::Narrow(' ');
        }
        cell.marks = Some([marks, mark.encode_utf8(&mut [0; 4])].concat().into());
        cell.stamp = stamp;
        self.open = true;
        self.changed = true;
        self.used = true;
    }

    /// Blanks columns, up to but not including `to`.
    pub(super) fn erase(&mut self, from: usize, to: usize, width: usize) {
        if to >= width {
            self.break_wrap();
        }
        if to >= self.cells.len() {
            self.cells.truncate(from);
        } else {
            self.cells[from..to].fill(Cell::BLANK);
        }
        self.changed = !self.cells.is_empty();
    }

    /// Inserts `count` columns; what moves beyond the width is lost. As in tmux, fewer columns are
    /// inserted where nothing can be moved.
    pub(super) fn insert(&mut self, at: usize, count: usize, width: usize) {
        if at + 1 == width {
            self.erase(at, width, width);
            return;
        }
        let moved = width.saturating_sub(at + count);
        self.used |= moved > 0;
        if moved == 0 || at >= self.cells.len() {
            return;
        }
        self.cells.resize(width, Cell::BLANK);
        for from in (at..at + moved).rev() {
            self.cells.swap(from, from + count);
        }
        self.cells[at..at + moved.min(count)].fill(Cell::BLANK);
        while self
            .cells
            .pop_if(|last| last.content == Content::Blank)
            .is_some()
        {}
        self.changed = true;
    }

    pub(super) fn delete(&mut self, at: usize, count: usize, width: usize) {
        self.used |= at + count < width;
        let end = self.cells.len();
        if at < end {
            self.cells.drain(at..end.min(at + count));
            self.changed = true;
        }
    }

    pub(super) fn truncate(&mut self, width: usize) {
        self.cells.truncate(width);
    }

    /// Appends the row's text without trailing blanks that were never written, with what the letters of
    /// line drawing stand for.
    pub(super) fn render(&self, buffer: &mut Buffer, drawn: impl Fn(char) -> char) {
        let blanks = self.cells.iter().rev();
        let blanks = blanks.take_while(|cell| cell.content == Content::Blank);
        let end = self.cells.len() - blanks.count();
        for cell in &self.cells[..end] {
            match cell.content {
                Content::Blank => buffer.push(' ', 0),
                Content::Padding => {}
                Content::Drawn(letter) => buffer.push(drawn(letter), cell.stamp),
                Content::Narrow(c) | Content::Wide(c) => buffer.push(c, cell.stamp),
            }
            if let Some(marks) = &cell.marks {
                buffer.push_str(marks, cell.stamp);
            }
        }
    }
}

pub(crate) fn columns_of(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// Splits a row of text at a column. A character that starts before the column belongs to the first
/// part.
pub(crate) fn split_at_column(text: &str, column: usize) -> (&str, &str) {
    let mut at = 0;
    let end = text.char_indices().find(|(_, c)| {
        let begins = at;
        at += width_of(*c);
        begins >= column && width_of(*c) > 0
    });
    text.split_at(end.map_or(text.len(), |(end, _)| end))
}

/// Returns what of a row every version of tmux stores as it was written: letters, digits and ASCII.
/// Bytes that are not UTF-8 are dropped or replaced, as are marks beyond a few and characters that the
/// system does not know.
pub(crate) fn comparable(row: &str) -> String {
    let same = |c: &char| c.is_alphanumeric() || matches!(c, ' '..='~');
    row.chars()
        .filter(same)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Returns `text` cut to this many columns. `…` marks a cut.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let (mut cut, _) = split_at_column(text, columns - 1);
    // Half of a wide character does not fit.
    while columns_of(cut) >= columns {
        cut = cut.char_indices().last().map_or("", |(at, _)| &cut[..at]);
    }
    format!("{cut}…")
}

/// Returns how many columns a character takes: 0 for one that combines with the one before it.
pub(super) fn width_of(c: char) -> usize {
    match c {
        ' '..='~' => 1,
        _ => c.width().unwrap_or(0),
    }
}

/// Text with the stamps of its characters.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    pub(super) text: String,
    /// The end of each run of bytes with the same stamp, and that stamp.
    pub(super) runs: Vec<(usize, Stamp)>,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.runs.clear();
    }

    #[inline] // For each character of a line that is reported.
    pub(super) fn push(&mut self, c: char, stamp: Stamp) {
        self.text.push(c);
        self.stamp(stamp);
    }

    pub(super) fn push_str(&mut self, text: &str, stamp: Stamp) {
        self.text.push_str(text);
        self.stamp(stamp);
    }

    #[inline]
    fn stamp(&mut self, stamp: Stamp) {
        let end = self.text.len();
        match self.runs.last_mut() {
            Some(last) if last.1 == stamp => last.0 = end,
            Some(_) | None => self.runs.push((end, stamp)),
        }
    }

    /// Appends at most the last `limit` bytes of another text, cut between characters.
    pub(super) fn push_end_of(&mut self, other: &Buffer, limit: usize) {
        let start = end_part(&other.text, limit);
        let mut from = start;
        for &(end, stamp) in &other.runs {
            if end > from {
                self.push_str(&other.text[from..end], stamp);
                from = end;
            }
        }
    }

    /// Drops all but at most the last `limit` bytes, cut between characters.
    pub(super) fn keep_end(&mut self, limit: usize) {
        let start = end_part(&self.text, limit);
        self.text.drain(..start);
        self.runs.retain_mut(|run| {
            let keep = run.0 > start;
            run.0 = run.0.saturating_sub(start);
            keep
        });
    }

    pub(super) fn line(&self, complete: bool) -> Line<'_> {
        Line::new(&self.text, &self.runs, complete)
    }
}

/// Returns where the last `limit` bytes of a text start.
fn end_part(text: &str, limit: usize) -> usize {
    text.ceil_char_boundary(text.len().saturating_sub(limit))
}

/// The character sets in use: text, or line drawing (`ESC ( 0`, `ESC ) 0` and SO).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Charsets {
    pub(super) draws: [bool; 2],
    pub(super) used: usize,
}

impl Charsets {
    #[inline] // For each character of output.
    pub(super) fn is_text(self) -> bool {
        !self.draws[self.used]
    }

    /// Whether this character is a line-drawing one in the set in use.
    pub(super) fn draws(self, c: char) -> bool {
        !self.is_text() && drawn(c) != c
    }
}

/// The letters of line drawing, and what each draws.
const LETTERS: &str = "+,-.0`abcdefghijklmnopqrstuvwxyz{|}~";
const DRAWN: &str = "→←↑↓▮◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

/// Returns the drawn form of a character, as tmux shows it on a terminal that supports Unicode.
pub(crate) fn drawn(c: char) -> char {
    let letter = LETTERS.find(c);
    letter.and_then(|at| DRAWN.chars().nth(at)).unwrap_or(c)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_to_the_columns_that_it_has() {
        for (text, expected) in [
            ("four", "four"),
            ("fives", "fiv…"),
            ("日本", "日本"),
            ("日本語", "日…"),
            ("a日本語", "a日…"),
            ("", ""),
        ] {
            assert_eq!(fitted(text, 4), expected);
        }
        assert_eq!(fitted("日", 1), "…");
        assert_eq!(fitted("a", 0), "");
    }
}
