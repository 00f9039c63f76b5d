//! How the rules about text compile their patterns.
//!
//! A class of Unicode (`\w`, `\d`, `\p{L}`) has hundreds of ranges, and a pattern has it in full for
//! each repetition that is counted. So patterns that need no more than ASCII words are matched
//! against a text in which [`plain`] has replaced all others.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};

use super::words::{DIGIT, is_of_word};

/// The largest pattern, in bytes: what a rule has compiled is kept.
const LARGEST: usize = 128 << 10;

/// Returns a case-insensitive pattern that is compiled at its first use.
pub(super) fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text)
        .case_insensitive(true)
        .size_limit(LARGEST)
        .build()
        .expect("a constant pattern compiles")
}

/// The same for a pattern that is matched against [`plain`] text: `\b` is a boundary of ASCII words,
/// and `[[:word:]]` stands for `\w`, `[0-9]` for `\d`.
pub(super) fn plain_pattern(text: &str) -> Regex {
    pattern(&text.replace(r"\b", r"(?-u:\b)"))
}

/// Returns the text with `_` for each character of words that is not ASCII, and `0` for such digits.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let is_other = |c: char| !c.is_ascii() && is_of_word(c);
    if text.is_ascii() || !text.contains(is_other) {
        return Cow::Borrowed(text);
    }
    let plain = |c| match c {
        c if !is_other(c) => c,
        c if DIGIT.has(c) => '0',
        _ => '_',
    };
    Cow::Owned(text.chars().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_outside_ascii_are_replaced() {
        for (text, expected) in [
            ("Go on? [y/N] │ →", "Go on? [y/N] │ →"),
            ("Prüfe 日本 ٣%", "Pr_fe __ 0%"),
            ("e\u{301}t", "e_t"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }
}
