//! What comes out of panes, names and titles is hostile until proven text.
//!
//! Proven text has no control characters and no escape sequences, is valid UTF-8 and bounded.

/// Returns `bytes` as one line of proven text of at most `max_chars` characters.
///
/// Escape sequences are dropped, tabs and line ends become blanks, other control characters and
/// the marks that turn the direction of text go. A cut is shown by `…`.
#[must_use]
pub fn one_line(bytes: &[u8], max_chars: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut line = String::with_capacity(text.len().min(max_chars * 4));
    for c in Unescaped::new(&text) {
        match c {
            '\t' | '\n' | '\r' => line.push(' '),
            c if is_harmful(c) => {}
            c => line.push(c),
        }
    }
    let line = line.trim();
    bounded(line, max_chars)
}

/// Returns one row of a pane as proven text: as [`one_line`], but blanks before the text stay
/// and nothing is cut.
#[must_use]
pub fn row(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut row = String::with_capacity(text.len());
    for c in Unescaped::new(&text) {
        match c {
            '\t' => row.push(' '),
            c if is_harmful(c) => {}
            c => row.push(c),
        }
    }
    row.truncate(row.trim_end().len());
    row
}

/// Returns `text` cut to at most `max_chars` characters, the cut shown by `…`.
#[must_use]
pub fn bounded(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some(_) => {
            let mut cut: String = text.chars().take(max_chars.saturating_sub(1)).collect();
            cut.push('…');
            cut
        }
    }
}

/// Control characters, and the marks that reorder text on a screen.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The characters of a text without its escape sequences (ECMA-48: CSI, OSC and its kin, and
/// the two-character ones).
struct Unescaped<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

impl<'a> Unescaped<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            chars: text.chars().peekable(),
        }
    }

    fn skip_csi(&mut self) {
        while let Some(&c) = self.chars.peek() {
            match c {
                '\u{20}'..='\u{3f}' => {
                    self.chars.next();
                }
                '\u{40}'..='\u{7e}' => {
                    self.chars.next();
                    return;
                }
                _ => return,
            }
        }
    }

    /// A string ends with BEL, ST or `ESC \`; one that never ends takes the rest with it.
    fn skip_string(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '\u{7}' | '\u{9c}' => return,
                '\u{1b}' => {
                    self.chars.next_if_eq(&'\\');
                    return;
                }
                _ => {}
            }
        }
    }

    fn skip_escape(&mut self) {
        match self.chars.next() {
            Some('[') => self.skip_csi(),
            Some(']' | 'P' | 'X' | '^' | '_') => self.skip_string(),
            Some('\u{20}'..='\u{2f}') => {
                while self
                    .chars
                    .next_if(|c| ('\u{20}'..='\u{2f}').contains(c))
                    .is_some()
                {}
                self.chars.next_if(|c| ('\u{30}'..='\u{7e}').contains(c));
            }
            Some(_) | None => {}
        }
    }
}

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.chars.next()? {
                '\u{1b}' => self.skip_escape(),
                '\u{9b}' => self.skip_csi(),
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.skip_string(),
                c => return Some(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(one_line(bytes, 20), expected);
    }

    #[test]
    fn escapes_and_controls_go_and_text_stays() {
        check(b"plain", "plain");
        check("§ 日本 🎉".as_bytes(), "§ 日本 🎉");
        check(b"\x1b[31mred\x1b[0m", "red");
        check(b"\x1b]0;title\x07after", "after");
        check(b"\x1b]0;title\x1b\\after", "after");
        check(b"\x1bPq#0\x1b\\after", "after");
        check(b"\x1b(Bascii", "ascii");
        check(b"a\tb\nc\rd", "a b c d");
        check(b"a\0b\x7fc\x08d", "abcd");
        check("\u{9b}31mred".as_bytes(), "red");
        check("evil\u{202e}txt".as_bytes(), "eviltxt");
        check(b"\xff\xfe", "\u{fffd}\u{fffd}");
        check(b"\x1b", "");
        check(b"\x1b[", "");
        check(b"\x1b]never ends", "");
    }

    #[test]
    fn a_cut_is_shown() {
        check(b"0123456789012345678901234", "0123456789012345678…");
        check(b"01234567890123456789", "01234567890123456789");
    }

    #[test]
    fn a_row_keeps_its_indent() {
        assert_eq!(row(b"  two\x1b[0m  "), "  two");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_become_proven_text(bytes: Vec<u8>) {
            let line = one_line(&bytes, 40);
            proptest::prop_assert!(line.chars().count() <= 40);
            proptest::prop_assert!(!line.chars().any(is_harmful));
            proptest::prop_assert_eq!(one_line(line.as_bytes(), 40), line);
        }
    }
}
