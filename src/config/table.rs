//! Reading a TOML table key by key, so that what nobody asked for can be told.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::ConfigError;
use crate::model::text;

/// Most characters of a key, a word or a parser's message that an error repeats.
const MAX_QUOTED_CHARS: usize = 100;

/// A whole file, for its tables to name the place of what is wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Document<'a> {
    pub(super) fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text }
    }

    /// Reads the top table: `read` asks for keys, and what it did not ask for is unknown.
    pub(super) fn read<T>(
        self,
        read: impl FnOnce(&mut Table<'a>) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        // The parser goes on after an error, and what it says last may be of its own making.
        let (entries, errors) = DeTable::parse_recoverable(self.text);
        let start = |error: &toml::de::Error| error.span().map_or(usize::MAX, |span| span.start);
        if let Some(error) = errors.iter().min_by_key(|error| start(error)) {
            return Err(ConfigError::Syntax {
                path: self.path.to_owned(),
                line: line_of(self.text.as_bytes(), start(error)),
                message: quotable(error.message()),
            });
        }
        Table::read(self, String::new(), entries.into_inner(), read)
    }

    fn line(self, span: Range<usize>) -> u32 {
        line_of(self.text.as_bytes(), span.start)
    }
}

/// Returns the line, from 1, that the byte at `offset` stands on.
pub(super) fn line_of(text: &[u8], offset: usize) -> u32 {
    let before = &text[..offset.min(text.len())];
    let n_ends = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(n_ends + 1).unwrap_or(u32::MAX)
}

/// One table while it is read.
pub(super) struct Table<'a> {
    document: Document<'a>,
    /// What stands before a key of this table in messages: nothing, or `panel.`.
    prefix: String,
    /// What nobody has asked for yet.
    entries: DeTable<'a>,
    /// What was asked for: the keys that a misspelt one may have meant.
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn read<T>(
        document: Document<'a>,
        prefix: String,
        entries: DeTable<'a>,
        read: impl FnOnce(&mut Self) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        let mut table = Self {
            document,
            prefix,
            entries,
            asked: Vec::new(),
        };
        let value = read(&mut table)?;
        table.refuse_rest()?;
        Ok(value)
    }

    /// Returns the words of the list `key`, each one of `words`; `None` when it is not set.
    pub(super) fn words<T: Copy + Ord>(
        &mut self,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Result<Option<BTreeSet<T>>, ConfigError> {
        let Some((line, value)) = self.take(key) else {
            return Ok(None);
        };
        let allowed = list(words.iter().map(|(word, _)| *word));
        let wrong_type = |line, found| ConfigError::WrongType {
            path: self.document.path.to_owned(),
            line,
            key: self.full(key),
            expected: format!("a list of {allowed}"),
            found,
        };
        let DeValue::Array(items) = value else {
            return Err(wrong_type(line, type_of(&value).to_owned()));
        };
        let mut set = BTreeSet::new();
        for item in items {
            let line = self.document.line(item.span());
            let DeValue::String(word) = item.get_ref() else {
                let found = format!("{} in the list", type_of(item.get_ref()));
                return Err(wrong_type(line, found));
            };
            let Some((_, meaning)) = words.iter().find(|(known, _)| known == word) else {
                return Err(ConfigError::UnknownWord {
                    path: self.document.path.to_owned(),
                    line,
                    key: self.full(key),
                    word: quotable(word),
                    allowed,
                });
            };
            set.insert(*meaning);
        }
        Ok(Some(set))
    }

    /// Returns what `read` makes of the table `key`; an empty one when it is not set.
    pub(super) fn table<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        let prefix = format!("{}.", self.full(key));
        let entries = match self.take(key) {
            None => DeTable::new(),
            Some((_, DeValue::Table(entries))) => entries,
            Some((line, other)) => return Err(self.wrong_type(line, key, "a table", &other)),
        };
        Table::read(self.document, prefix, entries, read)
    }

    /// Returns what `parse` makes of each text of the list `key`, none when it is not set;
    /// `what` each is is said when one is not.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        what: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let expected = format!("a list of {what}");
        let items = match self.take(key) {
            None => return Ok(Vec::new()),
            Some((_, DeValue::Array(items))) => items,
            Some((line, other)) => return Err(self.wrong_type(line, key, &expected, &other)),
        };
        let mut texts = Vec::new();
        for item in items {
            let line = self.document.line(item.span());
            let DeValue::String(text) = item.get_ref() else {
                return Err(self.wrong_type(line, key, &expected, item.get_ref()));
            };
            texts.push(parse(text).map_err(|why| self.bad_value(line, key, &why))?);
        }
        Ok(texts)
    }

    /// Returns what `parse` makes of the text `key`; `None` when it is not set.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        what: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        match self.take(key) {
            None => Ok(None),
            Some((line, DeValue::String(text))) => parse(&text)
                .map(Some)
                .map_err(|why| self.bad_value(line, key, &why)),
            Some((line, other)) => Err(self.wrong_type(line, key, what, &other)),
        }
    }

    /// Returns the whole number `key`, which must be within these bounds.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ConfigError> {
        let (least, most) = (bounds.start(), bounds.end());
        let expected = format!("a whole number from {least} to {most}");
        match self.take(key) {
            None => Ok(None),
            Some((line, DeValue::Integer(number))) => {
                let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
                let within = number.filter(|number| bounds.contains(number));
                within
                    .map(Some)
                    .ok_or_else(|| self.bad_value(line, key, &format!("must be {expected}")))
            }
            Some((line, other)) => Err(self.wrong_type(line, key, &expected, &other)),
        }
    }

    fn wrong_type(&self, line: u32, key: &str, expected: &str, found: &DeValue<'_>) -> ConfigError {
        ConfigError::WrongType {
            path: self.document.path.to_owned(),
            line,
            key: self.full(key),
            expected: expected.to_owned(),
            found: type_of(found).to_owned(),
        }
    }

    fn bad_value(&self, line: u32, key: &str, why: &str) -> ConfigError {
        ConfigError::BadValue {
            path: self.document.path.to_owned(),
            line,
            key: self.full(key),
            why: quotable(why),
        }
    }

    /// Takes the value of `key` out of the table, with the line of the key.
    fn take(&mut self, key: &'static str) -> Option<(u32, DeValue<'a>)> {
        self.asked.push(key);
        let (key, value) = self.entries.remove_entry(key)?;
        Some((self.document.line(key.span()), value.into_inner()))
    }

    /// Refuses the first key that nobody asked for.
    fn refuse_rest(&self) -> Result<(), ConfigError> {
        let first = self.entries.keys().min_by_key(|key| key.span().start);
        first.map_or(Ok(()), |key| {
            Err(ConfigError::UnknownKey {
                path: self.document.path.to_owned(),
                line: self.document.line(key.span()),
                key: self.full(key.get_ref()),
                suggestion: closest(key.get_ref(), &self.asked),
            })
        })
    }

    fn full(&self, key: &str) -> String {
        format!("{}{}", self.prefix, quotable(key))
    }
}

fn quotable(text: &str) -> String {
    text::one_line(text.as_bytes(), MAX_QUOTED_CHARS)
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// `"a"`, `"a" and "b"`, `"a", "b" and "c"`.
fn list(words: impl Iterator<Item = &'static str>) -> String {
    let quoted: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Returns the one of `known` that `key` is probably a misspelling of: a third of its letters may
/// differ.
fn closest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    known
        .iter()
        .map(|known| (distance(&key.to_lowercase(), known), *known))
        .filter(|(distance, known)| *distance <= known.chars().count() / 3)
        .min()
        .map(|(_, known)| known)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour to make
/// `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Row i holds the distances between the first i letters of `a` and each beginning of `b`.
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        let check = |a, b, expected| assert_eq!(distance(a, b), expected, "{a} {b}");
        check("", "", 0);
        check("abc", "", 3);
        check("", "abc", 3);
        check("notice", "notices", 1);
        check("ntoices", "notices", 1);
        check("kitten", "sitting", 3);
    }

    #[test]
    fn only_a_close_key_is_suggested() {
        let known = ["notices", "panel", "ui"];
        let check = |key, expected| assert_eq!(closest(key, &known), expected, "{key}");
        check("notice", Some("notices"));
        check("NOTICES", Some("notices"));
        check("noticse", Some("notices"));
        check("pannel", Some("panel"));
        check("note", None);
        check("up", None);
        check("", None);
        assert_eq!(closest("notice", &[]), None);
    }

    #[test]
    fn words_are_listed_as_in_a_sentence() {
        let check = |words: &[&'static str], expected| {
            assert_eq!(list(words.iter().copied()), expected);
        };
        check(&[], "");
        check(&["a"], "\"a\"");
        check(&["a", "b"], "\"a\" and \"b\"");
        check(&["a", "b", "c"], "\"a\", \"b\" and \"c\"");
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
