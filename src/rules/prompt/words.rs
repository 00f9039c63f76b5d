//! What the rules about text share: classes of characters, words at the ends of a text, patterns, and
//! which lines only report something.
//!
//! A regular expression has a class of Unicode in full, and again for each repetition that it
//! counts. What begins or ends with one of many words takes less memory and time here.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind};

/// Whether the character is a mark that belongs to the one before it: `\p{M}`.
pub(super) fn is_mark(c: char) -> bool {
    /// Sorted ranges, whose ends belong to them.
    static MARKS: LazyLock<ClassUnicode> = LazyLock::new(|| {
        let class = regex_syntax::parse(r"\p{M}").map(Hir::into_kind);
        let Ok(HirKind::Class(Class::Unicode(class))) = class else {
            unreachable!("it is a class of Unicode");
        };
        class
    });
    let marks = MARKS.ranges();
    let after = marks.partition_point(|range| range.start() <= c);
    after > 0 && c <= marks[after - 1].end()
}

/// Whether the character belongs to a word.
pub(super) fn is_of_word(c: char) -> bool {
    match c.is_ascii() {
        true => c.is_ascii_alphanumeric() || c == '_',
        false => c.is_alphabetic() || is_mark(c),
    }
}

pub(super) fn are_letters(text: &str) -> bool {
    text.chars().all(char::is_alphabetic)
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
/// behind them. In place of each there may be other ones.
pub(super) fn after_words<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    words.iter().try_fold(text, |text, options| {
        let (word, rest) = split_word(text);
        let rest = is_one_of(word, options).then_some(rest)?;
        rest.starts_with(char::is_whitespace)
            .then(|| rest.trim_start())
    })
}

/// Whether the word is one of these ASCII words, in upper or lower case. A list of words is a text with
/// blanks between them.
pub(super) fn is_one_of(word: &str, words: &str) -> bool {
    words
        .split(' ')
        .any(|other| other.eq_ignore_ascii_case(word))
}

/// Whether the text ends with this ASCII text, in upper or lower case.
pub(super) fn ends_with(text: &str, end: &str) -> bool {
    text.len()
        .checked_sub(end.len())
        .and_then(|at| text.get(at..))
        .is_some_and(|text| text.eq_ignore_ascii_case(end))
}

// How patterns are compiled. One has a class of Unicode (`\w`, `\d`, `\p{L}`), hundreds of ranges, in full
// for each repetition that is counted. So those that need no more than ASCII words are matched against a
// text in which [`plain`] has replaced all others.

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

/// Defines patterns, which this function compiles at their first use.
macro_rules! patterns {
    ($compile:ident: $($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* static $name: LazyLock<Regex> = LazyLock::new(|| $compile($text));)*
    };
}

pub(super) use patterns;

/// Returns the text with `_` for each character of words that is not ASCII.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let is_other = |c: char| !c.is_ascii() && is_of_word(c);
    if text.is_ascii() || !text.contains(is_other) {
        return Cow::Borrowed(text);
    }
    let plain = |c| if is_other(c) { '_' } else { c };
    Cow::Owned(text.chars().map(plain).collect())
}

// Lines that end with a colon and report something, or show progress: they are no labels.

const LOG_WORDS: &str = "\
    error warn warning info debug note notice trace fatal hint usage remote stderr stdout output \
    result status time";

/// Whether the line is one of a log or of progress: these also leave the cursor behind a colon.
pub(super) fn is_progress(text: &str) -> bool {
    static FIGURES: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\d%|\d{2}:\d{2}:\d{2}|level=|://[^\s'\x22]*:$"));
    static DATE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d{4}-\d{2}-\d{2}"));
    let start = from_first_word(text);
    let is_of_json = text[..text.len() - start.len()].contains('{');
    is_of_json || begins_progress(start) || DATE.is_match(start) || FIGURES.is_match(text)
}

fn begins_progress(text: &str) -> bool {
    let (word, rest) = split_word(text);
    // What follows behind exactly one space.
    let next = || rest.strip_prefix(' ').map_or("", |rest| split_word(rest).0);
    if ends_with(word, "ing") && word.len() > 3 && are_letters(word) {
        return true;
    }
    if is_one_of(word, LOG_WORDS) {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix([']', ')']).unwrap_or(rest);
        if rest.starts_with(':') {
            return true;
        }
    }
    is_one_of(word, "progress done total elapsed eta")
        || (is_one_of(word, "step")
            && next().chars().count() == 1
            && next().contains(char::is_numeric))
        || (is_one_of(word, "time") && is_one_of(next(), "taken elapsed left remaining spent"))
}

/// Whether it is a report before its figure: `epoch 3 loss:`, `Took 3.2s:`, `Server ready:`. A
/// label names what to type; it does not count and does not report a result.
pub(super) fn is_report(text: &str) -> bool {
    static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"\b(?:epoch|iter(?:ation)?|batch|round|phase|pass|attempt|try|run|case|worker|thread|job|chunk|layer|shard|rank|fold|trial|frame)s?\s*[#=]?\d",
            r"|\b\d+(?:[.,]\d+)?\s?(?:ns|[mµu]?s|secs?|seconds?|min|minutes?|h|hours?|[kmgt]i?b|bytes|files?|rows?|lines?|items?|tests?|errors?|warnings?)\b",
        ))
    });
    begins_report(from_first_word(text)) || ends_report(text) || COUNTS.is_match(text)
}

/// `Took`, `Finished in`, `Loaded 5`.
fn begins_report(text: &str) -> bool {
    const STARTS: &str = "took found built ran got wrote spent sent saw";
    let begins = |start: &str| {
        text.get(..start.len())
            .is_some_and(|text| is_one_of(text, start))
    };
    if STARTS.split(' ').any(begins) {
        return true;
    }
    let (word, rest) = split_word(text);
    let object = rest.trim_start();
    word.len() > 2
        && ends_with(word, "ed")
        && are_letters(word)
        && object.len() < rest.len()
        && (object.starts_with(char::is_numeric)
            || is_one_of(split_word(object).0, "in at to from with on by"))
}

/// `ready:`, `changed:`, `applied:`.
fn ends_report(text: &str) -> bool {
    const ENDS: &str = "\
        ready complete ok done success successful up down loss acc accuracy perplexity \
        throughput latency fps lr";
    let Some(text) = text.strip_suffix(':') else {
        return false;
    };
    let (_, word) = split_last_word(text.trim_end());
    if is_one_of(word, ENDS) {
        return true;
    }
    if !ends_with(word, "ed") {
        return false;
    }
    // `need` and `speed` report nothing.
    let stem = &word[..word.len() - 2];
    let mut front = stem.chars();
    match front.next_back() {
        Some('i' | 'I') if !front.as_str().is_empty() && are_letters(front.as_str()) => true,
        Some(last) => {
            is_of_word(last)
                && !matches!(last, 'e' | 'E')
                && front.as_str().chars().nth(1).is_some()
                && are_letters(front.as_str())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_from_both_ends() {
        assert_eq!(from_first_word("» “Été 3"), "Été 3");
        assert_eq!(from_first_word("…"), "");
        assert_eq!(split_word("Été 3"), ("Été", " 3"));
        assert_eq!(split_word(" 3"), ("", " 3"));
        assert_eq!(split_last_word("fort fahren"), ("fort ", "fahren"));
        assert_eq!(split_last_word("fahren?"), ("fahren?", ""));
        assert_eq!(
            after_words("Can  You say", &["may can", "you"]),
            Some("say")
        );
        assert_eq!(after_words("Can you", &["can", "you"]), None);
        assert_eq!(after_words("Canny you", &["can"]), None);
        assert!(begins_report("RANdom") && !begins_report("é"));
        assert!(ends_with("shutTING", "ting") && !ends_with("ing", "ting") && !ends_with("é", "e"));
    }

    #[test]
    fn words_outside_ascii_are_replaced() {
        for (text, expected) in [
            ("Go on? [y/N] │ →", "Go on? [y/N] │ →"),
            ("Prüfe 日本 ٣%", "Pr_fe __ ٣%"),
            ("e\u{301}t", "e_t"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }
}
