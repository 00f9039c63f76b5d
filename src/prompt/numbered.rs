//! Rows of numbered or lettered choices.

/// Whether a row starts with the number or letter of a choice: `1) Install`, ` 2. Quit`, `q) Quit`.
pub(super) fn is_numbered(row: &str) -> bool {
    let row = row.trim_start();
    // Letters, as in `n) New remote` and `a. sword`.
    if let Some((letter, rest)) = row.split_once([')', '.'])
        && letter.len() == 1
        && letter.starts_with(|c: char| c.is_ascii_lowercase())
    {
        return rest.starts_with(' ');
    }
    let row = row.trim_start_matches(['(', '[']);
    let digits = row.chars().take_while(char::is_ascii_digit).count();
    let rest = &row[digits..];
    (1..=3).contains(&digits)
        && rest.starts_with([')', '.', ':', ']'])
        && rest[1..].starts_with(char::is_whitespace)
}
