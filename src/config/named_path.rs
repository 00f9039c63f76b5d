//! Paths in the file that describes tasks: folders, and files of variables.

use std::fmt::Display;
use std::path::PathBuf;

use super::value::{MAX_BYTES, invalid, line_of, not_utf8, quotable};
use crate::files;
use crate::model::environment::is_shell_name;
use crate::model::{Error, with_causes};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(super) path: PathBuf,
    /// The file, the line and the key that have it.
    pub(super) file: PathBuf,
    pub(super) line: u32,
    pub(super) key: String,
}

impl NamedPath {
    fn invalid(&self, why: impl Display) -> Error {
        invalid(&self.file, self.line, format_args!("`{}`: {why}", self.key))
    }

    /// Returns the variables in the file, which is the user's: no error repeats what is in it.
    pub(super) fn read_variables(&self) -> Result<Vec<(String, String)>, Error> {
        let bytes = files::read_written(&self.path, MAX_BYTES).map_err(|error| {
            let (shown, why) = (quotable(&self.path.to_string_lossy()), with_causes(&error));
            match files::is_refusal(&error) {
                true => self.invalid(error),
                false => self.invalid(format!("cannot read `{shown}`: {why}")),
            }
        })?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&self.path, &error))?;
        parse_variables(&text).map_err(|(line, problem)| invalid(&self.path, line, problem))
    }

    /// Returns the absolute path of a folder, without links.
    pub(crate) fn resolve(&self) -> Result<PathBuf, Error> {
        let shown = quotable(&self.path.to_string_lossy());
        match self.path.canonicalize() {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(self.invalid(format_args!("`{shown}` is not a directory"))),
            Err(error) => {
                let is_home = self.path.iter().any(|part| part == "~");
                let note = if is_home { "; `~` is not expanded" } else { "" };
                let why = with_causes(&error);
                Err(self.invalid(format_args!("cannot run in `{shown}`: {why}{note}")))
            }
        }
    }
}

// Files of variables: the plain part of `.env` on which its readers agree.
//
// `NAME=VALUE` lines, `export` before the name, comments, and values in single or double quotes, which
// may have several lines. What programs read in different ways is refused. No error repeats anything of
// a file: a line that is wrong may be part of a secret.

const EXPANDED: &str = "`$` is not expanded: single quotes keep it as it is";

/// Returns the variables of a file; the last one of a name counts. The error has its line.
fn parse_variables(text: &str) -> Result<Vec<(String, String)>, (u32, &'static str)> {
    let text = text.replace("\r\n", "\n");
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut variables = Vec::new();
    while !rest.is_empty() {
        let first = rest.split('\n').next().unwrap_or_default();
        let mut used = first.len();
        if !is_blank(first) {
            let line = line_of(text.as_bytes(), text.len() - rest.len());
            let (variable, length) = variable(rest, first).map_err(|problem| (line, problem))?;
            variables.push(variable);
            used = length;
        }
        rest = rest.get(used + 1..).unwrap_or_default();
    }
    Ok(variables)
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Returns the variable that a text begins with, in the line `first`, and the length to its last line's end.
fn variable(text: &str, first: &str) -> Result<((String, String), usize), &'static str> {
    let none = "it is not `NAME=VALUE`";
    let (before, after) = first.split_once('=').ok_or(none)?;
    let exported = before.trim().strip_prefix("export");
    let exported = exported.filter(|rest| rest.starts_with([' ', '\t']));
    let name = exported.unwrap_or(before).trim();
    if !is_shell_name(name) {
        return Err(none);
    }
    let quote = after.trim_start().chars().next();
    let (value, length) = match quote.filter(|c| "'\"".contains(*c)) {
        None => (plain(after)?, first.len()),
        Some(quote) => {
            let start = first.len() - after.trim_start().len() + 1;
            let (value, length) = quoted(&text[start..], quote)?;
            let end = start + length;
            let left = text[end..].split('\n').next().unwrap_or_default();
            if !is_blank(left) {
                return Err("something follows the closing quote");
            }
            (value, end + left.len())
        }
    };
    match value.contains('\0') {
        true => Err("a value must not contain a NUL"),
        false => Ok(((name.to_owned(), value), length)),
    }
}

/// Returns a value without quotes: up to a comment.
fn plain(line: &str) -> Result<String, &'static str> {
    let is_comment = |(at, _): &(usize, &str)| *at == 0 || line[..*at].ends_with([' ', '\t']);
    let comment = line.match_indices('#').find(is_comment);
    let value = line[..comment.map_or(line.len(), |(at, _)| at)].trim();
    match value.contains(['\'', '"', '`']) {
        true => Err("a quote within a value: put all of it into quotes"),
        false if expands(value) => Err(EXPANDED),
        false => Ok(value.to_owned()),
    }
}

/// Whether some programs would put the value of another variable in, or a command's output.
fn expands(value: &str) -> bool {
    let is_begin = |c: char| c.is_ascii_alphabetic() || "_{(".contains(c);
    let mut parts = value.split('$').skip(1);
    parts.any(|part| part.starts_with(is_begin))
}

/// Returns a value up to its closing quote, and its length with that.
fn quoted(text: &str, quote: char) -> Result<(String, usize), &'static str> {
    let mut value = String::new();
    // The same without what a backslash protects.
    let mut bare = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == quote && quote == '"' && expands(&bare) {
            return Err(EXPANDED);
        } else if c == quote {
            return Ok((value, at + 1));
        } else if c != '\\' || quote == '\'' {
            value.push(c);
            bare.push(c);
            continue;
        }
        match chars.next().map(|(_, c)| c) {
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some(c @ ('"' | '\\' | '$')) => value.push(c),
            Some(other) => value.extend(['\\', other]),
            None => {}
        }
        bare.push(' ');
    }
    Err("its quote is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let read = parse_variables(text).unwrap().into_iter();
        let shown = read.map(|(name, value)| format!("{name}={value}"));
        assert_eq!(shown.collect::<Vec<_>>().join("|"), expected, "{text:?}");
    }

    #[test]
    fn names_have_values() {
        check("", "");
        check("A=1", "A=1");
        check(
            "# a comment\n\n  B = two words \nexport C=3\n",
            "B=two words|C=3",
        );
        check("export\tD=\nexport=4\n", "D=|export=4");
        check("A=1\nA=2\n", "A=1|A=2");
        check("\u{feff}A=1\r\nB='x\r\ny'\r\n", "A=1|B=x\ny");
        check("URL=https://u:p@h/?a=b#c\n", "URL=https://u:p@h/?a=b#c");
        check("N=1 # one\nE=#\n", "N=1|E=");
        check("PRICE=5$\nP=a$1\nW=C:\\x\n", "PRICE=5$|P=a$1|W=C:\\x");
    }

    #[test]
    fn quotes_keep_what_is_in_them() {
        check(
            "A='$HOME # \"x\" \\n' # c\nB=2\n",
            "A=$HOME # \"x\" \\n|B=2",
        );
        check(r#"A="a\tb\"c\\d\$E\w" "#, "A=a\tb\"c\\d$E\\w");
        check(
            "A=\"-----BEGIN\nMII=\n\nx\"\nB=''\n",
            "A=-----BEGIN\nMII=\n\nx|B=",
        );
    }

    #[test]
    fn what_is_something_else_names_its_line_and_nothing_of_it() {
        const OTHER: &str = "it is not `NAME=VALUE`";
        const OPEN: &str = "its quote is not closed";
        const WITHIN: &str = "a quote within a value: put all of it into quotes";
        for (text, line, problem) in [
            ("A=1\n\nsecret\n", 3, OTHER),
            ("A='1\n2'\nMII/x==\n", 3, OTHER),
            ("1A=x", 1, OTHER),
            ("=x", 1, OTHER),
            ("export A B=x", 1, OTHER),
            ("A=1\nB='x\nC=2\n", 2, OPEN),
            ("B=\"x\\", 1, OPEN),
            ("B='x'y", 1, "something follows the closing quote"),
            ("B=x'y'", 1, WITHIN),
            ("B=`x`", 1, WITHIN),
            ("B=$HOME/x", 1, EXPANDED),
            ("B=\"${X}\"", 1, EXPANDED),
            ("B=$(x)", 1, EXPANDED),
            ("\nB=\"a\0\"", 2, "a value must not contain a NUL"),
        ] {
            assert_eq!(parse_variables(text), Err((line, problem)), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_quoted_values_are_kept(text: String, value in "[^'\0\r]*") {
            drop(parse_variables(&text));
            let read = parse_variables(&format!("A='{value}'\nB=1"));
            let expected = [("A".to_owned(), value), ("B".to_owned(), "1".to_owned())];
            proptest::prop_assert_eq!(read, Ok(expected.to_vec()));
        }
    }
}
