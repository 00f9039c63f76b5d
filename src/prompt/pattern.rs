//! How the rules about text compile their patterns.

use regex::{Regex, RegexBuilder};

/// Returns a case-insensitive pattern that is compiled at its first use.
pub(super) fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text)
        .case_insensitive(true)
        .size_limit(4 << 20)
        .build()
        .expect("a constant pattern compiles")
}
