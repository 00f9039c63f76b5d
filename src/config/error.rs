//! Errors of the configuration file.

use crate::model::{Error, text};
use std::path::PathBuf;

use crate::files::{Fault, RefusedFile};

/// Why the configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// A file named by the user does not exist.
    #[error("{}: no such file; $TMUX_TASK_CONFIG names it", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file that describes tasks does not exist.
    #[error("{}: no such file", .0.display())]
    NoTasks(PathBuf),
    /// It exists and cannot be read: no permission, or a directory.
    #[error("{}: could not be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Another user could have written it.
    #[error("{refused}{}", advice(.refused, *.variable))]
    NotOurs {
        /// What is wrong with it.
        refused: RefusedFile,
        /// The variable that can name another file.
        variable: Option<&'static str>,
    },
    /// It is not TOML, or contains an unknown key or an invalid value.
    #[error("{}:{line}: {problem}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// The problem in one line, including the key.
        problem: String,
    },
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        let failed = Self::of(&error);
        match error {
            ConfigError::NoTasks(_) => failed.with_hint(
                "it describes the tasks of a project: `[tasks.NAME]` with `command = \"...\"`; without \
                 FILE it, or a Procfile, is looked for in the enclosing git work tree, else in this \
                 directory",
            ),
            ConfigError::Missing { .. }
            | ConfigError::Read { .. }
            | ConfigError::NotOurs { .. }
            | ConfigError::Invalid { .. } => failed,
        }
    }
}

fn advice(refused: &RefusedFile, variable: Option<&str>) -> String {
    match (refused.fault, variable) {
        (Fault::Writable(_), _) => "; `chmod go-w` closes it".to_owned(),
        (_, Some(variable)) => format!("; name a file of yours with ${variable}"),
        (_, None) => String::new(),
    }
}

/// The maximum length of what an error repeats, in characters.
const MAX_QUOTED_CHARS: usize = 100;

/// Returns a key, a value or a parser's message as an error repeats it: one sanitised line.
pub(super) fn quotable(text: &str) -> String {
    text::one_line(text.as_bytes(), MAX_QUOTED_CHARS)
}
