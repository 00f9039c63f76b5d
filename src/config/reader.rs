//! Reads a TOML file value by value, and collects what is wrong with it: unknown keys, wrong types and values
//! that a key does not accept, each with its line. The first one in the file is its error.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::named_path::NamedPath;
use super::value::{enumerate, invalid, line_of, parse_duration, quotable, wrong};
use crate::model::{Error, Ordered as _, text};

/// The maximum length of everything an error says about a value, in characters.
const MAX_PROBLEM_CHARS: usize = 300;

struct Document<'a> {
    path: &'a Path,
    text: &'a str,
    /// Where something is wrong, and what.
    problems: RefCell<Vec<(usize, String)>>,
}

impl Document<'_> {
    fn note(&self, start: usize, problem: impl Into<String>) {
        self.problems.borrow_mut().push((start, problem.into()));
    }

    /// Returns a path that stands here in the file, from the file's folder on.
    fn path_at(&self, start: usize, key: String, path: &str) -> NamedPath {
        NamedPath {
            path: self.path.parent().unwrap_or(Path::new("")).join(path),
            file: self.path.to_owned(),
            line: line_of(self.text.as_bytes(), start),
            key,
        }
    }

    fn n_problems(&self) -> usize {
        self.problems.borrow().len()
    }
}

/// Returns what `read` makes of a file with this text. `path` is for errors.
pub(super) fn read_document<T>(
    path: &Path,
    text: &str,
    read: impl FnOnce(&mut Table<'_>) -> T,
) -> Result<T, Error> {
    let document = Document {
        path,
        text,
        problems: RefCell::default(),
    };
    // The parser continues after an error, and later errors may be consequences of it.
    let (values, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let start = error.span().map_or(usize::MAX, |span| span.start);
        document.note(start, error.message());
    }
    if errors.is_empty() {
        let mut table = Table::of(&document, String::new(), values.get_ref(), 0);
        let read = read(&mut table);
        table.note_unknown_keys();
        if document.n_problems() == 0 {
            return Ok(read);
        }
    }
    let problems = document.problems.into_inner().into_iter();
    let (start, problem) = problems.min_by_key(|(start, _)| *start).unwrap_or_default();
    let problem = text::one_line(problem.as_bytes(), MAX_PROBLEM_CHARS);
    Err(invalid(path, line_of(text.as_bytes(), start), problem))
}

/// A table that is being read. The keys that are never asked for are unknown ones.
pub(super) struct Table<'a> {
    document: &'a Document<'a>,
    /// Its key as errors name it, with a dot behind it; empty for the file itself.
    prefix: String,
    values: &'a DeTable<'a>,
    start: usize,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn of(
        document: &'a Document<'a>,
        prefix: String,
        values: &'a DeTable<'a>,
        start: usize,
    ) -> Self {
        Self {
            document,
            prefix,
            values,
            start,
            known: Vec::new(),
        }
    }

    /// Returns what `read` makes of the value of a key; `None` if there is none, or it is wrong.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value<'_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(key);
        let value = self.values.get(key)?;
        read(&self.value(key, value))
    }

    pub(super) fn read_or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Value<'_>) -> Option<T>,
    ) -> T {
        self.read(key, read).unwrap_or(default)
    }

    /// Returns the items of the list of strings that a key has, see [`Value::list`]; none if it is left out.
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        self.read_or(key, Vec::new(), |value| value.list(expected, parse))
    }

    /// Returns what `read` makes of the table of a key, which is empty if it is left out.
    pub(super) fn table<T>(&mut self, key: &'static str, read: impl Fn(&mut Table<'_>) -> T) -> T {
        let found = self.read(key, |value| value.table("a table", |table| Ok(read(table))));
        let none = DeTable::new();
        found.unwrap_or_else(|| read(&mut Table::of(self.document, String::new(), &none, 0)))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Returns the folder of the file, as the path of a key that is left out.
    pub(super) fn path(&self, key: &str) -> NamedPath {
        let key = format!("{}{key}", self.prefix);
        self.document.path_at(self.start, key, "")
    }

    fn value<'b>(&'b self, key: &str, value: &'b Spanned<DeValue<'a>>) -> Value<'b> {
        Value {
            document: self.document,
            key: format!("{}{}", self.prefix, quotable(key)),
            start: value.span().start,
            value: value.get_ref(),
            is_item: false,
        }
    }

    fn note_unknown_keys(&self) {
        let is_known = |key: &Spanned<_>| self.known.iter().any(|known| known == key.get_ref());
        for key in self.values.keys().filter(|key| !is_known(key)) {
            let name = key.get_ref();
            let meant = closest(name, self.known.iter().copied());
            let meant = meant.map(|known| format!("; did you mean `{known}`?"));
            let (prefix, name, meant) = (&self.prefix, quotable(name), meant.unwrap_or_default());
            let problem = format!("unknown key `{prefix}{name}`{meant}");
            self.document.note(key.span().start, problem);
        }
    }
}

#[derive(Clone)]
pub(super) struct Value<'a> {
    document: &'a Document<'a>,
    /// Its key as errors name it, with those of its tables.
    key: String,
    pub(super) start: usize,
    value: &'a DeValue<'a>,
    /// Whether it is an item of the list that the key has.
    is_item: bool,
}

impl<'a> Value<'a> {
    pub(super) fn fail<T>(&self, why: &str) -> Option<T> {
        self.fail_at(self.start, why)
    }

    /// Notes what is wrong with the value at this place in it.
    pub(super) fn fail_at<T>(&self, start: usize, why: &str) -> Option<T> {
        let continues = ["does not ", "must not ", "needs "];
        let is_sentence = continues.iter().any(|begin| why.starts_with(begin));
        let between = if is_sentence { " " } else { ": " };
        self.note(start, &format!("{between}{why}"))
    }

    fn note<T>(&self, start: usize, words: &str) -> Option<T> {
        let problem = format!("`{}`{words}", self.key);
        self.document.note(start, problem);
        None
    }

    fn mistyped<T>(&self, expected: &str) -> Option<T> {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let place = if self.is_item { " in the list" } else { "" };
        let problem = format!(" must be {expected}, found {found}{place}");
        self.note(self.start, &problem)
    }

    /// Returns what was made of the value, or notes why that failed.
    pub(super) fn checked<T>(&self, outcome: Result<T, String>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(why) => self.fail(&why),
        }
    }

    pub(super) fn as_str(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// Returns the string that `parse` accepts. `expected` describes it for errors.
    pub(super) fn text<T>(
        &self,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match self.as_str() {
            Some(text) => self.checked(parse(text)),
            None => self.mistyped(expected),
        }
    }

    pub(super) fn string(&self) -> Option<String> {
        self.text("a string", |text| Ok(text.to_owned()))
    }

    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let listed = |quote| enumerate(words.iter().map(|(word, _)| *word), quote, "or");
        let unknown = |text: &str| wrong(text, &format!("is not {}", listed('`')));
        self.text(&listed('"'), |text| {
            meaning(words, text).ok_or_else(|| unknown(text))
        })
    }

    /// Reads one of the words that an option takes for this.
    pub(super) fn choice<T: ValueEnum + Copy>(&self) -> Option<T> {
        let named = T::value_variants().iter();
        let named = named.filter_map(|meant| Some((meant.to_possible_value()?, *meant)));
        let named: Vec<_> = named.collect();
        let words = named.iter().map(|(word, meant)| (word.get_name(), *meant));
        self.word(&words.collect::<Vec<_>>())
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.mistyped("a boolean"))
    }

    pub(super) fn number<T: TryFrom<u64>>(&self, bounds: RangeInclusive<u64>) -> Option<T> {
        let (least, most) = (bounds.start(), bounds.end());
        self.number_like(&format!("a whole number from {least} to {most}"), bounds)
    }

    pub(super) fn number_like<T: TryFrom<u64>>(
        &self,
        expected: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<T> {
        let Some(number) = self.value.as_integer() else {
            return self.mistyped(expected);
        };
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let number = number.filter(|number| bounds.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.or_else(|| self.note(self.start, &format!(" must be {expected}")))
    }

    /// Returns the duration that `parse` accepts. A number is seconds, in both forms.
    pub(super) fn duration(
        &self,
        expected: &str,
        parse: impl Fn(&str) -> Result<Duration, String>,
    ) -> Option<Duration> {
        let integer = self.value.as_integer();
        let integer = integer.filter(|number| number.radix() == 10);
        let number = integer.map(|number| number.as_str());
        let number = number.or_else(|| Some(self.value.as_float()?.as_str()));
        match self.as_str().or(number) {
            Some(text) => self.checked(parse(text)),
            None => self.mistyped(expected),
        }
    }

    /// Returns the duration within bounds. `why` is what is wrong with another one.
    pub(super) fn duration_within(
        &self,
        expected: &str,
        why: &str,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        self.duration(expected, |text| {
            let duration = parse_duration(text).filter(|duration| bounds.contains(duration));
            duration.ok_or_else(|| wrong(text, why))
        })
    }

    pub(super) fn list<T>(
        &self,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let items = self.items(expected)?;
        items.map(|item| item.text(expected, &parse)).collect()
    }

    pub(super) fn words<T: Copy + Ord>(&self, words: &[(&str, T)]) -> Option<BTreeSet<T>> {
        let allowed = enumerate(words.iter().map(|(word, _)| *word), '"', "and");
        let unknown = |text: &str| {
            let word = quotable(text);
            format!("does not know \"{word}\"; allowed are {allowed}")
        };
        let items = self.list(&format!("a list of {allowed}"), |text| {
            meaning(words, text).ok_or_else(|| unknown(text))
        })?;
        Some(items.into_iter().into_set())
    }

    /// Returns one string, or a list of them, each with its place. `expected` describes it for errors.
    pub(super) fn one_or_many(&self, expected: &str) -> Option<Vec<(usize, String)>> {
        if let Some(one) = self.as_str() {
            return Some(vec![(self.start, one.to_owned())]);
        }
        let items = self.items(expected)?;
        let one = |item: Self| Some((item.start, item.string()?));
        items.map(one).collect()
    }

    pub(super) fn items(&self, expected: &str) -> Option<impl Iterator<Item = Self>> {
        let Some(items) = self.value.as_array() else {
            return self.mistyped(expected);
        };
        Some(items.iter().map(|item| Self {
            start: item.span().start,
            value: item.get_ref(),
            is_item: true,
            ..self.clone()
        }))
    }

    /// Returns what `read` makes of a table, which `expected` describes for errors. Its error is about the table
    /// as a whole, and counts if nothing in it is wrong.
    pub(super) fn table<T>(
        &self,
        expected: &str,
        read: impl FnOnce(&mut Table<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let Some(values) = self.value.as_table() else {
            return self.mistyped(expected);
        };
        let prefix = format!("{}.", self.key);
        let mut table = Table::of(self.document, prefix, values, self.start);
        let before = self.document.n_problems();
        let read = read(&mut table);
        table.note_unknown_keys();
        if self.document.n_problems() > before {
            return None;
        }
        self.checked(read)
    }

    /// Returns what `read` makes of each value of a table with any keys.
    pub(super) fn map<T>(
        &self,
        read: impl Fn(&str, &Value<'_>) -> Option<T>,
    ) -> Option<BTreeMap<String, T>> {
        let Some(values) = self.value.as_table() else {
            return self.mistyped("a map");
        };
        let prefix = format!("{}.", self.key);
        let table = Table::of(self.document, prefix, values, self.start);
        let entries = values.iter().filter_map(|(key, value)| {
            let key = key.get_ref();
            Some((key.to_string(), read(key, &table.value(key, value))?))
        });
        Some(entries.into_map())
    }

    /// Checks that a table has these keys only. What is wrong in it is wrong with the value itself.
    pub(super) fn has_only(&self, keys: &[&str], listed: &str) -> Option<()> {
        let mut others = self.value.as_table()?.keys().map(Spanned::get_ref);
        match others.find(|key| !keys.contains(&key.as_ref())) {
            None => Some(()),
            Some(key) => self.fail(&format!("has the unknown key `{key}`, expected {listed}")),
        }
    }

    /// Returns the value of a key of this table. What is wrong with it is wrong with this one.
    pub(super) fn part(&self, key: &str) -> Option<Self> {
        let value = self.value.as_table()?.get(key)?.get_ref();
        Some(Self {
            value,
            ..self.clone()
        })
    }

    pub(super) fn path(&self, (start, path): &(usize, String)) -> NamedPath {
        self.document.path_at(*start, self.key.clone(), path)
    }
}

fn meaning<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    let known = words.iter().find(|(word, _)| *word == text);
    known.map(|(_, meaning)| *meaning)
}

/// Returns the one of `known` that `key` may mean: up to a third of its letters may differ.
fn closest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::osa_distance(&key.to_lowercase(), known), known))
        .filter(|(distance, known)| *distance <= known.chars().count() / 3)
        .min()
        .map(|(_, known)| known)
}
