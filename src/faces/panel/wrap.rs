//! Breaks a text into rows.

use crate::terminal::{columns_of, fitted};

/// Returns a text in rows of this many columns, broken at blanks where there are any. What does not
/// fit into `n` rows is cut.
pub(super) fn wrapped(text: &str, columns: usize, n: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut rest = text.trim();
    while rows.len() + 1 < n && columns_of(rest) > columns {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
        let fits = ends.take_while(|end| columns_of(&rest[..*end]) <= columns);
        let Some(fits) = fits.last() else {
            // Not even one character does.
            break;
        };
        let blank = rest[..fits].rfind(' ').filter(|at| *at > 0);
        let end = match blank {
            Some(blank) if !rest[fits..].starts_with(' ') => blank,
            Some(_) | None => fits,
        };
        let (row, next) = rest.split_at(end);
        rows.push(row.trim_end().to_owned());
        rest = next.trim_start();
    }
    rows.push(fitted(rest, columns));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_at_blanks_and_cut_at_the_end() {
        for (text, expected) in [
            ("", vec![""]),
            ("short", vec!["short"]),
            ("one two three", vec!["one two", "three"]),
            ("exactly8 then", vec!["exactly8", "then"]),
            ("unbreakable", vec!["unbreaka", "ble"]),
            ("日本語日本語", vec!["日本語日", "本語"]),
            (
                "one two three four five six",
                vec!["one two", "three", "four fi…"],
            ),
        ] {
            assert_eq!(wrapped(text, 8, 3), expected);
        }
        assert_eq!(wrapped("日本", 1, 3), ["…"]);
        assert_eq!(wrapped("text", 0, 3), [""]);
    }
}
