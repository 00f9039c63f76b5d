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
///
/// # Errors
///
/// When the file is named and missing, cannot be read, or contains unknown keys or invalid values.
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
///
/// # Errors
///
/// When the text is not TOML, contains an unknown key, or a value that its key does not accept.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    read_document(path, text, Config::read)
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::model::test_notation::{env, rows};

    /// Checks what is said of files: `TEXT | LINE: MESSAGE`. Each begins with `first`.
    #[track_caller]
    pub(in crate::config) fn check_errors(first: &str, table: &str) {
        for [text, expected] in rows(table) {
            let text = first.to_owned() + &text;
            let error = parse(Path::new("c.toml"), &text).expect_err(&text);
            assert_eq!(error.to_string(), format!("c.toml:{expected}"), "{text}");
        }
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        for [variables, expected] in rows(
            "HOME=/home/a XDG_CONFIG_HOME=/xdg TMUX_TASK_CONFIG=some/c.toml | some/c.toml
             HOME=/home/a XDG_CONFIG_HOME=/xdg | /xdg/tmux-task/config.toml
             HOME=/home/a XDG_CONFIG_HOME=/xdg TMUX_TASK_CONFIG= | /xdg/tmux-task/config.toml
             HOME=/home/a | /home/a/.config/tmux-task/config.toml
             HOME=/home/a XDG_CONFIG_HOME= | /home/a/.config/tmux-task/config.toml
             HOME=/home/a XDG_CONFIG_HOME=relative | /home/a/.config/tmux-task/config.toml",
        ) {
            let expected = ConfigFile {
                is_named: expected == "some/c.toml",
                path: expected.into(),
            };
            assert_eq!(find(&env(&variables)), Some(expected), "{variables}");
        }
        let relative = find(&env("HOME=here"));
        assert!(relative.is_none_or(|file| file.path.is_absolute()));
    }

    /// What loading says with `$TMUX_TASK_CONFIG` being `path`.
    fn load_named(path: &Path) -> Result<Config, Error> {
        load(&|name| (name == "TMUX_TASK_CONFIG").then(|| path.into()))
    }

    /// What loading says with `$XDG_CONFIG_HOME` being `path`.
    fn load_usual(path: &Path) -> Result<Config, Error> {
        load(&|name| (name == "XDG_CONFIG_HOME").then(|| path.into()))
    }

    #[test]
    fn only_a_named_file_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load_usual(dir.path()).unwrap(), Config::default());
        let path = dir.path().join("c.toml");
        let error = load_named(&path).unwrap_err().to_string();
        let shown = path.display();
        let expected = format!("{shown}: no such file; $TMUX_TASK_CONFIG names it");
        assert_eq!(error, expected);

        std::fs::write(&path, "").unwrap();
        assert_eq!(load_named(&path).unwrap(), Config::default());
        assert_eq!(load_usual(&path).unwrap(), Config::default());
        // What is not text names its line.
        std::fs::write(&path, b"# fine\n# \xff\n").unwrap();
        let error = load_named(&path).unwrap_err().to_string();
        assert_eq!(error, format!("{shown}:2: not UTF-8"));
    }

    #[test]
    fn the_file_in_the_usual_place_is_read_and_what_cannot_be_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tmux-task/config.toml");
        std::fs::create_dir_all(&path).unwrap();
        let shown = path.display();
        for error in [load_named(&path), load_usual(dir.path())].map(Result::unwrap_err) {
            let expected = format!("{shown}: could not be read: Is a directory");
            assert_eq!(error.message, expected);
        }

        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "notices = [\"tmux\"]\n").unwrap();
        let config = load_usual(dir.path()).unwrap();
        assert_eq!(config.notices.places, [crate::alerts::Place::Tmux].into());
        std::fs::write(&path, "\n\nnotice = []\n").unwrap();
        let error = load_usual(dir.path()).unwrap_err().to_string();
        let expected = format!("{shown}:3: unknown key `notice`; did you mean `notices`?");
        assert_eq!(error, expected);

        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let error = load_usual(dir.path()).unwrap_err().to_string();
        let reason = "can be written to by other users (mode 0666); `chmod go-w` closes it";
        assert_eq!(error, format!("{shown} {reason}"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        if rustix::process::geteuid().is_root() {
            // Root may read everything.
            eprintln!("skipped in part: needs a user other than root");
            return;
        }
        let error = load_usual(dir.path()).unwrap_err();
        assert!(error.message.contains("could not be read"), "{error}");
    }

    #[test]
    fn an_error_about_an_item_names_the_line_of_the_item() {
        for [text, line] in rows(
            "[[sink]]⏎name = 'a'⏎exec = ['/bin/a']⏎⏎[[sink]]⏎name = 'b' | 5
             [[sink]]⏎name = 'a'⏎exec = ['/bin/a']⏎⏎[[sink]]⏎exec = ['/bin/b'] | 5
             [[sink]]⏎name = 'a'⏎exec = ['/bin/a']⏎⏎[[sink]]⏎name = 'b'⏎nope = 1 | 7
             [[sink]]⏎name = 'a' | 1
             sink = [⏎{ name = 'a', exec = ['/bin/a'] },⏎{ name = 'b' } ] | 3",
        ) {
            let error = parse(Path::new("c.toml"), &text).unwrap_err();
            let place = format!("c.toml:{line}: ");
            assert!(error.message.starts_with(&place), "{text}: {error}");
        }
    }
}
