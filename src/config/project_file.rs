//! Reads a file that describes the tasks of a project, for `up` and `down`: `tmux-task.toml`, or a
//! Procfile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::given_task::{TaskEntry, check_name, files_of_variables};
use super::named_path::NamedPath;
use super::reader::{Table, read_document};
use super::value::{MAX_BYTES, invalid, line_of, not_utf8, quotable, unreadable};
use crate::files;
use crate::model::{Error, TaskSpec};

/// The file's usual name, in the project's folder.
pub(crate) const TASK_FILE: &str = "tmux-task.toml";

/// The file that is read where there is no [`TASK_FILE`].
pub(crate) const PROCFILE: &str = "Procfile";

/// The file of variables beside a Procfile.
const ENV_FILE: &str = ".env";

/// Returns the tasks of the file, each after those that it starts after; otherwise in the file's order.
///
/// # Errors
///
/// When the file cannot be read or can be changed by others, is not TOML, contains an unknown key or a
/// value that its key does not accept, names a task that it does not have, or has a circle.
pub(crate) fn read_tasks(path: &Path) -> Result<Vec<TaskEntry>, Error> {
    parse_task_file(path, read_task_file(path)?)
}

/// Returns the contents of the file.
///
/// # Errors
///
/// When it cannot be read or can be changed by others.
pub(crate) fn read_task_file(path: &Path) -> Result<Vec<u8>, Error> {
    files::read_written(path, MAX_BYTES).map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return unreadable(path, &error, None);
        }
        Error::failed(format!("{}: no such file", path.display())).with_hint(
            "it describes the tasks of a project: `[tasks.NAME]` with `command = \"...\"`; without \
             FILE it, or a Procfile, is looked for in the enclosing git work tree, else in this \
             directory",
        )
    })
}

/// Returns the tasks in the contents of the file.
///
/// # Errors
///
/// As [`read_tasks`].
pub(crate) fn parse_task_file(path: &Path, bytes: Vec<u8>) -> Result<Vec<TaskEntry>, Error> {
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    if is_procfile(path) {
        parse_procfile(path, &text)
    } else {
        parse_tasks(path, &text)
    }
}

/// Whether a file is a Procfile, by its name: `Procfile`, `Procfile.dev`.
pub(crate) fn is_procfile(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let rest = name.and_then(|name| name.strip_prefix(PROCFILE));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && rest != ".toml")
}

/// Returns the tasks of a Procfile. They have the variables of the file `.env` beside it, if there is
/// one.
fn parse_procfile(path: &Path, text: &str) -> Result<Vec<TaskEntry>, Error> {
    let invalid =
        |start: usize, problem: String| invalid(path, line_of(text.as_bytes(), start), problem);
    let named = |file: &str, start: usize, key: String| NamedPath {
        path: path.with_file_name(file),
        file: path.to_owned(),
        line: line_of(text.as_bytes(), start),
        key,
    };
    let processes = parse_processes(text).map_err(|(start, problem)| invalid(start, problem))?;
    let has_env = fs::symlink_metadata(path.with_file_name(ENV_FILE)).is_ok();
    let env_file = has_env.then(|| named(ENV_FILE, 0, "env-file".to_owned()));
    let mut tasks = Vec::new();
    for (name, (start, command)) in processes {
        let key = format!("tasks.{}", quotable(name));
        check_name(name).map_err(|why| invalid(start, format!("`{key}`: {why}")))?;
        let task = TaskEntry {
            name: name.to_owned(),
            spec: TaskSpec {
                command: vec![command.into()],
                ..TaskSpec::default()
            },
            cwd: named("", start, format!("{key}.cwd")),
            env_files: env_file.clone().into_iter().collect(),
            after: Vec::new(),
            ready: None,
            is_named: false,
        };
        tasks.push((start, task));
    }
    in_order(path, text, tasks)
}

/// Returns the tasks in `text`. `path` is for errors, and its folder is where they run.
fn parse_tasks(path: &Path, text: &str) -> Result<Vec<TaskEntry>, Error> {
    let tasks = read_document(path, text, |file| {
        let env_files = file
            .read("env-file", files_of_variables)
            .unwrap_or_default();
        file.read("tasks", |tasks| {
            tasks.map(|name, task| {
                let read = |table: &mut Table<'_>| TaskEntry::read(tasks, name, table, &env_files);
                Some((task.start, task.table("a table", read)?))
            })
        })
    })?;
    in_order(
        path,
        text,
        tasks.unwrap_or_default().into_values().collect(),
    )
}

/// Returns the tasks of a file with this text, which have their places in it: each after those that it starts
/// after, else in their order.
fn in_order(
    path: &Path,
    text: &str,
    mut left: Vec<(usize, TaskEntry)>,
) -> Result<Vec<TaskEntry>, Error> {
    if left.is_empty() {
        return Err(invalid(path, 1, "there is no task in it"));
    }
    left.sort_by_key(|(start, _)| *start);
    let (mut order, mut placed) = (Vec::new(), BTreeSet::new());
    while let Some((start, _)) = left.first() {
        let is_next = |(_, task): &(usize, TaskEntry)| {
            let mut after = task.after.iter();
            after.all(|name| placed.contains(name))
        };
        let Some(next) = left.iter().position(is_next) else {
            let names = circle_in(&left);
            let problem = format!("tasks that start after each other: {}", quotable(&names));
            return Err(invalid(path, line_of(text.as_bytes(), *start), problem));
        };
        let (_, task) = left.remove(next);
        placed.insert(task.name.clone());
        order.push(task);
    }
    Ok(order)
}

/// Follows tasks that wait for each other, from the first one on, until one comes again: `a after b after a`.
fn circle_in(tasks: &[(usize, TaskEntry)]) -> String {
    let find = |name: &str| tasks.iter().find(|(_, task)| task.name == name);
    let mut path: Vec<&TaskEntry> = Vec::new();
    let mut next = tasks.first();
    while let Some((_, task)) = next {
        let first = path.iter().position(|known| known.name == task.name);
        path.push(task);
        if let Some(first) = first {
            path.drain(..first);
            break;
        }
        next = task.after.iter().find_map(|name| find(name));
    }
    let names: Vec<&str> = path.iter().map(|task| task.name.as_str()).collect();
    names.join(" after ")
}

/// The processes by name: where each is in the text, and its command, a shell line.
pub(super) type Processes<'a> = BTreeMap<&'a str, (usize, &'a str)>;

/// Returns the processes of a text.
///
/// # Errors
///
/// Where something is wrong, and what.
fn parse_processes(text: &str) -> Result<Processes<'_>, (usize, String)> {
    let mut processes = BTreeMap::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let at = start;
        start += whole.len();
        let line = whole.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.split_once(':');
        let parts = parts.map(|(name, command)| (name.trim_end(), command.trim_start()));
        let Some((name, command)) = parts.filter(|(_, command)| !command.is_empty()) else {
            return Err((at, "it is not `NAME: COMMAND`".to_owned()));
        };
        if command.contains('\0') {
            return Err((at, "a command must not contain a NUL".to_owned()));
        }
        if processes.insert(name, (at, command)).is_some() {
            return Err((at, "an earlier line has this name".to_owned()));
        }
    }
    Ok(processes)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod procfile_tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_a_command() {
        let text = "\u{feff}# c\r\nweb: bundle exec rails s -p 3000\r\n\n\
                    worker_1:rake jobs:work # not a comment for us\n  css : yarn build --watch";
        let processes = parse_processes(text).unwrap();
        let at = |name| text.find(name).unwrap();
        let expected = [
            ("css", (at("  css"), "yarn build --watch")),
            ("web", (at("web:"), "bundle exec rails s -p 3000")),
            (
                "worker_1",
                (at("worker_1"), "rake jobs:work # not a comment for us"),
            ),
        ];
        assert_eq!(processes, BTreeMap::from(expected));
        for (text, at, problem) in [
            ("web: x\nnothing\n", 7, "it is not `NAME: COMMAND`"),
            ("web:\n", 0, "it is not `NAME: COMMAND`"),
            ("web: a\n\nweb: b\n", 8, "an earlier line has this name"),
            ("web: a\0\n", 0, "a command must not contain a NUL"),
        ] {
            assert_eq!(
                parse_processes(text),
                Err((at, problem.to_owned())),
                "{text:?}"
            );
        }
    }
}
