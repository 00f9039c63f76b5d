//! Reads a file that describes the tasks of a project, for `up` and `down`: `tmux-task.toml`, or a
//! Procfile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::file::{MAX_BYTES, line_of, not_utf8, parse_as};
use super::given_task::{GivenTask, Ready, files_of_variables};
use super::named_path::NamedPath;
use super::value::{invalid, quotable, unreadable};
use crate::files;
use crate::model::{Error, TASK_NAME_RULE, TaskSpec, is_task_name};

/// The file's usual name, in the project's folder.
pub(crate) const TASK_FILE: &str = "tmux-task.toml";

/// The file that is read where there is no [`TASK_FILE`].
pub(crate) const PROCFILE: &str = "Procfile";

/// The file of variables beside a Procfile.
const ENV_FILE: &str = ".env";

/// How many tasks a file has at most: more windows than tmux serves well.
const MOST_TASKS: usize = 1000;

/// A task of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEntry {
    pub(crate) name: String,
    /// What is started. Its directory, and the variables of its files, are there once
    /// [`TaskEntry::resolve`] has found them.
    pub(crate) spec: TaskSpec,
    /// Where it runs.
    pub(crate) cwd: NamedPath,
    /// The files with variables for it; what its table has goes before them.
    env_files: Vec<NamedPath>,
    /// The tasks that it starts after.
    pub(crate) after: Vec<String>,
    /// What says that it is ready. Without it, it is ready when it has ended with code 0.
    pub(crate) ready: Option<Ready>,
    /// Whether the user has named it: then it runs again although it has finished.
    pub(crate) is_named: bool,
}

impl TaskEntry {
    /// Finds its directory, and its variables: those of its files as they are now, and its own.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or is not one of variables, or there is no such directory.
    pub(crate) fn resolve(mut self) -> Result<Self, Error> {
        self.spec.cwd = Some(self.cwd.resolve()?);
        let mut variables = BTreeMap::new();
        for file in &self.env_files {
            variables.extend(file.read_variables()?);
        }
        variables.extend(self.spec.env);
        self.spec.env = variables.into_iter().collect();
        Ok(self)
    }
}

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
    let processes = parse_processes(text)
        .map_err(|(start, problem)| invalid(path, line_of(text.as_bytes(), start), problem))?;
    let task = |(name, (start, command)): (&str, (usize, &str))| {
        let fields = GivenTask::of_command(command);
        (name.to_owned(), Spanned::new(start..start, fields))
    };
    let has_env = fs::symlink_metadata(path.with_file_name(ENV_FILE)).is_ok();
    let env_file = has_env.then(|| Spanned::new(0..0, ENV_FILE.to_owned()));
    let file = TaskFile {
        env_file: env_file.into_iter().collect(),
        tasks: processes.into_iter().map(task).collect(),
    };
    entries(path, text, &file)
}

/// Returns the tasks in `text`. `path` is for errors, and its folder is where they run.
fn parse_tasks(path: &Path, text: &str) -> Result<Vec<TaskEntry>, Error> {
    entries(path, text, &parse_as(path, text)?)
}

/// Checks the tasks of a file with this text, and returns them in their order.
fn entries(path: &Path, text: &str, file: &TaskFile) -> Result<Vec<TaskEntry>, Error> {
    let invalid = |span: Range<usize>, problem: String| {
        invalid(path, line_of(text.as_bytes(), span.start), problem)
    };
    if file.tasks.is_empty() {
        return Err(invalid(0..0, "there is no task in it".to_owned()));
    }
    let mut places: Vec<Range<usize>> = file.tasks.values().map(Spanned::span).collect();
    places.sort_by_key(|place| place.start);
    if let Some(place) = places.get(MOST_TASKS) {
        let n = places.len();
        let problem = format!("{n} tasks are too many: a file has at most {MOST_TASKS}");
        return Err(invalid(place.clone(), problem));
    }
    for (name, fields) in &file.tasks {
        let shown = quotable(name);
        for after in &fields.get_ref().after {
            let other = quotable(after.get_ref());
            if after.get_ref() == name {
                let problem = format!("`tasks.{shown}.after`: it cannot start after itself");
                return Err(invalid(after.span(), problem));
            }
            if !file.tasks.contains_key(after.get_ref()) {
                let problem = format!("`tasks.{shown}.after`: there is no task `{other}`");
                return Err(invalid(after.span(), problem));
            }
        }
        if !is_task_name(name) {
            let problem =
                format!("`tasks.{shown}`: `{shown}` is not a task name: {TASK_NAME_RULE}");
            return Err(invalid(fields.span(), problem));
        }
        if let Some((span, problem)) = fields.get_ref().problem() {
            return Err(invalid(span, format!("`tasks.{shown}.{problem}")));
        }
    }
    let order = in_order(&file.tasks).map_err(|circle| {
        let names = quotable(&circle.names);
        let problem = format!("tasks that start after each other: {names}");
        invalid(circle.span, problem)
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let named = |name: &str, span: Range<usize>, key: String| NamedPath {
        path: folder.join(name),
        file: path.to_owned(),
        line: line_of(text.as_bytes(), span.start),
        key,
    };
    let entry_of = |(name, spanned): (&str, &Spanned<GivenTask>)| {
        let fields = spanned.get_ref();
        let of_task = |key: &str| format!("tasks.{}.{key}", quotable(name));
        let given = fields.cwd.as_ref();
        let span = given.map_or(spanned.span(), Spanned::span);
        let cwd = given.map_or("", |cwd| cwd.get_ref());
        let cwd = named(cwd, span, of_task("cwd"));
        let (env_files, key) = match &fields.env_file {
            Some(own) => (own, of_task("env-file")),
            None => (&file.env_file, "env-file".to_owned()),
        };
        let env_files = env_files.iter();
        let env_files = env_files.map(|file| named(file.get_ref(), file.span(), key.clone()));
        TaskEntry {
            name: name.to_owned(),
            spec: fields.spec(),
            cwd,
            env_files: env_files.collect(),
            after: fields
                .after
                .iter()
                .map(|name| name.get_ref().clone())
                .collect(),
            ready: fields.ready.clone(),
            is_named: false,
        }
    };
    Ok(order.into_iter().map(entry_of).collect())
}

/// Tasks that start after each other.
struct Circle {
    /// The place of a task that waits for them.
    span: Range<usize>,
    /// `a after b after a`.
    names: String,
}

/// Returns the tasks, each after those that it starts after.
fn in_order(
    tasks: &BTreeMap<String, Spanned<GivenTask>>,
) -> Result<Vec<(&str, &Spanned<GivenTask>)>, Circle> {
    let mut left: Vec<(&str, &Spanned<GivenTask>)> = tasks
        .iter()
        .map(|(name, fields)| (name.as_str(), fields))
        .collect();
    left.sort_by_key(|(_, fields)| fields.span().start);
    let mut order = Vec::new();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while !left.is_empty() {
        let next = left.iter().position(|(_, fields)| {
            let mut after = fields.get_ref().after.iter();
            after.all(|name| placed.contains(name.get_ref().as_str()))
        });
        let Some(next) = next else {
            let (name, fields) = left[0];
            return Err(Circle {
                span: fields.span(),
                names: circle_from(name, tasks, &placed),
            });
        };
        let (name, fields) = left.remove(next);
        placed.insert(name);
        order.push((name, fields));
    }
    Ok(order)
}

/// Follows the tasks that are not placed until one comes again: `a after b after a`.
fn circle_from<'a>(
    name: &'a str,
    tasks: &'a BTreeMap<String, Spanned<GivenTask>>,
    placed: &BTreeSet<&str>,
) -> String {
    let mut path = vec![name];
    loop {
        let last = path.last().copied().unwrap_or_default();
        let after = tasks.get(last).into_iter();
        let mut after = after.flat_map(|fields| &fields.get_ref().after);
        let Some(next) = after.find(|name| !placed.contains(name.get_ref().as_str())) else {
            return path.join(" after ");
        };
        let next = next.get_ref().as_str();
        let first = path.iter().position(|known| *known == next);
        path.push(next);
        if let Some(first) = first {
            return path[first..].join(" after ");
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct TaskFile {
    /// For all tasks that name none.
    #[serde(default, deserialize_with = "files_of_variables", rename = "env-file")]
    env_file: Vec<Spanned<String>>,
    #[serde(default)]
    tasks: BTreeMap<String, Spanned<GivenTask>>,
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
