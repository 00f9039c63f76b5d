//! Sizes and durations, and the words of the errors of files.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

use crate::files::{Fault, RefusedFile};
use crate::model::{Error, text};

/// The maximum size of a file that the user writes.
pub(super) const MAX_BYTES: u64 = 1 << 20;

pub(super) fn wrong(text: &str, why: &str) -> String {
    format!("`{}` {why}", quotable(text))
}

/// Returns the text if it is right, else why it is not.
pub(super) fn if_right(text: &str, is_right: bool, why: &str) -> Result<String, String> {
    match is_right {
        true => Ok(text.to_owned()),
        false => Err(wrong(text, why)),
    }
}

/// `"a"`, `"a" and "b"`, `"a", "b" and "c"`, with these quotes and this word.
pub(super) fn enumerate<'a>(
    words: impl Iterator<Item = &'a str>,
    quote: char,
    and: &str,
) -> String {
    let quoted: Vec<String> = words.map(|word| format!("{quote}{word}{quote}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} {and} {last}", before.join(", ")),
        None => String::new(),
    }
}

pub(super) fn absolute_file(path: &str) -> Result<PathBuf, String> {
    let is_absolute = Path::new(path).is_absolute();
    if_right(path, is_absolute, "is not an absolute path").map(PathBuf::from)
}

/// Parses a size, a whole number of `KiB`, `MiB`, `GiB` or `TiB`, in bytes; `None` if it is none or too large.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let mut units = units.iter();
    let (number, bits) = units.find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)))?;
    let is_whole = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_whole)?;
    number.checked_mul(1 << bits)
}

/// Parses a duration: numbers with the units `ms`, `s`, `m`, `h` and `d`, the largest unit first,
/// such as `500ms`, `1.5m`, `1m30s` or `30d`. A number alone is seconds. A number of days is whole.
/// `None` when it is not a duration, or too long.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    // `-1s`, `1h ago` and `1 h, 2 m` are durations for the parser, but not wanted here, and neither are weeks.
    let is_other = |c: char| !c.is_ascii_alphabetic() && !is_of_number(c);
    if text.contains(is_other) {
        return None;
    }
    let zero = if text.starts_with('.') { "0" } else { "" };
    let is_number = text.chars().all(is_of_number);
    let unit = if is_number { "s" } else { "" };
    let span: Span = format!("{zero}{text}{unit}").parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    duration.try_into().ok().filter(|_| span.get_weeks() == 0)
}

pub(crate) fn read_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text);
    duration.ok_or_else(|| format!("`{text}` is not a duration like 500ms, 2s, 1.5m or 1h"))
}

pub(crate) fn read_time(text: &str) -> Result<Duration, String> {
    let duration = read_duration(text)?;
    match duration.is_zero() {
        true => Err(format!("`{text}` must be more than zero")),
        false => Ok(duration),
    }
}

/// Returns the error for a file with this problem, which includes the key.
pub(super) fn invalid(path: &Path, line: u32, problem: impl Display) -> Error {
    Error::failed(format!("{}:{line}: {problem}", path.display()))
}

/// Returns the line, from 1, of the byte at `offset`.
pub(super) fn line_of(text: &[u8], offset: usize) -> u32 {
    let before = &text[..offset.min(text.len())];
    let n_ends = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(n_ends + 1).unwrap_or(u32::MAX)
}

pub(super) fn not_utf8(path: &Path, error: &FromUtf8Error) -> Error {
    let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
    invalid(path, line, "not UTF-8")
}

/// Returns the error for a file that is there and not usable. `variable` can name another one.
pub(super) fn unreadable(path: &Path, error: &io::Error, variable: Option<&str>) -> Error {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(refused): Option<&RefusedFile> = refused else {
        let path = path.display();
        return Error::io(format_args!("{path}: could not be read"), error);
    };
    let advice = match (refused.fault, variable) {
        (Fault::Writable(_), _) => "; `chmod go-w` closes it".to_owned(),
        (_, Some(variable)) => format!("; name a file of yours with ${variable}"),
        (_, None) => String::new(),
    };
    Error::failed(format!("{refused}{advice}"))
}

/// The maximum length of what an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 100;

/// Returns a key, a value or a parser's message as an error repeats it: one sanitised line.
pub(super) fn quotable(text: &str) -> String {
    text::one_line(text.as_bytes(), MAX_QUOTED_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_as_in_a_sentence() {
        let words = ["a", "b", "c"];
        let listed = [0, 1, 2, 3].map(|n| enumerate(words.into_iter().take(n), '"', "and"));
        let expected = ["", r#""a""#, r#""a" and "b""#, r#""a", "b" and "c""#];
        assert_eq!(listed, expected);
    }

    #[test]
    fn sizes_are_whole_numbers_with_a_binary_unit() {
        let sizes = ["1KiB", "64MiB", "2GiB", "1TiB"].map(parse_size);
        assert_eq!(sizes, [1 << 10, 64 << 20, 2 << 30, 1 << 40].map(Some));
        for text in [
            "64",
            "64MB",
            "64 MiB",
            "1.5GiB",
            "+1GiB",
            "MiB",
            "99999999999TiB",
        ] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_numbers_with_units_or_seconds() {
        let ms = |text| parse_duration(text).map(|duration| duration.as_millis());
        let right = "0s=0 200ms=200 0=0 10=10000 1.5=1500 .5=500 20s=20000 1.5m=90000 .5s=500 1m30s=90000 \
                     2h=7200000 168h=604800000 1h30m5s250ms=5405250 0d=0 30d=2592000000 1d12h=129600000";
        for (text, expected) in right.split(' ').filter_map(|case| case.split_once('=')) {
            assert_eq!(ms(text), expected.parse().ok(), "{text}");
        }
        let wrong = "s . 1h30 1d12 -1s 1.5d d 1h1d 1d1d 99999999999999999999d 1e9s nan 30s1m .s +1s \
                     99999999999999999999m ١s";
        for text in wrong.split(' ').chain(["", "1s ago", "1 s"]) {
            assert_eq!(ms(text), None, "{text:?}");
        }
    }
}
