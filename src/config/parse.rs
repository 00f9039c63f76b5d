//! Parses the text of the file and explains errors.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path as KeyPath, Segment};
use toml::de::{DeTable, DeValue};

use super::Config;
use super::error::{invalid, quotable};
use crate::model::{Error, text};

/// The maximum length of everything an error says about a value, in characters.
const MAX_PROBLEM_CHARS: usize = 300;

/// Returns the settings in `text`. `path` is only used in errors.
///
/// # Errors
///
/// When the text is not TOML, contains an unknown key, or a value that its key does not accept.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    parse_as(path, text)
}

/// Returns what is in `text`, as [`parse`] does.
pub(super) fn parse_as<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Error> {
    let invalid = |at: usize, problem: &str| {
        let problem = text::one_line(problem.as_bytes(), MAX_PROBLEM_CHARS);
        invalid(path, line_of(text.as_bytes(), at), problem)
    };
    // The parser continues after an error, and later errors may be consequences of it.
    let (table, errors) = DeTable::parse_recoverable(text);
    if let Some(error) = errors.iter().min_by_key(|error| start(error)) {
        return Err(invalid(start(error), error.message()));
    }
    serde_path_to_error::deserialize(toml::Deserializer::from(table)).map_err(|error| {
        let problem = explain(text, error.path(), error.inner());
        let item = item_start(text, error.path()).unwrap_or_default();
        invalid(start(error.inner()).max(item), &problem)
    })
}

/// Returns where the item of a list begins that the path leads through. Of an error about a whole item,
/// such as the second table `sink`, serde knows only where the list begins.
fn item_start(text: &str, at: &KeyPath) -> Option<usize> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut value = &DeValue::Table(table.into_inner());
    let mut start = None;
    for segment in at {
        let inner = match segment {
            Segment::Map { key } => value.get(key.as_str()),
            Segment::Seq { index } => value.get(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(inner) = inner else { break };
        if matches!(segment, Segment::Seq { .. }) {
            start = Some(inner.span().start);
        }
        value = inner.get_ref();
    }
    start
}

/// Returns the line, from 1, of the byte at `offset`.
pub(super) fn line_of(text: &[u8], offset: usize) -> u32 {
    let before = &text[..offset.min(text.len())];
    let n_ends = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(n_ends + 1).unwrap_or(u32::MAX)
}

fn start(error: &toml::de::Error) -> usize {
    error.span().map_or(usize::MAX, |span| span.start)
}

/// Explains what is wrong with a key or its value, from serde's error.
fn explain(text: &str, at: &KeyPath, error: &toml::de::Error) -> String {
    let names: Vec<&str> = at.iter().filter_map(name_of).collect();
    let quoted: Vec<String> = names.iter().map(|name| quotable(name)).collect();
    let key = quoted.join(".");
    let message = error.message();
    if let Some(fields) = message.strip_prefix("unknown field ") {
        let name = names.last().copied().unwrap_or_default();
        let meant = closest(name, known_keys(fields, name))
            .map(|known| format!("; did you mean `{known}`?"));
        return format!("unknown key `{key}`{}", meant.unwrap_or_default());
    }
    let invalid = message.strip_prefix("invalid ");
    if let Some((found, expected)) = invalid.and_then(|rest| rest.rsplit_once(", expected ")) {
        let Some(found) = found.strip_prefix("type: ") else {
            return format!("`{key}` must be {expected}");
        };
        let value = error.span().and_then(|span| text.get(span));
        let found = type_name(found, value.unwrap_or_default());
        let is_item = matches!(at.iter().next_back(), Some(Segment::Seq { .. }));
        let place = if is_item { " in the list" } else { "" };
        return format!("`{key}` must be {expected}, found {found}{place}");
    }
    if message.starts_with("does not ") || message.starts_with("must not ") {
        return format!("`{key}` {message}");
    }
    format!("`{key}`: {message}")
}

fn name_of(segment: &Segment) -> Option<&str> {
    match segment {
        // What `toml::Spanned` reads its value from.
        Segment::Map { key } if key.starts_with("$__") => None,
        Segment::Map { key } => Some(key),
        Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Returns TOML's name for a type of serde.
fn type_name<'a>(found: &'a str, value: &str) -> &'a str {
    // serde has no dates.
    if found == "map" && value.starts_with(|c: char| c.is_ascii_digit()) {
        return "a date";
    }
    let names = [
        ("string", "a string"),
        ("integer", "an integer"),
        ("floating point", "a float"),
        ("boolean", "a boolean"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    let name = names.iter().find(|(serde, _)| found.starts_with(serde));
    name.map_or(found, |(_, name)| name)
}

/// Returns the keys in serde's "`NAME`, expected one of `a`, `b`".
fn known_keys<'a>(fields: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let name_length = name.len() + "``".len();
    let known = fields.get(name_length..).unwrap_or_default();
    known.split('`').skip(1).step_by(2)
}

/// Returns the one of `known` that `key` is probably a misspelling of: up to a third of its letters
/// may differ.
fn closest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::osa_distance(&key.to_lowercase(), known), known))
        .filter(|(distance, known)| *distance <= known.chars().count() / 3)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_close_key_is_suggested() {
        let known = ["notices", "panel", "ui"];
        let check = |key, expected: Option<&str>| {
            assert_eq!(closest(key, known.into_iter()), expected, "{key}");
        };
        check("notice", Some("notices"));
        check("NOTICES", Some("notices"));
        check("noticse", Some("notices"));
        check("ntoices", Some("notices"));
        check("pannel", Some("panel"));
        check("note", None);
        check("up", None);
        check("", None);
        assert_eq!(closest("notice", [].into_iter()), None);
    }

    #[test]
    fn known_keys_are_found_whatever_the_unknown_one_is() {
        let check = |name: &str, expected: &[&str]| {
            for many in [", expected one of ", ", expected "] {
                let listed: Vec<String> = expected.iter().map(|key| format!("`{key}`")).collect();
                let fields = format!("`{name}`{many}{}", listed.join(", "));
                assert_eq!(known_keys(&fields, name).collect::<Vec<_>>(), expected);
            }
        };
        check("a", &["b", "c"]);
        check("`, expected `x", &["b"]);
        check("", &["b"]);
        check("é`", &["b", "c"]);
        assert_eq!(known_keys("", "a").count(), 0);
    }

    #[test]
    fn an_error_about_an_item_names_the_line_of_the_item() {
        #[track_caller]
        fn check(text: &str, expected: u32) {
            let error = parse(Path::new("config.toml"), text).unwrap_err();
            let place = format!("config.toml:{expected}: ");
            assert!(error.message.starts_with(&place), "{text}: {error}");
        }
        let first = "[[sink]]\nname = \"a\"\nexec = [\"/bin/a\"]\n";
        check(&format!("{first}\n[[sink]]\nname = \"b\"\n"), 5);
        check(&format!("{first}\n[[sink]]\nexec = [\"/bin/b\"]\n"), 5);
        check(&format!("{first}\n[[sink]]\nname = \"b\"\nnope = 1\n"), 7);
        check("[[sink]]\nname = \"a\"\n", 1);
        check(
            "sink = [\n{ name = \"a\", exec = [\"/bin/a\"] },\n{ name = \"b\" } ]\n",
            3,
        );
    }

    #[test]
    fn a_line_is_counted_by_its_ends() {
        let check = |offset, expected| assert_eq!(line_of(b"a\nb\n", offset), expected);
        check(0, 1);
        check(1, 1);
        check(2, 2);
        check(4, 3);
        check(99, 3);
    }
}
