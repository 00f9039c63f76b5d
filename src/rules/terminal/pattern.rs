use std::ops::Range;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

use super::row::{Line, Stamp};
use crate::model::Error;

/// The maximum size of a compiled pattern, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// How many bytes of old matches of one line are searched for newer matches that start within them.
/// Beyond it the search continues behind each match, so that a pattern like `a.*b` cannot take
/// quadratic time.
const OVERLAP_BUDGET: usize = 1 << 20;

/// A text or regular expression to find in lines.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// Literal texts as well: the regex crate searches for them just as fast.
    regex: Regex,
}

impl Pattern {
    /// Returns the pattern for a user's text: a literal text or a regular expression.
    /// Fails if it is empty, is no regular expression, needs too much memory or can never match.
    pub(crate) fn parse(text: &str, is_regex: bool, ignore_case: bool) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error::usage("an empty text matches everything"));
        }
        let can_match = if is_regex {
            // Invalid expressions are reported by `build`.
            regex_syntax::parse(text).map_or(true, |parsed| can_match_a_line(&parsed))
        } else {
            !text.contains(char::is_control)
        };
        if !can_match {
            return Err(Error::usage(format!(
                "{text:?} can never match: a line has no line ends, tabs or control characters"
            )));
        }
        if is_regex {
            Self::regex(text, ignore_case)
        } else {
            Ok(Self::literal(text, ignore_case))
        }
    }

    /// Returns a pattern that finds a text. With `ignore_case`, a text too large to compile (tens
    /// of thousands of characters) is searched case-sensitively.
    pub(crate) fn literal(text: &str, ignore_case: bool) -> Self {
        let escaped = regex::escape(text);
        let regex = build(&escaped, ignore_case)
            .or_else(|_| RegexBuilder::new(&escaped).size_limit(usize::MAX).build());
        Self {
            regex: regex.expect("escaped text is a regular expression"),
        }
    }

    /// Returns a pattern for a regular expression in the regex crate's syntax.
    pub(crate) fn regex(text: &str, ignore_case: bool) -> Result<Self, Error> {
        match build(text, ignore_case) {
            Ok(regex) => Ok(Self { regex }),
            Err(regex::Error::CompiledTooBig(_)) => Err(Error::usage(format!(
                "the regular expression `{text}` is too large"
            ))),
            Err(error) => {
                let why = syntax_problem(text).unwrap_or_else(|| error.to_string());
                Err(Error::usage(format!(
                    "`{text}` is not a regular expression: {why}"
                )))
            }
        }
    }

    /// Returns how much is searched for, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.regex.as_str().len()
    }

    /// Returns the first non-empty match that contains a cell written after `since`.
    ///
    /// Matches that start within an older one are found too. Trailing blanks that were written
    /// belong to the line for a pattern that needs them, but the range is always within
    /// [`Line::text`].
    pub(crate) fn find(&self, line: &Line<'_>, since: Stamp) -> Option<Range<usize>> {
        let text = line.text();
        let full = line.text_with_blanks();
        if !line.is_fresh(0..full.len(), since) {
            return None;
        }
        self.find_in(text, line, since).or_else(|| {
            let found = (full.len() > text.len())
                .then(|| self.find_in(full, line, since))
                .flatten()?;
            let range = found.start..found.end.min(text.len());
            (!range.is_empty()).then_some(range)
        })
    }

    fn find_in(&self, text: &str, line: &Line<'_>, since: Stamp) -> Option<Range<usize>> {
        let mut from = 0;
        let mut budget = OVERLAP_BUDGET;
        while from <= text.len() {
            let found = self.regex.find_at(text, from)?;
            if line.is_fresh(found.range(), since) {
                return Some(found.range());
            }
            budget = budget.saturating_sub(found.len());
            let first = text[found.start()..].chars().next()?;
            from = match budget {
                0 => found.end().max(found.start() + first.len_utf8()),
                _ => found.start() + first.len_utf8(),
            };
        }
        None
    }
}

/// Whether it matches some text without control characters.
fn can_match_a_line(parsed: &Hir) -> bool {
    match parsed.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => {
            !String::from_utf8_lossy(&literal.0).contains(char::is_control)
        }
        HirKind::Class(Class::Unicode(class)) => class
            .iter()
            .any(|range| (range.start()..=range.end()).any(|c| !c.is_control())),
        HirKind::Class(Class::Bytes(class)) => class
            .iter()
            .any(|range| (range.start()..=range.end()).any(|byte| !byte.is_ascii_control())),
        HirKind::Repetition(repetition) => repetition.min == 0 || can_match_a_line(&repetition.sub),
        HirKind::Capture(capture) => can_match_a_line(&capture.sub),
        HirKind::Concat(parts) => parts.iter().all(can_match_a_line),
        HirKind::Alternation(parts) => parts.iter().any(can_match_a_line),
    }
}

/// Returns what is wrong with a regular expression, in a few words: `unclosed group at 1`.
fn syntax_problem(text: &str) -> Option<String> {
    let (what, span) = match regex_syntax::parse(text).err()? {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), *error.span()),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), *error.span()),
        _ => return None,
    };
    let at = text.get(..span.start.offset)?.chars().count() + 1;
    Some(format!("{what} at {at}"))
}

fn build(text: &str, ignore_case: bool) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .case_insensitive(ignore_case)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .build()
}
