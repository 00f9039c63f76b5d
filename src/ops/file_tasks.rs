//! What tasks are started from: the file that describes the tasks of a project, or a Procfile, and their last
//! launches. Which of them a command is about, how each is started, and which windows they have.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::list::list;
use super::lookup;
use super::run::{check_launch, check_texts_of};
use super::session::{TaskSession, no_directory};
use crate::config::{self, PROCFILE, TASK_FILE, TaskEntry};
use crate::model::{Error, Launch, Replaces, Task, TaskSpec};
use crate::rules::wire::{LaunchRecord, LsView, Request};
use crate::tmux;

/// The tasks of `[FILE] [NAME...]`.
#[derive(Debug)]
pub(crate) struct FileTasks {
    pub(crate) path: PathBuf,
    /// Whether the user has named the file. Else it is the project's.
    pub(crate) is_named: bool,
    /// All of the file, each after those that it starts after.
    all: Vec<TaskEntry>,
    /// Whether the user has named tasks. Else all are meant.
    has_names: bool,
}

impl FileTasks {
    /// Reads the file, and which of its tasks are named. Without a file, it is the one of the project. The
    /// first word is a file if no task can have that name, or if it ends in `.toml`; also if there is such a
    /// file or it is called as a Procfile is, and no task of this name in the project's.
    pub(crate) fn select(session: &TaskSession, mut words: Vec<PathBuf>) -> Result<Self, Error> {
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
        let is_named = words.first().is_some_and(|first| is_file(first));
        let path = match is_named {
            true => absolute(words.remove(0))?,
            false => usual,
        };
        let mut all = config::read_tasks(&path)?;
        for task in &all {
            if let Err(error) = check_texts_of(&task.spec.settings) {
                let (path, name) = (path.display(), &task.name);
                let why = format!("{path}: `tasks.{name}.notify-on`: {error}");
                return Err(Error::failed(why));
            }
        }
        for word in &words {
            let task = all.iter_mut().find(|task| word == Path::new(&task.name));
            let Some(task) = task else {
                let known: Vec<&str> = all.iter().map(|task| task.name.as_str()).collect();
                return Err(Error::missing(format!(
                    "no task `{}` in {}",
                    word.display(),
                    path.display()
                ))
                .with_hint(format!("it has {}", known.join(", "))));
            };
            task.is_named = true;
        }
        Ok(Self {
            path,
            is_named,
            all,
            has_names: !words.is_empty(),
        })
    }

    /// Returns the tasks that are meant, and those that they start after, as they are to be started.
    pub(crate) fn to_start(&self) -> Result<Vec<TaskEntry>, Error> {
        let stop = config::load(&lookup)?.stop;
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        let mut tasks = Vec::new();
        // Each comes after those that it starts after.
        for task in self.all.iter().rev() {
            if self.has_names && !task.is_named && !needed.contains(task.name.as_str()) {
                continue;
            }
            needed.extend(task.after.iter().map(String::as_str));
            tasks.push(task.clone());
        }
        let complete = |task: TaskEntry| {
            let mut task = task.resolve()?;
            task.spec.settings.stop = stop.complete(task.spec.settings.stop);
            check_launch(&launch_of(task.clone()))?;
            Ok(task)
        };
        tasks.into_iter().rev().map(complete).collect()
    }

    /// Returns the windows of the tasks that are meant and exist, in the groups in which they are to be
    /// ended: each task after those that were started after it. Also the errors for names that several
    /// windows have: which of them is meant is not known. What a launch would not take for a task is none:
    /// ending it would end a user's program.
    pub(crate) async fn windows_down(
        &self,
        session: &mut TaskSession,
    ) -> Result<(Vec<Vec<String>>, Vec<Error>), Error> {
        let view = list(session).await?;
        let (mut groups, mut ambiguous) = (Vec::new(), Vec::new());
        for group in groups_down(&self.all) {
            let mut windows = Vec::new();
            for task in group.iter().filter(|one| !self.has_names || one.is_named) {
                match find_in(&view, &task.name) {
                    Ok(found) => windows.extend(found.map(|task| task.window.to_string())),
                    Err(error) => ambiguous.push(error),
                }
            }
            if !windows.is_empty() {
                groups.push(windows);
            }
        }
        Ok((groups, ambiguous))
    }
}

/// Returns the tasks, which are in the order of their starts, in groups: dependents come first.
fn groups_down(tasks: &[TaskEntry]) -> Vec<Vec<&TaskEntry>> {
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&TaskEntry>> = Vec::new();
    for task in tasks.iter().rev() {
        let dependents = tasks
            .iter()
            .filter(|other| other.after.contains(&task.name));
        let depths_of = dependents.filter_map(|other| depths.get(other.name.as_str()));
        let depth = depths_of.max().map_or(0, |depth| depth + 1);
        depths.insert(&task.name, depth);
        if groups.len() <= depth {
            groups.resize(depth + 1, Vec::new());
        }
        groups[depth].push(task);
    }
    groups
}

pub(super) fn find_in<'a>(view: &'a LsView, name: &str) -> Result<Option<&'a Task>, Error> {
    let named = view.tasks.iter();
    let mut named = named.filter(|listed| listed.is_task_named(name));
    let first = named.next().map(|listed| &*listed.task);
    match first.zip(named.next()) {
        Some((first, second)) => Err(tmux::two_windows(name, first.window, second.task.window)),
        None => Ok(first),
    }
}

/// Returns how a task of a file is started, given what is found in its folders.
pub(super) fn launch_of(task: TaskEntry) -> Launch {
    Launch {
        name: task.name,
        spec: task.spec,
        replaces: Replaces::Ended,
        owner: Caller::of_environment().owner,
        ..Launch::default()
    }
}

/// Returns how the project's file starts the task of this name, whose last run was in the directory
/// `cwd`. `None` if the project has no such task: also if its file cannot be read or is another user's,
/// and if the run was outside the project and the file does not say so, because the session may be that
/// of another one.
pub(super) fn launch_in_project(
    session: &TaskSession,
    name: &str,
    cwd: &Path,
) -> Result<Option<Launch>, Error> {
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
    Ok(Some(launch_of(task.resolve()?)))
}

/// Completes a launch without a command by the task's last one: its name, its command, and its directory and
/// its restart policy unless another one is given. `launch.name` may be a window id.
///
/// The environment is not recorded: the run gets this one, or tmux's if the last run had that. A task
/// that was launched with additional variables needs them again.
pub(crate) async fn run_again(session: &mut TaskSession, launch: Launch) -> Result<Launch, Error> {
    let (name, spec) = find_spec(session, &launch.name).await?;
    as_recorded(launch, name, spec)
}

fn as_recorded(launch: Launch, name: String, last: Option<TaskSpec>) -> Result<Launch, Error> {
    let refused = |why: String, hint: String| Err(Error::failed(why).with_hint(hint));
    let Some(last) = last else {
        return refused(
            format!("the command of task `{name}` is not recorded"),
            format!("`tmux-task run {name} -- COMMAND` starts it and records the command"),
        );
    };
    if last.env_digest.is_some() && launch.spec.env.is_empty() {
        return refused(
            format!("task `{name}` was started with --env, and the values are not recorded"),
            format!("`tmux-task run {name} --env K=V` runs its command again with these"),
        );
    }
    Ok(Launch {
        name,
        spec: launch.spec.or(last),
        ..launch
    })
}

/// Returns how to run these tasks again, each once: as the project's file has them, or as last launched.
pub(crate) async fn plan_restarts(
    session: &mut TaskSession,
    names: Vec<String>,
) -> Result<Vec<Launch>, Error> {
    let mut all: Vec<Launch> = Vec::new();
    for name in names {
        let (name, last) = find_spec(session, &name).await?;
        let of_file = match last.as_ref().and_then(|last| last.cwd.as_deref()) {
            Some(cwd) => launch_in_project(session, &name, cwd)?,
            None => None,
        };
        let mut launch = match of_file {
            Some(of_file) => of_file,
            None => as_recorded(Launch::default(), name, last)?,
        };
        launch.replaces = Replaces::Any;
        launch.owner = Caller::of_environment().owner;
        check_launch(&launch)?;
        if !all.iter().any(|other| other.name == launch.name) {
            all.push(launch);
        }
    }
    Ok(all)
}

/// Returns a task's name, and what its last launch has said if that is recorded.
pub(super) async fn find_spec(
    session: &mut TaskSession,
    task: &str,
) -> Result<(String, Option<TaskSpec>), Error> {
    let request = Request::Record {
        task: task.to_owned(),
    };
    let LaunchRecord { window_name, spec } = session.ask(request).await?;
    Ok((window_name, spec.map(|spec| *spec)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{listed, task};
    use crate::rules::wire::LsTask;

    #[test]
    fn tasks_end_after_those_that_were_started_after_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.toml");
        let text = "[tasks.db]\ncommand = 'a'\n\
                    [tasks.cache]\ncommand = 'a'\n\
                    [tasks.api]\ncommand = 'a'\nafter = ['db', 'cache']\n\
                    [tasks.web]\ncommand = 'a'\nafter = ['api', 'db']\n\
                    [tasks.docs]\ncommand = 'a'\n";
        std::fs::write(&path, text).unwrap();
        let tasks = config::read_tasks(&path).unwrap();
        let groups = groups_down(&tasks).into_iter();
        let names =
            |group: Vec<&TaskEntry>| group.into_iter().map(|task| task.name.clone()).collect();
        let groups: Vec<Vec<String>> = groups.map(names).collect();
        let expected: [&[&str]; 3] = [&["docs", "web"], &["api"], &["cache", "db"]];
        assert_eq!(groups, expected);
    }

    #[track_caller]
    fn check(tasks: &[Task], expected: Result<Option<&str>, &str>) {
        let tasks = tasks.iter().map(|task| LsTask::new(task.clone(), None));
        let view = listed(tasks.collect());
        let found = find_in(&view, "db").map(|task| task.map(|task| task.window.to_string()));
        let found = found.map_err(|error| error.to_string());
        let found = found
            .as_ref()
            .map(Option::as_deref)
            .map_err(|error| &**error);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_files_task_is_the_one_that_a_launch_would_find() {
        let [first, second] = ["@1 db running", "@2 db running"].map(task);
        let linked = Task {
            is_linked: true,
            ..first.clone()
        };
        check(&[task("@2 web running")], Ok(None));
        check(std::slice::from_ref(&linked), Ok(None));
        check(&[linked, second.clone()], Ok(Some("@2")));
        let several = "two windows are named `db`: @1 and @2";
        check(&[first, second], Err(several));
    }
}
