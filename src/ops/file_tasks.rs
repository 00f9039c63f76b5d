//! The file that describes the tasks of a project: which of them a command is about, and how each is
//! started.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::error::OpsError;
use super::run::{LaunchWait, RunOptions};
use super::session::TaskSession;
use crate::config::{self, ConfigError, TASK_FILE, TaskEntry};
use crate::model::Replaces;

/// The tasks of a file that a command is about.
pub(super) struct SelectedTasks {
    /// All of the file, each after those that it starts after.
    pub(super) all: Vec<TaskEntry>,
    /// Those that the user has named; empty for all.
    pub(super) names: BTreeSet<String>,
}

/// Reads the file of `[FILE] [NAME...]`, and which of its tasks are named. Without a file, it is the one
/// of the project. The first word is a file if no task can have that name, or if it ends in `.toml`; also
/// if there is such a file, and no task of this name in the project's.
pub(super) fn select(
    session: &TaskSession,
    mut words: Vec<PathBuf>,
) -> Result<SelectedTasks, OpsError> {
    let usual = locate(session, None)?;
    let has_task = |name: &Path| {
        let tasks = config::read_tasks(&usual).unwrap_or_default();
        tasks.iter().any(|task| name == Path::new(&task.name))
    };
    let is_file = |word: &Path| {
        word.components().count() != 1
            || word
                .extension()
                .is_some_and(|extension| extension == "toml")
            || word.is_file() && !has_task(word)
    };
    let path = match words.first() {
        Some(first) if is_file(first) => locate(session, Some(words.remove(0)))?,
        Some(_) | None => usual.clone(),
    };
    let all = config::read_tasks(&path).map_err(OpsError::Config)?;
    let mut names = BTreeSet::new();
    for word in words {
        let task = all.iter().find(|task| word == Path::new(&task.name));
        let Some(task) = task else {
            let known: Vec<&str> = all.iter().map(|task| task.name.as_str()).collect();
            return Err(OpsError::missing(
                format!("no task `{}` in {}", word.display(), path.display()),
                format!("it has {}", known.join(", ")),
            ));
        };
        names.insert(task.name.clone());
    }
    Ok(SelectedTasks { all, names })
}

impl SelectedTasks {
    /// Whether the command is about this task.
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

/// Returns how a task of a file is started.
pub(super) fn options_of(task: TaskEntry) -> Result<RunOptions, OpsError> {
    let cwd = task.cwd.resolve(&task.name).map_err(OpsError::Config)?;
    Ok(RunOptions {
        name: task.name,
        cwd: Some(cwd),
        is_env_clean: false,
        env: task.env,
        command: task.command.into_iter().map(Into::into).collect(),
        replaces: Replaces::Ended,
        owner: Caller::of_environment().owner,
        wait: LaunchWait::No,
        restart: task.restart,
        stop: task.stop,
        notify_on: task.notify_on,
        slot: task.slot,
    })
}

/// Returns how the project's file starts the task of this name, whose last run was in the directory
/// `cwd`. `None` if the project has no such task: also if its file cannot be read or is another user's,
/// and if the run was outside the project, because the session may be that of another one.
///
/// # Errors
///
/// When there is something wrong in the file.
pub(super) fn options_in_project(
    session: &TaskSession,
    name: &str,
    cwd: &Path,
) -> Result<Option<RunOptions>, OpsError> {
    let path = locate(session, None)?;
    if !path.parent().is_some_and(|folder| cwd.starts_with(folder)) {
        return Ok(None);
    }
    let tasks = match config::read_tasks(&path) {
        Ok(tasks) => tasks,
        Err(error @ ConfigError::Invalid { .. }) => return Err(OpsError::Config(error)),
        Err(_) => return Ok(None),
    };
    let task = tasks.into_iter().find(|task| task.name == name);
    task.map(options_of).transpose()
}

fn locate(session: &TaskSession, file: Option<PathBuf>) -> Result<PathBuf, OpsError> {
    let file = file.unwrap_or_else(|| {
        let folder = session.project.as_deref().unwrap_or(Path::new(""));
        folder.join(TASK_FILE)
    });
    std::path::absolute(file).map_err(|error| OpsError::no_directory(&error, None))
}
