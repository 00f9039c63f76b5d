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
    assert_eq!(
        config.notices.places,
        [crate::rules::alerts::Place::Tmux].into()
    );
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
