//! Reads a file that describes the tasks of a project, for `up` and `down`: `tmux-task.toml`, or a Procfile.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::given_task::{TaskEntry, files_of_variables, task_name};
use super::named_path::NamedPath;
use super::reader::{Table, read_document};
use super::value::{MAX_BYTES, invalid, line_of, not_utf8, quotable, unreadable};
use crate::files;
use crate::model::{Error, TaskSpec};

pub(crate) const TASK_FILE: &str = "tmux-task.toml";

/// The file that is read where there is no [`TASK_FILE`].
pub(crate) const PROCFILE: &str = "Procfile";

const ENV_FILE: &str = ".env";

/// Returns the tasks of the file, each after those that it starts after; otherwise in the file's order.
pub(crate) fn read_tasks(path: &Path) -> Result<Vec<TaskEntry>, Error> {
    parse_task_file(path, read_task_file(path)?)
}

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

pub(crate) fn parse_task_file(path: &Path, bytes: Vec<u8>) -> Result<Vec<TaskEntry>, Error> {
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    match is_procfile(path) {
        true => parse_procfile(path, &text),
        false => parse_tasks(path, &text),
    }
}

/// Whether a file is a Procfile, by its name: `Procfile`, `Procfile.dev`.
pub(crate) fn is_procfile(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let rest = name.and_then(|name| name.strip_prefix(PROCFILE));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && rest != ".toml")
}

/// Returns the tasks of a Procfile. They have the variables of a file `.env` beside it.
fn parse_procfile(path: &Path, text: &str) -> Result<Vec<TaskEntry>, Error> {
    let invalid =
        |start: usize, problem: &str| invalid(path, line_of(text.as_bytes(), start), problem);
    let named = |file: &str, start: usize, key: String| NamedPath {
        path: path.with_file_name(file),
        file: path.to_owned(),
        line: line_of(text.as_bytes(), start),
        key,
    };
    let has_env = fs::symlink_metadata(path.with_file_name(ENV_FILE)).is_ok();
    let env_file = has_env.then(|| named(ENV_FILE, 0, "env-file".to_owned()));
    let mut tasks: Vec<(usize, TaskEntry)> = Vec::new();
    let mut end = 0;
    for whole in text.split_inclusive('\n') {
        let start = end;
        end += whole.len();
        let line = whole.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.split_once(':');
        let parts = parts.map(|(name, command)| (name.trim_end(), command.trim_start()));
        let Some((name, command)) = parts.filter(|(_, command)| !command.is_empty()) else {
            return Err(invalid(start, "it is not `NAME: COMMAND`"));
        };
        if command.contains('\0') {
            return Err(invalid(start, "a command must not contain a NUL"));
        }
        if tasks.iter().any(|(_, task)| task.name == name) {
            return Err(invalid(start, "an earlier line has this name"));
        }
        let key = format!("tasks.{}", quotable(name));
        let name = task_name(name).map_err(|why| invalid(start, &format!("`{key}`: {why}")))?;
        let task = TaskEntry {
            name,
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
        let env_files = file.read_or("env-file", Vec::new(), files_of_variables);
        file.read("tasks", |tasks| {
            tasks.map(|name, task| {
                let read = |table: &mut Table<'_>| TaskEntry::read(tasks, name, table, &env_files);
                Some((task.start, task.table("a table", read)?))
            })
        })
    })?;
    let tasks = tasks.unwrap_or_default().into_values();
    in_order(path, text, tasks.collect())
}

/// Returns the tasks of a file, with their places: each after those it starts after, else in their order.
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
        let is_next =
            |(_, task): &(usize, TaskEntry)| task.after.iter().all(|name| placed.contains(name));
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

#[cfg(test)]
mod tests;
