//! Finds, reads and parses the file, and explains errors.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path as KeyPath, Segment};
use toml::de::{DeTable, DeValue};

use super::Config;
use super::value::{invalid, quotable, unreadable};
use crate::files;
use crate::model::{Error, text};

/// The maximum size of the file.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Looks up an environment variable. `&|name| std::env::var_os(name)` is the real environment.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The location of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigFile {
    /// `$TMUX_TASK_CONFIG` names it, so it must exist.
    Named(PathBuf),
    /// The default location, where it may be missing.
    Usual(PathBuf),
}

impl ConfigFile {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Usual(path) => path,
        }
    }
}

/// Returns the location of the file; `None` when this user has no home directory. Its existence is
/// not checked. Empty variables count as unset, and so do `$XDG_CONFIG_HOME` and `$HOME` when they
/// are not absolute.
pub(crate) fn find(env: Env<'_>) -> Option<ConfigFile> {
    let variable = |name| env(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("TMUX_TASK_CONFIG") {
        return Some(ConfigFile::Named(path.into()));
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
    Some(ConfigFile::Usual(config_home.join("tmux-task/config.toml")))
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
        Some(text) => parse(file.path(), &text),
        None => Ok(Config::default()),
    }
}

/// Returns the file's text; `None` when there is none at the default location.
pub(super) fn read_text(file: &ConfigFile) -> Result<Option<String>, Error> {
    let bytes = match files::read_written(file.path(), MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            // A file in place of one of its directories means that it is missing, too.
            let is_missing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
            return match file {
                ConfigFile::Usual(_) if is_missing => Ok(None),
                ConfigFile::Named(path) if is_missing => Err(Error::failed(format!(
                    "{}: no such file; $TMUX_TASK_CONFIG names it",
                    path.display()
                ))),
                ConfigFile::Named(path) | ConfigFile::Usual(path) => {
                    Err(unreadable(path, &error, Some("TMUX_TASK_CONFIG")))
                }
            };
        }
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(not_utf8(file.path(), &error)),
    }
}

/// Returns the error for a file that is not text.
pub(super) fn not_utf8(path: &Path, error: &FromUtf8Error) -> Error {
    let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
    invalid(path, line, "not UTF-8")
}

/// The maximum length of everything an error says about a value, in characters.
const MAX_PROBLEM_CHARS: usize = 300;

/// Returns the settings in `text`. `path` is only used in errors.
///
/// # Errors
///
/// When the text is not TOML, contains an unknown key, or a value that its key does not accept.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    parse_as(path, text)
}

/// Returns what is in `text`, as [`parse`] does.
pub(super) fn parse_as<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Error> {
    let invalid = |at: usize, problem: &str| {
        let problem = text::one_line(problem.as_bytes(), MAX_PROBLEM_CHARS);
        invalid(path, line_of(text.as_bytes(), at), problem)
    };
    // The parser continues after an error, and later errors may be consequences of it.
    let (table, errors) = DeTable::parse_recoverable(text);
    if let Some(error) = errors.iter().min_by_key(|error| start(error)) {
        return Err(invalid(start(error), error.message()));
    }
    serde_path_to_error::deserialize(toml::Deserializer::from(table)).map_err(|error| {
        let problem = explain(text, error.path(), error.inner());
        let item = item_start(text, error.path()).unwrap_or_default();
        invalid(start(error.inner()).max(item), &problem)
    })
}

/// Returns where the item of a list begins that the path leads through. Of an error about a whole item,
/// such as the second table `sink`, serde knows only where the list begins.
fn item_start(text: &str, at: &KeyPath) -> Option<usize> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut value = &DeValue::Table(table.into_inner());
    let mut start = None;
    for segment in at {
        let inner = match segment {
            Segment::Map { key } => value.get(key.as_str()),
            Segment::Seq { index } => value.get(*index),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(inner) = inner else { break };
        if matches!(segment, Segment::Seq { .. }) {
            start = Some(inner.span().start);
        }
        value = inner.get_ref();
    }
    start
}

/// Returns the line, from 1, of the byte at `offset`.
pub(super) fn line_of(text: &[u8], offset: usize) -> u32 {
    let before = &text[..offset.min(text.len())];
    let n_ends = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(n_ends + 1).unwrap_or(u32::MAX)
}

fn start(error: &toml::de::Error) -> usize {
    error.span().map_or(usize::MAX, |span| span.start)
}

/// Explains what is wrong with a key or its value, from serde's error.
fn explain(text: &str, at: &KeyPath, error: &toml::de::Error) -> String {
    let names: Vec<&str> = at.iter().filter_map(name_of).collect();
    let quoted: Vec<String> = names.iter().map(|name| quotable(name)).collect();
    let key = quoted.join(".");
    let message = error.message();
    if let Some(fields) = message.strip_prefix("unknown field ") {
        let name = names.last().copied().unwrap_or_default();
        let meant = closest(name, known_keys(fields, name))
            .map(|known| format!("; did you mean `{known}`?"));
        return format!("unknown key `{key}`{}", meant.unwrap_or_default());
    }
    let invalid = message.strip_prefix("invalid ");
    if let Some((found, expected)) = invalid.and_then(|rest| rest.rsplit_once(", expected ")) {
        let Some(found) = found.strip_prefix("type: ") else {
            return format!("`{key}` must be {expected}");
        };
        let value = error.span().and_then(|span| text.get(span));
        let found = type_name(found, value.unwrap_or_default());
        let is_item = matches!(at.iter().next_back(), Some(Segment::Seq { .. }));
        let place = if is_item { " in the list" } else { "" };
        return format!("`{key}` must be {expected}, found {found}{place}");
    }
    if message.starts_with("does not ") || message.starts_with("must not ") {
        return format!("`{key}` {message}");
    }
    format!("`{key}`: {message}")
}

fn name_of(segment: &Segment) -> Option<&str> {
    match segment {
        // What `toml::Spanned` reads its value from.
        Segment::Map { key } if key.starts_with("$__") => None,
        Segment::Map { key } => Some(key),
        Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Returns TOML's name for a type of serde.
fn type_name<'a>(found: &'a str, value: &str) -> &'a str {
    // serde has no dates.
    if found == "map" && value.starts_with(|c: char| c.is_ascii_digit()) {
        return "a date";
    }
    let names = [
        ("string", "a string"),
        ("integer", "an integer"),
        ("floating point", "a float"),
        ("boolean", "a boolean"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    let name = names.iter().find(|(serde, _)| found.starts_with(serde));
    name.map_or(found, |(_, name)| name)
}

/// Returns the keys in serde's "`NAME`, expected one of `a`, `b`".
fn known_keys<'a>(fields: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let name_length = name.len() + "``".len();
    let known = fields.get(name_length..).unwrap_or_default();
    known.split('`').skip(1).step_by(2)
}

/// Returns the one of `known` that `key` is probably a misspelling of: up to a third of its letters
/// may differ.
fn closest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::osa_distance(&key.to_lowercase(), known), known))
        .filter(|(distance, known)| *distance <= known.chars().count() / 3)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[track_caller]
    fn check_file(variables: &[(&str, &str)], expected: ConfigFile) {
        assert_eq!(find(&|name| lookup(variables, name)), Some(expected));
    }

    fn lookup(variables: &[(&str, &str)], name: &str) -> Option<OsString> {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.into())
    }

    fn usual(path: &str) -> ConfigFile {
        ConfigFile::Usual(path.into())
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let home = ("HOME", "/home/a");
        let xdg = ("XDG_CONFIG_HOME", "/xdg");
        let named = ("TMUX_TASK_CONFIG", "some/c.toml");
        check_file(&[home, xdg, named], ConfigFile::Named("some/c.toml".into()));
        check_file(&[home, xdg], usual("/xdg/tmux-task/config.toml"));
        check_file(
            &[home, xdg, ("TMUX_TASK_CONFIG", "")],
            usual("/xdg/tmux-task/config.toml"),
        );
        let in_home = usual("/home/a/.config/tmux-task/config.toml");
        check_file(&[home], in_home.clone());
        check_file(&[home, ("XDG_CONFIG_HOME", "")], in_home.clone());
        check_file(&[home, ("XDG_CONFIG_HOME", "relative")], in_home);
        let relative = find(&|name| lookup(&[("HOME", "here")], name));
        assert!(relative.is_none_or(|file| file.path().is_absolute()));
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
        let error = load_named(&path).unwrap_err();
        let expected = format!(
            "{}: no such file; $TMUX_TASK_CONFIG names it",
            path.display()
        );
        assert_eq!(error.to_string(), expected);

        std::fs::write(&path, "").unwrap();
        assert_eq!(load_named(&path).unwrap(), Config::default());
        assert_eq!(load_usual(&path).unwrap(), Config::default());
    }

    #[test]
    fn the_file_in_the_usual_place_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tmux-task/config.toml");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "notices = [\"tmux\"]\n").unwrap();
        let config = load_usual(dir.path()).unwrap();
        assert_eq!(config.notices.places, [crate::alerts::Place::Tmux].into());

        std::fs::write(&path, "\n\nnotice = []\n").unwrap();
        let error = load_usual(dir.path()).unwrap_err();
        let expected = format!(
            "{}:3: unknown key `notice`; did you mean `notices`?",
            path.display()
        );
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_is_not_text_names_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, b"# fine\n# \xff\n").unwrap();
        let error = load_named(&path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}:2: not UTF-8", path.display())
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error_in_any_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tmux-task/config.toml");
        std::fs::create_dir_all(&path).unwrap();
        for error in [load_named(&path), load_usual(dir.path())].map(Result::unwrap_err) {
            let expected = format!("{}: could not be read: Is a directory", path.display());
            assert_eq!(error.message, expected);
        }

        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "notices = []").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let error = load_usual(dir.path()).unwrap_err();
        let reason = "can be written to by other users (mode 0666); `chmod go-w` closes it";
        assert_eq!(error.to_string(), format!("{} {reason}", path.display()));
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
    fn only_a_close_key_is_suggested() {
        let known = ["notices", "panel", "ui"];
        let check = |key, expected: Option<&str>| {
            assert_eq!(closest(key, known.into_iter()), expected, "{key}");
        };
        check("notice", Some("notices"));
        check("NOTICES", Some("notices"));
        check("noticse", Some("notices"));
        check("ntoices", Some("notices"));
        check("pannel", Some("panel"));
        check("note", None);
        check("up", None);
        check("", None);
        assert_eq!(closest("notice", [].into_iter()), None);
    }

    #[test]
    fn known_keys_are_found_whatever_the_unknown_one_is() {
        let check = |name: &str, expected: &[&str]| {
            for many in [", expected one of ", ", expected "] {
                let listed: Vec<String> = expected.iter().map(|key| format!("`{key}`")).collect();
                let fields = format!("`{name}`{many}{}", listed.join(", "));
                assert_eq!(known_keys(&fields, name).collect::<Vec<_>>(), expected);
            }
        };
        check("a", &["b", "c"]);
        check("`, expected `x", &["b"]);
        check("", &["b"]);
        check("é`", &["b", "c"]);
        assert_eq!(known_keys("", "a").count(), 0);
    }

    #[test]
    fn an_error_about_an_item_names_the_line_of_the_item() {
        #[track_caller]
        fn check(text: &str, expected: u32) {
            let error = parse(Path::new("config.toml"), text).unwrap_err();
            let place = format!("config.toml:{expected}: ");
            assert!(error.message.starts_with(&place), "{text}: {error}");
        }
        let first = "[[sink]]\nname = \"a\"\nexec = [\"/bin/a\"]\n";
        check(&format!("{first}\n[[sink]]\nname = \"b\"\n"), 5);
        check(&format!("{first}\n[[sink]]\nexec = [\"/bin/b\"]\n"), 5);
        check(&format!("{first}\n[[sink]]\nname = \"b\"\nnope = 1\n"), 7);
        check("[[sink]]\nname = \"a\"\n", 1);
        check(
            "sink = [\n{ name = \"a\", exec = [\"/bin/a\"] },\n{ name = \"b\" } ]\n",
            3,
        );
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
