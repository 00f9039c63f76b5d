use super::line::{Line, Stamp};

/// Text with the stamps of its characters.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    text: String,
    /// The end of each run of bytes with the same stamp, and that stamp.
    runs: Vec<(usize, Stamp)>,
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
