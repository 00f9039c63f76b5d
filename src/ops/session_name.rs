//! The name of the task session.

use std::ffi::OsString;
use std::path::Path;

use regex::Regex;

use crate::config::paths::{Env, hex};

/// Returns the session named by the user or the environment; `None` when neither names one.
///
/// # Errors
///
/// When tmux cannot use the name unchanged; the text says why.
pub(crate) fn named(option: Option<&str>, env: Env<'_>) -> Result<Option<String>, String> {
    if let Some(name) = option {
        return check(name.to_owned(), "--session").map(Some);
    }
    for variable in ["TMUX_TASK_SESSION", "PI_TMUX_SESSION"] {
        let set = env(variable).filter(|value: &OsString| !value.is_empty());
        if let Some(value) = set {
            let name = value
                .into_string()
                .map_err(|_| format!("${variable} is not UTF-8"))?;
            return check(name, &format!("${variable}")).map(Some);
        }
    }
    Ok(None)
}

fn check(name: String, given_by: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err(format!("{given_by} is empty"));
    }
    if name.contains(['.', ':']) {
        return Err(format!(
            "session `{name}` of {given_by}: tmux allows neither `.` nor `:`"
        ));
    }
    // tmux reads these as an id or an escape, or changes them.
    if name.starts_with('$') || name.contains('\\') || name.chars().any(char::is_control) {
        return Err(format!(
            "the session of {given_by} may not begin with `$` nor have backslashes or control \
             characters"
        ));
    }
    Ok(name)
}

/// Returns the session of a project, `task-SLUG-HASH`: of the enclosing git work tree, else of the
/// directory itself.
pub(crate) fn of_project(project: &Path) -> String {
    let base = project
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let slug = slug(&base.unwrap_or_default());
    format!(
        "task-{slug}-{}",
        hex(project.as_os_str().as_encoded_bytes(), 6)
    )
}

fn slug(name: &str) -> String {
    let others = Regex::new("[^a-z0-9_-]+").expect("it is a regular expression");
    let name = name.to_lowercase();
    match others.replace_all(&name, "-").trim_matches('-') {
        "" => "root".to_owned(),
        slug => slug.to_owned(),
    }
}

/// Returns the git work tree that contains `dir`, else `dir`.
pub(crate) fn project_of(dir: &Path) -> &Path {
    dir.ancestors()
        .find(|ancestor| ancestor.join(".git").exists())
        .unwrap_or(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;

    #[test]
    fn slugs_are_plain() {
        for (name, expected) in [
            ("api", "api"),
            ("API", "api"),
            ("My  Project!", "my-project"),
            ("a.b:c", "a-b-c"),
            ("a--b", "a--b"),
            ("snake_case", "snake_case"),
            ("§§", "root"),
            ("", "root"),
            ("-x-", "x"),
            ("日本api", "api"),
        ] {
            assert_eq!(slug(name), expected, "{name:?}");
        }
    }

    #[test]
    fn two_checkouts_of_one_name_do_not_share_a_session() {
        let one = of_project(Path::new("/a/api"));
        assert!(one.starts_with("task-api-"));
        assert_eq!(one.len(), "task-api-".len() + 6);
        assert_ne!(one, of_project(Path::new("/b/api")));
        assert_eq!(one, of_project(Path::new("/a/api")));
        assert!(of_project(Path::new("/")).starts_with("task-root-"));
    }

    #[test]
    fn the_nearest_name_counts_and_empty_is_unset() {
        for (option, variables, expected) in [
            (
                Some("o"),
                "TMUX_TASK_SESSION=a PI_TMUX_SESSION=b",
                Some("o"),
            ),
            (None, "TMUX_TASK_SESSION=a PI_TMUX_SESSION=b", Some("a")),
            (None, "TMUX_TASK_SESSION= PI_TMUX_SESSION=b", Some("b")),
            (None, "", None),
        ] {
            let found = named(option, &env(variables)).unwrap();
            assert_eq!(found.as_deref(), expected, "{option:?} {variables}");
        }
        for wrong in ["a.b", "a:b", "", "a\nb", "$3", "a\\b"] {
            assert!(named(Some(wrong), &env("")).is_err(), "{wrong:?}");
        }
    }
}
