//! How the rules about text compile their patterns.

use regex::{Regex, RegexBuilder};

/// A pattern that is compiled at its first use, whatever the case of the letters.
pub(super) fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text)
        .case_insensitive(true)
        .size_limit(4 << 20)
        .build()
        .expect("a constant pattern compiles")
}
