//! Rows and fields that may contain arbitrary text.
//!
//! tmux itself quotes a field with `#{q:...}`: it puts a backslash before each character that
//! separates fields and rows, and before each backslash. So nothing in a name, a title or an option
//! can end its field, whoever wrote it.
//!
//! tmux 3.2 and 3.3 never free a text that they have quoted. So only a text that contains such a
//! character is quoted.

use crate::model::text;

/// Starts a row. This, [`FIELD`] and [`END`] are among the characters that all supported versions
/// of tmux quote: `` |&;<>()$`\"'*?[# =% ``.
const BEGIN: char = '<';
const FIELD: char = '|';
const END: char = '>';

/// Returns a format that prints a row of these fields. Fields with free text must be made by
/// [`quoted`], [`counter`] or [`expanded`].
pub(super) fn row_format(fields: &[&str]) -> String {
    format!("{BEGIN}{}{END}", fields.join(&FIELD.to_string()))
}

/// Returns a format that is true when this text contains any of these characters, as in a bracket of
/// a pattern, or when that cannot be known: with a C library such as glibc before 2.33, a text that is
/// not valid UTF-8 matches no pattern, not even `*`.
fn has_any(characters: &str, text: &str) -> String {
    format!("#{{||:#{{m:*[{characters}]*,{text}}},#{{!=:#{{m:*,{text}}},1}}}}")
}

/// Returns a format for the text of a variable or option. A line break is quoted as well, because the next
/// line could look like the end of tmux's answer.
pub(super) fn quoted(variable: &str) -> String {
    let text = format!("#{{{variable}}}");
    let must_be_quoted = has_any(&format!("{FIELD}{END}\\\\\n"), &text);
    format!("#{{?{must_be_quoted},#{{q:{variable}}},{text}}}")
}

/// Returns a format for an option that should contain numbers, blanks and `@`: a question mark where it
/// contains other characters, and nothing where it is `0`. The blank is for the end of the field to be
/// seen.
///
/// Most of these options are not set, and to search a text for characters takes tmux longer than all
/// the rest of a sign. So an option is searched only if it is set.
pub(super) fn counter(option: &str) -> String {
    let is_other = has_any("!0-9@ ", &format!("#{{{option}}}"));
    format!("#{{?{option},#{{?{is_other},?,#{{=40:{option}}}}},}} ")
}

/// Returns a format for text that other formats produce, which tmux cannot quote: separators are
/// removed from it. [`is_dropped`] says which these are.
pub(super) fn expanded(format: &str) -> String {
    format!("#{{s/[{BEGIN}{FIELD}{END}\\]//:{format}}}")
}

/// Whether [`expanded`] removes this character.
pub(super) fn is_dropped(c: char) -> bool {
    matches!(c, BEGIN | FIELD | END | '\\')
}

/// Parses the rows of an answer; `None` when one of them is cut, or `read` cannot parse it. Lines
/// between rows, which a user's hook may print, are skipped.
pub(super) fn read_rows<T>(text: &str, read: impl Fn(&mut Fields) -> Option<T>) -> Option<Vec<T>> {
    let mut rows = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        rest = match rest.strip_prefix(BEGIN) {
            Some(row) => {
                let (fields, after) = split_row(row)?;
                rows.push(read(&mut Fields(fields.into_iter()))?);
                after
            }
            None => rest.split_once('\n').map_or("", |(_, after)| after),
        };
    }
    Some(rows)
}

/// Returns the fields of a row and the rest behind it; `None` when the row does not end.
fn split_row(row: &str) -> Option<(Vec<Vec<u8>>, &str)> {
    let mut fields = Vec::new();
    let mut field = Vec::new();
    let mut chars = row.chars();
    let mut utf8 = [0; 4];
    loop {
        match chars.next()? {
            FIELD => fields.push(std::mem::take(&mut field)),
            END => {
                fields.push(field);
                return Some((fields, chars.as_str()));
            }
            '\\' => chars = unescape(chars.as_str(), &mut field).chars(),
            c => field.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
}

/// Returns the value of an option as `show-options` prints it: in quotes where it has more than a word.
pub(super) fn unquoted(printed: &str) -> Vec<u8> {
    let inside = |quote| printed.strip_prefix(quote)?.strip_suffix(quote);
    let mut rest = inside('"').or_else(|| inside('\'')).unwrap_or(printed);
    let mut value = Vec::with_capacity(rest.len());
    while let Some((before, escaped)) = rest.split_once('\\') {
        value.extend_from_slice(before.as_bytes());
        rest = unescape(escaped, &mut value);
    }
    value.extend_from_slice(rest.as_bytes());
    value
}

/// Adds the byte that is written behind a backslash, and returns the text behind it. Letters and
/// digits are never quoted: there some versions of tmux have written a control character as three
/// octal digits or as a letter, as in C. Everything else is quoted literally.
fn unescape<'a>(text: &'a str, value: &mut Vec<u8>) -> &'a str {
    let octal = |byte: &u8| (b'0'..=b'7').contains(byte);
    let (byte, length) = match text.as_bytes() {
        [first @ b'0'..=b'3', second, third, ..] if octal(second) && octal(third) => (
            (first - b'0') << 6 | (second - b'0') << 3 | (third - b'0'),
            3,
        ),
        [b'0', ..] => (0, 1),
        [b'a', ..] => (7, 1),
        [b'b', ..] => (8, 1),
        [b't', ..] => (b'\t', 1),
        [b'n', ..] => (b'\n', 1),
        [b'v', ..] => (0x0b, 1),
        [b'f', ..] => (0x0c, 1),
        [b'r', ..] => (b'\r', 1),
        _ => {
            let (literal, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
            value.extend_from_slice(literal.as_bytes());
            return rest;
        }
    };
    value.push(byte);
    &text[length..]
}

/// The fields of a row, in order.
pub(super) struct Fields(std::vec::IntoIter<Vec<u8>>);

impl Fields {
    /// Returns the next field as one line of sanitised text.
    pub(super) fn text(&mut self) -> Option<String> {
        Some(text::one_line(&self.0.next()?, 4096))
    }

    /// Returns the next field as the name of a session, sanitised.
    pub(super) fn session_name(&mut self) -> Option<String> {
        Some(text::session_name(&self.0.next()?, 4096))
    }

    /// Returns the next field unchanged.
    pub(super) fn raw(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.0.next()?).into_owned())
    }

    /// Returns the next field as a text; `None` inside when it is empty.
    pub(super) fn some_text(&mut self) -> Option<Option<String>> {
        self.text().map(|text| (!text.is_empty()).then_some(text))
    }

    pub(super) fn parse<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.raw()?.parse().ok()
    }

    /// Returns the next field as a number; `None` inside when it is not one.
    pub(super) fn maybe<T: std::str::FromStr>(&mut self) -> Option<Option<T>> {
        self.raw().map(|field| field.trim().parse().ok())
    }

    pub(super) fn are_over(&self) -> bool {
        self.0.len() == 0
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        self.raw().map(|field| field == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Option<Vec<Vec<String>>> {
        read_rows(text, |fields| {
            Some(std::iter::from_fn(|| fields.raw()).collect())
        })
    }

    /// Quotes as tmux does.
    fn quote(text: &str) -> String {
        let quoted = text.chars().map(|c| {
            let is_quoted = "|&;<>()$`\\\"'*?[# =%".contains(c);
            format!("{}{c}", if is_quoted { "\\" } else { "" })
        });
        quoted.collect()
    }

    #[track_caller]
    fn check(text: &str, rows: &[&[&str]]) {
        let read = texts(text).unwrap();
        assert_eq!(read, rows, "{text:?}");
    }

    #[test]
    fn rows_are_separate_from_their_contents() {
        check("", &[]);
        check("<a|b>\n<c|>\n", &[&["a", "b"], &["c", ""]]);
        check("<a><b>", &[&["a"], &["b"]]);
        check("hello\n<a>\nof a hook <b>\n", &[&["a"]]);
        check("<one\n<two|>", &[&["one\n<two", ""]]);
        let evil = "\n<@9|%9|0>\n<\\";
        check(&format!("<{}|x>", quote(evil)), &[&[evil, "x"]]);
        // As versions of tmux print control characters.
        let controls = &["\u{1b}[31m\r\0x", "\\033"];
        check("<\\033[31m\\r\\0x|\\\\033>", &[controls]);
        check("<\\303\\251|\\é>", &[&["é", "é"]]);
    }

    #[test]
    fn a_row_that_does_not_end_is_an_error() {
        for cut in ["<", "<a|b", "<a\\", "<a\\>", "<a>\n<b"] {
            assert_eq!(texts(cut), None, "{cut:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_field_is_what_was_quoted(values: Vec<String>, next: String) {
            // tmux does not quote what it may print as octal digits.
            let row = |values: &[String]| {
                let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
                format!("<{}>\n", quoted.join("|"))
            };
            let values = [values, vec![String::new()]].concat();
            let both = row(&values) + &row(std::slice::from_ref(&next));
            proptest::prop_assert_eq!(texts(&both), Some(vec![values, vec![next]]));
        }

        #[test]
        fn any_answer_is_read_or_refused(answer: String) {
            if let Some(rows) = texts(&answer) {
                proptest::prop_assert!(rows.len() <= answer.len());
            }
        }
    }
}
