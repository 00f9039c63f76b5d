//! The words of a task's command.

use std::ffi::OsString;

/// The command of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandWords {
    /// One shell line.
    Line(OsString),
    /// A program and its arguments, each kept as one word.
    Argv(Vec<OsString>),
}

impl CommandWords {
    /// Returns the words that followed `--`: one is a shell line, several are an argv.
    #[must_use]
    pub(crate) fn from_words(words: Vec<OsString>) -> Self {
        match <[OsString; 1]>::try_from(words) {
            Ok([line]) => Self::Line(line),
            Err(words) => Self::Argv(words),
        }
    }

    /// Returns the command for display: one line, blanks folded, words quoted where necessary.
    #[must_use]
    pub(crate) fn shown(&self) -> String {
        let line = match self {
            Self::Line(line) => line.to_string_lossy().into_owned(),
            Self::Argv(words) => {
                let words: Vec<String> = words
                    .iter()
                    .map(|word| quote_where_needed(&word.to_string_lossy()))
                    .collect();
                words.join(" ")
            }
        };
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the command for display, bounded.
    pub(crate) fn shown_bounded(&self) -> String {
        crate::model::text::one_line(self.shown().as_bytes(), 4096)
    }

    /// Returns the words that followed `--`.
    pub(super) fn words(&self) -> &[OsString] {
        match self {
            Self::Line(line) => std::slice::from_ref(line),
            Self::Argv(words) => words,
        }
    }
}

/// Quotes for a POSIX shell.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Quotes for a POSIX shell, unless nothing in the word has a meaning there.
pub(crate) fn quote_where_needed(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        quote(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_is_one_line() {
        let shown = |words: &[&str]| {
            CommandWords::from_words(words.iter().map(OsString::from).collect()).shown()
        };
        assert_eq!(
            shown(&["cargo  test\n && echo ok"]),
            "cargo test && echo ok"
        );
        assert_eq!(shown(&["cargo", "test", "a b", ""]), "cargo test 'a b' ''");
    }
}
