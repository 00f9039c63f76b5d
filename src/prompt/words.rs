//! Classes of characters, as regular expressions have them, and words at the ends of a text.
//!
//! A regular expression has a class of Unicode in full, and again for each repetition that it
//! counts. What begins or ends with one of many words takes less memory and time here.

use std::sync::LazyLock;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicodeRange, HirKind};

/// A class of characters: sorted ranges, whose ends belong to them.
pub(super) struct CharClass(Vec<(char, char)>);

/// `\p{L}`.
pub(super) static LETTER: LazyLock<CharClass> = LazyLock::new(|| CharClass::parse(r"\p{L}"));

/// `\p{M}`.
pub(super) static MARK: LazyLock<CharClass> = LazyLock::new(|| CharClass::parse(r"\p{M}"));

/// `\w`.
static WORD: LazyLock<CharClass> = LazyLock::new(|| CharClass::parse(r"\w"));

/// `\d`.
pub(super) static DIGIT: LazyLock<CharClass> = LazyLock::new(|| CharClass::parse(r"\d"));

impl CharClass {
    fn parse(text: &str) -> Self {
        let class = ParserBuilder::new()
            .case_insensitive(true)
            .build()
            .parse(text)
            .expect("a constant class is valid");
        let HirKind::Class(Class::Unicode(class)) = class.into_kind() else {
            unreachable!("{text} is a class of Unicode");
        };
        let range = |range: &ClassUnicodeRange| (range.start(), range.end());
        Self(class.ranges().iter().map(range).collect())
    }

    /// Whether it has this character.
    pub(super) fn has(&self, c: char) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= c);
        after > 0 && c <= self.0[after - 1].1
    }

    /// Whether it has all of these characters.
    pub(super) fn has_all(&self, text: &str) -> bool {
        text.chars().all(|c| self.has(c))
    }
}

/// Whether the character belongs to a word: `\w`.
pub(super) fn is_of_word(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || c == '_'
    } else {
        WORD.has(c)
    }
}

/// Returns the text from its first word on.
pub(super) fn from_first_word(text: &str) -> &str {
    text.trim_start_matches(|c| !is_of_word(c))
}

/// Returns the word at the very start of the text, empty when there is none, and what follows it.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c| !is_of_word(c)).unwrap_or(text.len()))
}

/// Returns what is before the word at the very end of the text, and that word, empty when there is
/// none.
pub(super) fn split_last_word(text: &str) -> (&str, &str) {
    text.split_at(text.trim_end_matches(is_of_word).len())
}

/// Returns what follows these words at the very start of the text, with white space between and
/// behind them.
pub(super) fn after_words<'t>(text: &'t str, words: &[&[&str]]) -> Option<&'t str> {
    words.iter().try_fold(text, |text, options| {
        let (word, rest) = split_word(text);
        let rest = is_one_of(word, options).then_some(rest)?;
        rest.starts_with(char::is_whitespace)
            .then(|| rest.trim_start())
    })
}

/// Whether the word is one of these ASCII words, in upper or lower case.
pub(super) fn is_one_of(word: &str, options: &[&str]) -> bool {
    options
        .iter()
        .any(|option| option.eq_ignore_ascii_case(word))
}

/// Whether the text begins with this ASCII text, in upper or lower case.
pub(super) fn begins_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|text| text.eq_ignore_ascii_case(start))
}

/// Whether the text ends with this ASCII text, in upper or lower case.
pub(super) fn ends_with(text: &str, end: &str) -> bool {
    text.len()
        .checked_sub(end.len())
        .and_then(|at| text.get(at..))
        .is_some_and(|text| text.eq_ignore_ascii_case(end))
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    /// The classes have what regular expressions say, for all characters.
    #[test]
    fn classes_are_those_of_regular_expressions() {
        let compile = |text| Regex::new(text).expect("a class");
        let (letter, word, digit) = (
            compile(r"^(?i:\p{L})$"),
            compile(r"^(?i:\w)$"),
            compile(r"^(?i:\d)$"),
        );
        let mut buffer = [0; 4];
        for c in '\0'..=char::MAX {
            let text = c.encode_utf8(&mut buffer);
            assert_eq!(LETTER.has(c), letter.is_match(text), "{c:?}");
            assert_eq!(is_of_word(c), word.is_match(text), "{c:?}");
            assert_eq!(DIGIT.has(c), digit.is_match(text), "{c:?}");
        }
    }

    #[test]
    fn words_are_taken_from_both_ends() {
        assert_eq!(from_first_word("» “Été 3"), "Été 3");
        assert_eq!(from_first_word("…"), "");
        assert_eq!(split_word("Été 3"), ("Été", " 3"));
        assert_eq!(split_word(" 3"), ("", " 3"));
        assert_eq!(split_last_word("fort fahren"), ("fort ", "fahren"));
        assert_eq!(split_last_word("fahren?"), ("fahren?", ""));
        assert_eq!(
            after_words("Can  You say", &[&["may", "can"], &["you"]]),
            Some("say")
        );
        assert_eq!(after_words("Can you", &[&["can"], &["you"]]), None);
        assert_eq!(after_words("Canny you", &[&["can"]]), None);
        assert!(begins_with("RANdom", "ran") && !begins_with("é", "e"));
        assert!(ends_with("shutTING", "ting") && !ends_with("ing", "ting") && !ends_with("é", "e"));
    }
}
