//! Paths in the file that describes tasks: folders, and files of variables.

use std::fmt::Display;
use std::path::PathBuf;

use super::error::quotable;
use super::file::{MAX_BYTES, not_utf8};
use super::{ConfigError, dotenv};
use crate::files;
use crate::model::with_causes;

/// A path in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(super) path: PathBuf,
    /// The file, the line and the key that have it.
    pub(super) file: PathBuf,
    pub(super) line: u32,
    pub(super) key: String,
}

impl NamedPath {
    fn invalid(&self, why: impl Display) -> ConfigError {
        ConfigError::Invalid {
            path: self.file.clone(),
            line: self.line,
            problem: format!("`{}`: {why}", self.key),
        }
    }

    /// Returns the variables in the file, which is the user's: no error repeats what is in it.
    pub(super) fn read_variables(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let bytes = files::read_written(&self.path, MAX_BYTES).map_err(|error| {
            let shown = self.path.to_string_lossy();
            match files::is_refusal(&error) {
                true => self.invalid(error),
                false => self.invalid(format!(
                    "cannot read `{}`: {}",
                    quotable(&shown),
                    with_causes(&error)
                )),
            }
        })?;
        let text = String::from_utf8(bytes).map_err(|error| not_utf8(&self.path, &error))?;
        dotenv::parse(&text).map_err(|(line, problem)| ConfigError::Invalid {
            path: self.path.clone(),
            line,
            problem: problem.to_owned(),
        })
    }

    /// Returns the absolute path of a folder, without links.
    ///
    /// # Errors
    ///
    /// When it does not exist or is not a directory.
    pub(crate) fn resolve(&self) -> Result<PathBuf, ConfigError> {
        let invalid = |why: &str| self.invalid(why);
        let shown = self.path.to_string_lossy();
        let shown = quotable(&shown);
        match self.path.canonicalize() {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(invalid(&format!("`{shown}` is not a directory"))),
            Err(error) => {
                let is_home = self.path.iter().any(|part| part == "~");
                let note = if is_home { "; `~` is not expanded" } else { "" };
                Err(invalid(&format!(
                    "cannot run in `{shown}`: {}{note}",
                    with_causes(&error)
                )))
            }
        }
    }
}
