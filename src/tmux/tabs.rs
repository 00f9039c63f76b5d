//! Tabs in captured rows: newer versions of tmux (3.7c, 3.8) return them as tabs, older ones as
//! blanks. Counting columns needs the blanks.

use crate::model::text;
use crate::terminal::columns_of;

/// The distance between two tab stops. Where a program has set others, columns after its tabs are
/// wrong.
const STOP: usize = 8;

/// Returns a captured row, or a line of several joined rows, as sanitised text without tabs. The
/// last column of a row is a stop.
pub(super) fn row(bytes: &[u8], width: usize) -> String {
    if !bytes.contains(&b'\t') {
        return text::row(bytes);
    }
    let width = width.max(1);
    let line = String::from_utf8_lossy(bytes);
    let mut parts = line.split('\t');
    let mut row = parts.next().unwrap_or_default().to_owned();
    let mut columns = columns_of(&text::piece(row.as_bytes()));
    for part in parts {
        let at = columns % width;
        let stop = ((at / STOP + 1) * STOP).min(width - 1).max(at + 1);
        row.extend(std::iter::repeat_n(' ', stop - at));
        row.push_str(part);
        columns += stop - at + columns_of(&text::piece(part.as_bytes()));
    }
    text::row(row.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_become_blanks() {
        for (line, width, shown) in [
            ("a\tb", 80, "a       b"),
            ("\tb\t\tc", 80, "        b               c"),
            ("1234567\tb", 80, "1234567 b"),
            ("12345678\tb", 80, "12345678        b"),
            ("日\tb", 80, "日      b"),
            ("e\u{301}\tb", 80, "e\u{301}       b"),
            ("a\tb", 6, "a    b"),
            ("a\t", 80, "a"),
            // Two rows of ten columns.
            ("0123456789a\tb", 10, "0123456789a       b"),
            ("a\tb\u{1b}[31m", 0, "a b"),
        ] {
            assert_eq!(row(line.as_bytes(), width), shown, "{line:?}");
        }
    }
}
