//! Cleans what another machine prints, so that it does nothing to a terminal.

use tmux_task::model::text;

/// How much of a line may be missing its end, in bytes, before it counts as whole.
const MAX_PENDING: usize = 64 << 10;

/// A stream of text. What is cut in the middle of an escape sequence or a character waits for its rest.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    pending: Vec<u8>,
    /// Whether the stream is left as it is.
    is_raw: bool,
}

impl Cleaner {
    pub(crate) fn new(is_raw: bool) -> Self {
        Self {
            pending: Vec::new(),
            is_raw,
        }
    }

    /// Returns the next part of the stream without escape sequences and control characters, but for line
    /// ends, tabs and returns.
    pub(crate) fn clean(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_raw {
            return bytes.to_vec();
        }
        self.pending.extend(bytes);
        let whole = self.pending.iter().rposition(|byte| *byte == b'\n');
        let mut end = whole.map_or(0, |at| at + 1);
        let rest = &self.pending[end..];
        // A prompt, or progress, has no end of its line.
        let is_plain = !rest.contains(&0x1b) && str::from_utf8(rest).is_ok();
        if is_plain || rest.len() > MAX_PENDING {
            end = self.pending.len();
        }
        let rest = self.pending.split_off(end);
        of_lines(&std::mem::replace(&mut self.pending, rest))
    }

    /// Returns what is left at the end of the stream.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        of_lines(&std::mem::take(&mut self.pending))
    }
}

fn of_lines(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| {
        let words = line.split_inclusive(|byte| matches!(byte, b'\t' | b'\r'));
        let clean = words.map(|word| match word.split_last() {
            Some((last @ (b'\t' | b'\r'), word)) => {
                text::piece(word) + &char::from(*last).to_string()
            }
            _ => text::piece(word),
        });
        clean.collect::<String>().into_bytes()
    });
    lines.collect::<Vec<_>>().join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_wherever_the_stream_is_cut() {
        let hostile =
            "a\t\u{1b}[31mrow\u{1b}[m\n\u{1b}]0;title\u{7}\u{e9} 50%\rb\u{9b}2J\n\u{1b}[2";
        for at in 0..hostile.len() {
            let mut cleaner = Cleaner::default();
            let (one, two) = hostile.as_bytes().split_at(at);
            let mut clean = cleaner.clean(one);
            clean.extend(cleaner.clean(two));
            clean.extend(cleaner.end());
            let clean = String::from_utf8(clean).unwrap();
            let is_left = |c: char| c.is_control() && !['\n', '\t', '\r'].contains(&c);
            assert!(!clean.contains(is_left), "{at}: {clean:?}");
            assert!(
                clean.starts_with("a\trow\n\u{e9} 50%\rb"),
                "{at}: {clean:?}"
            );
        }
        assert_eq!(Cleaner::default().clean(b"Go? "), b"Go? ");
    }
}
