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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// Whether `$TMUX_TASK_CONFIG` names it: then it must exist.
    is_named: bool,
}

/// Returns the location of the file; `None` when this user has no home directory. Its existence is not checked.
/// Empty variables count as unset, and so do `$XDG_CONFIG_HOME` and `$HOME` when they are not absolute.
pub(crate) fn find(env: Env<'_>) -> Option<ConfigFile> {
    let set = |name| env(name).filter(|value| !value.is_empty());
    let variable = |name| set(name).map(PathBuf::from);
    if let Some(path) = variable("TMUX_TASK_CONFIG") {
        return Some(ConfigFile {
            path,
            is_named: true,
        });
    }
    let is_absolute = |path: &PathBuf| path.is_absolute();
    // Without `$HOME`, the standard library asks the system's list of users.
    let home = || variable("HOME").or_else(std::env::home_dir);
    let in_home = || Some(home().filter(is_absolute)?.join(".config"));
    let folder = variable("XDG_CONFIG_HOME").filter(is_absolute);
    let folder = folder.or_else(in_home)?;
    Some(ConfigFile {
        path: folder.join("tmux-task/config.toml"),
        is_named: false,
    })
}

/// Returns the settings of the file, or the defaults when there is none at the default location.
pub(crate) fn load(env: Env<'_>) -> Result<Config, Error> {
    read(find(env).as_ref()).map(|(config, _)| config)
}

/// Returns the settings of the file, and its text; `None` without one at the default location.
pub(super) fn read(file: Option<&ConfigFile>) -> Result<(Config, Option<String>), Error> {
    let Some(ConfigFile { path, is_named }) = file else {
        return Ok((Config::default(), None));
    };
    let bytes = match files::read_written(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            // A file in place of one of its directories means that it is missing, too.
            let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            let why = "no such file; $TMUX_TASK_CONFIG names it";
            return match (is_missing, is_named) {
                (true, false) => Ok((Config::default(), None)),
                (true, true) => Err(Error::failed(format!("{}: {why}", path.display()))),
                (false, _) => Err(unreadable(path, &error, Some("TMUX_TASK_CONFIG"))),
            };
        }
    };
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    Ok((parse(path, &text)?, Some(text)))
}

/// Returns the settings in `text`. `path` is only used in errors.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    read_document(path, text, Config::read)
}

#[cfg(test)]
pub(super) mod tests;
