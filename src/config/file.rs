//! Finds and reads the file.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Config;
use super::reader::read_document;
use super::value::{MAX_BYTES, not_utf8, unreadable};
use crate::files;
use crate::model::Error;

/// Looks up an environment variable. `&|name| std::env::var_os(name)` is the real environment.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The location of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// Whether `$TMUX_TASK_CONFIG` names it: then it must exist.
    is_named: bool,
}

/// Returns the location of the file; `None` when this user has no home directory. Its existence is
/// not checked. Empty variables count as unset, and so do `$XDG_CONFIG_HOME` and `$HOME` when they
/// are not absolute.
pub(crate) fn find(env: Env<'_>) -> Option<ConfigFile> {
    let variable = |name| env(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("TMUX_TASK_CONFIG") {
        return Some(ConfigFile {
            path: path.into(),
            is_named: true,
        });
    }
    let config_home = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let config_home = match config_home {
        Some(path) => path,
        // Without `$HOME`, the standard library asks the system's list of users.
        None => variable("HOME")
            .map(PathBuf::from)
            .or_else(std::env::home_dir)
            .filter(|path| path.is_absolute())?
            .join(".config"),
    };
    Some(ConfigFile {
        path: config_home.join("tmux-task/config.toml"),
        is_named: false,
    })
}

/// Returns the settings of the file, or the defaults when there is none at the default location.
pub(crate) fn load(env: Env<'_>) -> Result<Config, Error> {
    let Some(file) = find(env) else {
        return Ok(Config::default());
    };
    match read_text(&file)? {
        Some(text) => parse(&file.path, &text),
        None => Ok(Config::default()),
    }
}

/// Returns the file's text; `None` when there is none at the default location.
pub(super) fn read_text(file: &ConfigFile) -> Result<Option<String>, Error> {
    let ConfigFile { path, is_named } = file;
    let bytes = match files::read_written(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            // A file in place of one of its directories means that it is missing, too.
            let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            let why = "no such file; $TMUX_TASK_CONFIG names it";
            return match (is_missing, is_named) {
                (true, false) => Ok(None),
                (true, true) => Err(Error::failed(format!("{}: {why}", path.display()))),
                (false, _) => Err(unreadable(path, &error, Some("TMUX_TASK_CONFIG"))),
            };
        }
    };
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|error| not_utf8(path, &error))
}

/// Returns the settings in `text`. `path` is only used in errors.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    read_document(path, text, Config::read)
}

#[cfg(test)]
pub(super) mod tests;
