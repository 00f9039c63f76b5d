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

/// Returns the row above the choices at the end of these rows that are counted without a mark behind
/// the number, `1 red` and then `2 blue`; `None` where these rows do not end in such choices.
pub(super) fn above_counted(rows: &[String]) -> Option<usize> {
    let number = |row: &String| -> Option<usize> {
        let (number, choice) = row.trim().split_once(char::is_whitespace)?;
        let is_counted = number.len() <= 3 && number.bytes().all(|c| c.is_ascii_digit());
        (is_counted && !choice.is_empty())
            .then(|| number.parse().ok())
            .flatten()
    };
    let last = number(rows.last()?).filter(|last| *last >= 2)?;
    let heading = rows.len().checked_sub(last + 1)?;
    let choices = rows[heading + 1..].iter().zip(1..);
    let mut are_counted = choices.map(|(row, n)| number(row) == Some(n));
    are_counted.all(|is_counted| is_counted).then_some(heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_counted_from_one_below_their_heading() {
        let check = |rows: &[&str], expected: Option<usize>| {
            let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
            assert_eq!(above_counted(&rows), expected, "{rows:?}");
        };
        check(&["x", "Which?", "  1 red", "  2 blue"], Some(1));
        check(&["Which?", "1 red"], None);
        check(&["1 red", "2 blue"], None);
        check(&["Which?", "2 red", "3 blue"], None);
        check(&["Which?", "1 red", "2"], None);
        check(&["Which?", "1 red", "and", "2 blue"], None);
    }
}
