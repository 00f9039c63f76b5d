//! What can be wrong with the file.

use std::path::{Path, PathBuf};

use crate::files::{Fault, Refused};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file was asked for by name and is not there.
    #[error("{}: no such file; $TMUX_TASK_CONFIG names it", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It is there and cannot be read: no permission, or a directory.
    #[error("{}: could not be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Another user could have written it.
    #[error("{refused}; {}", advice(.refused))]
    NotOurs {
        /// What is wrong with it.
        refused: Refused,
    },
    /// It is not text.
    #[error("{}:{line}: not UTF-8", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The line of the first bad byte, from 1.
        line: u32,
    },
    /// It is not TOML.
    #[error("{}:{line}: {message}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// What the parser said, in one line.
        message: String,
    },
    /// It sets something that we do not know.
    #[error("{}:{line}: unknown key `{key}`{}", .path.display(), suggest(*.suggestion))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// The key, with the tables around it: `panel.keys`.
        key: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A value is of another type than its key takes.
    #[error("{}:{line}: `{key}` must be {expected}, found {found}", .path.display())]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// The key, with the tables around it.
        key: String,
        /// What the key takes: ``a list of "desktop" and "tmux"``.
        expected: String,
        /// What stands there: `an integer`.
        found: String,
    },
    /// A value is of the right type and none of the words that its key takes.
    #[error("{}:{line}: `{key}` does not know \"{word}\"; allowed are {allowed}", .path.display())]
    UnknownWord {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// The key, with the tables around it.
        key: String,
        /// What stands there.
        word: String,
        /// What may: `"desktop" and "tmux"`.
        allowed: String,
    },
    /// A value is of the right type and makes no sense.
    #[error("{}:{line}: `{key}`: {why}", .path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// The key, with the tables around it.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ConfigError {
    /// Returns the file that is at fault.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Missing { path }
            | Self::Read { path, .. }
            | Self::NotText { path, .. }
            | Self::Syntax { path, .. }
            | Self::UnknownKey { path, .. }
            | Self::WrongType { path, .. }
            | Self::UnknownWord { path, .. }
            | Self::BadValue { path, .. } => path,
            Self::NotOurs { refused } => &refused.path,
        }
    }

    /// Returns the line at fault, from 1, unless the file could not be read at all.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        match self {
            Self::Missing { .. } | Self::Read { .. } | Self::NotOurs { .. } => None,
            Self::NotText { line, .. }
            | Self::Syntax { line, .. }
            | Self::UnknownKey { line, .. }
            | Self::WrongType { line, .. }
            | Self::UnknownWord { line, .. }
            | Self::BadValue { line, .. } => Some(*line),
        }
    }

    /// Returns the key at fault, with the tables around it.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Missing { .. }
            | Self::Read { .. }
            | Self::NotOurs { .. }
            | Self::NotText { .. }
            | Self::Syntax { .. } => None,
            Self::UnknownKey { key, .. }
            | Self::WrongType { key, .. }
            | Self::UnknownWord { key, .. }
            | Self::BadValue { key, .. } => Some(key),
        }
    }
}

fn suggest(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

fn advice(refused: &Refused) -> &'static str {
    match refused.fault {
        Fault::Writable(_) => "`chmod go-w` closes it",
        Fault::Link | Fault::NotAFile | Fault::NotAFolder | Fault::Owner(_) => {
            "name a file of yours with $TMUX_TASK_CONFIG"
        }
    }
}
