//! Reads a file's lines from its end, to find the latest records without reading the others.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use memchr::memrchr;

use super::line_file::LONGEST;

/// How many bytes are read first; more for longer lines.
const STEP: u64 = 64 * 1024;

/// The complete lines of a file before some byte, the last one first.
#[derive(Debug)]
pub(super) struct LinesBackwards {
    file: File,
    /// The position of `bytes` in the file.
    start: u64,
    /// Bytes that were read and not returned yet. They end with a line.
    bytes: Vec<u8>,
    step: u64,
    /// Whether a part of the line that is being read was dropped.
    is_too_long: bool,
}

impl LinesBackwards {
    /// Returns the lines before the byte `end`. Text without a line end is not a line.
    pub(super) fn before(file: File, end: u64) -> Self {
        Self {
            file,
            start: end,
            bytes: Vec::new(),
            step: STEP,
            is_too_long: false,
        }
    }

    /// Returns the line before the one that was returned last, without its line end. One that is too long
    /// is empty.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            // Without a line end it is an incomplete line, which is skipped.
            let (line_end, is_whole) = match self.bytes.split_last() {
                Some((b'\n', line)) => (line.len(), true),
                Some(_) => (self.bytes.len(), false),
                None if self.start == 0 => return Ok(None),
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            let line_start = match memrchr(b'\n', &self.bytes[..line_end]) {
                Some(before) => before + 1,
                None if self.start == 0 => 0,
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            let mut line = self.bytes.split_off(line_start);
            let is_too_long = std::mem::take(&mut self.is_too_long);
            if is_whole {
                line.truncate(if is_too_long {
                    0
                } else {
                    line_end - line_start
                });
                self.step = STEP;
                return Ok(Some(line));
            }
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        if self.bytes.len() > LONGEST {
            // Only where the line begins is of interest, and that it has an end.
            let end = self.bytes.len() - 1;
            self.bytes.drain(..end);
            self.is_too_long = true;
            self.step = STEP;
        }
        let from = self.start.saturating_sub(self.step);
        let length = usize::try_from(self.start - from).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        self.file.seek(SeekFrom::Start(from))?;
        self.file.read_exact(&mut bytes)?;
        bytes.append(&mut self.bytes);
        (self.bytes, self.start) = (bytes, from);
        self.step *= 2;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[track_caller]
    fn check(text: &str, end: usize, expected: &[&str]) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut lines = LinesBackwards::before(file, end as u64);
        let mut read = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            read.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(read, expected);
    }

    #[test]
    fn whole_lines_are_read_from_the_end() {
        check("", 0, &[]);
        check("a\n", 2, &["a"]);
        check("a\n\nb\n", 5, &["b", "", "a"]);
        check("a\nhalf", 6, &["a"]);
        check("half", 4, &[]);
        check("a\nb\n", 2, &["a"]);
    }

    #[test]
    fn lines_may_be_longer_than_what_is_read_at_once() {
        let long = "x".repeat(3 * 64 * 1024 + 5);
        let text = format!("a\n{long}\nb\n{long}\n");
        check(&text, text.len(), &[&long, "b", &long, "a"]);
        // More is read after a part of it was dropped.
        let too_long = "x".repeat(2 * LONGEST + 3 * 64 * 1024);
        let text = format!("a\n{too_long}\nb\n{long}\n");
        check(&text, text.len(), &[&long, "b", "", "a"]);
        check(&too_long, too_long.len(), &[]);
        let short: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
        let text = short.join("\n") + "\n";
        let expected: Vec<&str> = short.iter().rev().map(String::as_str).collect();
        check(&text, text.len(), &expected);
    }
}
