//! The file that describes the tasks of a project, or a Procfile: which of them a command is about, and
//! how each is started.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::run::{RunOptions, check_texts_of};
use super::session::{TaskSession, no_directory};
use crate::config::{self, PROCFILE, TASK_FILE, TaskEntry};
use crate::model::{Error, Replaces};

/// The file that a command has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadFile {
    pub(crate) path: PathBuf,
    /// Whether the user has named it. Else it is the project's.
    pub(crate) is_named: bool,
}

impl ReadFile {
    /// Whether it is a Procfile that was read because there is no file of ours: the user may not know
    /// which one it is.
    pub(crate) fn is_found_procfile(&self) -> bool {
        !self.is_named && self.path.ends_with(PROCFILE)
    }
}

pub(super) struct SelectedTasks {
    pub(super) file: ReadFile,
    /// All of the file, each after those that it starts after.
    pub(super) all: Vec<TaskEntry>,
    /// Those that the user has named; empty for all.
    pub(super) names: BTreeSet<String>,
}

/// Reads the file of `[FILE] [NAME...]`, and which of its tasks are named. Without a file, it is the one
/// of the project. The first word is a file if no task can have that name, or if it ends in `.toml`; also
/// if there is such a file or it is called as a Procfile is, and no task of this name in the project's.
pub(super) fn select(
    session: &TaskSession,
    mut words: Vec<PathBuf>,
) -> Result<SelectedTasks, Error> {
    let usual = locate(session)?;
    let has_task = |name: &Path| {
        let tasks = config::read_tasks(&usual).unwrap_or_default();
        tasks.iter().any(|task| name == Path::new(&task.name))
    };
    let is_file = |word: &Path| {
        word.components().count() != 1
            || word
                .extension()
                .is_some_and(|extension| extension == "toml")
            || (word.is_file() || config::is_procfile(word)) && !has_task(word)
    };
    let file = match words.first() {
        Some(first) if is_file(first) => ReadFile {
            path: absolute(words.remove(0))?,
            is_named: true,
        },
        Some(_) | None => ReadFile {
            path: usual.clone(),
            is_named: false,
        },
    };
    let mut all = config::read_tasks(&file.path)?;
    for task in &all {
        if let Err(error) = check_texts_of(&task.spec.settings) {
            let (path, name) = (file.path.display(), &task.name);
            let why = format!("{path}: `tasks.{name}.notify-on`: {error}");
            return Err(Error::failed(why));
        }
    }
    let mut names = BTreeSet::new();
    for word in words {
        let task = all.iter().find(|task| word == Path::new(&task.name));
        let Some(task) = task else {
            let known: Vec<&str> = all.iter().map(|task| task.name.as_str()).collect();
            return Err(Error::missing(format!(
                "no task `{}` in {}",
                word.display(),
                file.path.display()
            ))
            .with_hint(format!("it has {}", known.join(", "))));
        };
        names.insert(task.name.clone());
    }
    for task in &mut all {
        task.is_named = names.contains(&task.name);
    }
    Ok(SelectedTasks { file, all, names })
}

impl SelectedTasks {
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    /// Returns the tasks that are named, and those that they start after.
    pub(super) fn with_needed(&self) -> Vec<TaskEntry> {
        let mut needed: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        // Each comes after those that it starts after.
        for task in self.all.iter().rev() {
            if needed.contains(task.name.as_str()) {
                needed.extend(task.after.iter().map(String::as_str));
            }
        }
        let tasks = self.all.iter();
        let is_needed =
            |task: &&TaskEntry| self.names.is_empty() || needed.contains(task.name.as_str());
        tasks.filter(is_needed).cloned().collect()
    }
}

/// Returns how a task of a file is started, given what is found in its folders.
pub(super) fn options_of(task: TaskEntry) -> RunOptions {
    RunOptions {
        name: task.name,
        spec: task.spec,
        replaces: Replaces::Ended,
        owner: Caller::of_environment().owner,
        ..RunOptions::default()
    }
}

/// Returns how the project's file starts the task of this name, whose last run was in the directory
/// `cwd`. `None` if the project has no such task: also if its file cannot be read or is another user's,
/// and if the run was outside the project and the file does not say so, because the session may be that
/// of another one.
///
/// # Errors
///
/// When there is something wrong in the file.
pub(super) fn options_in_project(
    session: &TaskSession,
    name: &str,
    cwd: &Path,
) -> Result<Option<RunOptions>, Error> {
    let path = locate(session)?;
    let is_inside = path.parent().is_some_and(|folder| cwd.starts_with(folder));
    let Ok(bytes) = config::read_task_file(&path) else {
        return Ok(None);
    };
    let tasks = match config::parse_task_file(&path, bytes) {
        Ok(tasks) => tasks,
        Err(error) if is_inside => return Err(error),
        Err(_) => return Ok(None),
    };
    let is_there = |task: &TaskEntry| task.cwd.resolve().is_ok_and(|folder| folder == cwd);
    let task = tasks.into_iter().find(|task| task.name == name);
    let Some(task) = task.filter(|task| is_inside || is_there(task)) else {
        return Ok(None);
    };
    Ok(Some(options_of(task.resolve()?)))
}

/// Returns the names of the tasks in the project's file; none if it cannot be read.
pub(crate) fn names_in_file(session: &TaskSession) -> Vec<String> {
    let tasks = locate(session).ok().map(|path| config::read_tasks(&path));
    let tasks = tasks.and_then(Result::ok).unwrap_or_default();
    tasks.into_iter().map(|task| task.name).collect()
}

/// Returns the path of the project's file: that of a Procfile if there is no other one.
fn locate(session: &TaskSession) -> Result<PathBuf, Error> {
    let folder = session.project.as_deref().unwrap_or(Path::new(""));
    let file = folder.join(TASK_FILE);
    let found = file.symlink_metadata();
    let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let procfile = folder.join(PROCFILE);
    absolute(if is_missing && procfile.is_file() {
        procfile
    } else {
        file
    })
}

fn absolute(path: PathBuf) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| no_directory(&error, None))
}
