//! The tasks of a file: which are to be started, and how.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::caller::Caller;
use super::error::OpsError;
use super::list::list;
use super::run::{LaunchWait, RunOptions, StartedRun, run};
use super::session::Session;
use crate::client::Client;
use crate::config::{self, TASK_FILE, TaskEntry};
use crate::model::Replaces;
use crate::tmux::{CommandWords, Gate, LaunchError};
use crate::wire::{LaunchedRun, LsView, TaskFields};

/// A task of a file.
#[derive(Debug, Clone)]
pub(crate) struct TaskPlan {
    pub(crate) name: String,
    /// The tasks that it starts after.
    pub(crate) after: Vec<String>,
    /// The text of its output that says that it is ready.
    pub(crate) ready: Option<String>,
    options: RunOptions,
}

/// What is to be done for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// It runs already with the same command in the same directory.
    Runs {
        window: String,
        /// The number of its run.
        run: Option<u32>,
    },
    /// It is to be started, if there is still no other run than those that may be replaced.
    Needed(Replaces),
}

/// Returns the tasks of the file, each after those that it starts after. Without a file, it is the one
/// of the project.
pub(crate) async fn plan_tasks(
    session: &Session,
    file: Option<PathBuf>,
) -> Result<Vec<TaskPlan>, OpsError> {
    let tasks = config::read_tasks(&locate(session, file)?).map_err(OpsError::Config)?;
    let mut plans = Vec::new();
    for task in tasks {
        let TaskEntry {
            name,
            command,
            cwd,
            env,
            restart,
            stop,
            after,
            ready,
        } = task;
        let cwd = cwd.resolve(&name).map_err(OpsError::Config)?;
        let options = RunOptions {
            name: name.clone(),
            cwd: Some(cwd),
            is_env_clean: false,
            env,
            command: command.into_iter().map(Into::into).collect(),
            replaces: Replaces::Ended,
            owner: Caller::of_environment().owner,
            wait: LaunchWait::No,
            restart,
            stop,
        };
        options.check()?;
        plans.push(TaskPlan {
            name,
            after,
            ready,
            options,
        });
    }
    Ok(plans)
}

/// The windows of a file's tasks.
#[derive(Debug)]
pub(crate) struct WindowsDown {
    /// Those to end together, and then the next ones.
    pub(crate) groups: Vec<Vec<String>>,
    /// The names that several windows have: which of them is meant is not known.
    pub(crate) ambiguous: Vec<LaunchError>,
}

/// Returns the windows of the file's tasks that exist, in the groups in which they are to be ended: each
/// task after those that were started after it. What a launch would not take for a task is none: ending
/// it would end a user's program.
pub(crate) async fn windows_down(
    session: &mut Session,
    file: Option<PathBuf>,
) -> Result<WindowsDown, OpsError> {
    let tasks = config::read_tasks(&locate(session, file)?).map_err(OpsError::Config)?;
    let view = list(session).await?;
    let mut down = WindowsDown {
        groups: Vec::new(),
        ambiguous: Vec::new(),
    };
    for group in groups_down(&tasks) {
        let mut windows = Vec::new();
        for name in group {
            match find(&view, name) {
                Ok(found) => windows.extend(found.map(|task| task.window_id.clone())),
                Err(error) => down.ambiguous.push(error),
            }
        }
        if !windows.is_empty() {
            down.groups.push(windows);
        }
    }
    Ok(down)
}

/// Returns the names in groups: each task is in a later one than those that start after it. `tasks` are
/// in the order in which they start.
fn groups_down(tasks: &[TaskEntry]) -> Vec<Vec<&str>> {
    let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&str>> = Vec::new();
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
        groups[depth].push(&task.name);
    }
    groups
}

/// Returns the task of this name, as a launch finds it.
fn find<'a>(view: &'a LsView, name: &str) -> Result<Option<&'a TaskFields>, LaunchError> {
    let named = view.tasks.iter();
    let mut named = named.filter(|listed| listed.is_task_named(name));
    let first = named.next().map(|listed| &listed.task);
    let ids = first.zip(named.next()).and_then(|(first, second)| {
        Some((
            first.window_id.parse().ok()?,
            second.task.window_id.parse().ok()?,
        ))
    });
    match ids {
        Some((first, second)) => Err(LaunchError::Ambiguous {
            name: name.to_owned(),
            first,
            second,
        }),
        None => Ok(first),
    }
}

fn locate(session: &Session, file: Option<PathBuf>) -> Result<PathBuf, OpsError> {
    let file = file.unwrap_or_else(|| {
        let folder = session.project.as_deref().unwrap_or(Path::new(""));
        folder.join(TASK_FILE)
    });
    std::path::absolute(file).map_err(|error| OpsError::NoDirectory { error, hint: None })
}

impl TaskPlan {
    /// Returns what is to be done, given the tasks that there are.
    ///
    /// # Errors
    ///
    /// When several windows have its name.
    pub(crate) fn start(&self, view: &LsView) -> Result<Start, LaunchError> {
        let command = CommandWords::from_words(self.options.command.clone()).shown_bounded();
        let cwd = self.options.cwd.as_ref().and_then(|cwd| cwd.to_str());
        let Some(task) = find(view, &self.name)?.filter(|task| !task.dead) else {
            return Ok(Start::Needed(Replaces::Ended));
        };
        let shown = task.current_command.as_deref();
        let has_command = shown.is_some_and(|shown| {
            // A long one is shown in part.
            shown == command
                || shown
                    .strip_suffix('…')
                    .is_some_and(|part| command.starts_with(part))
        });
        if has_command && task.task_cwd.as_deref() == cwd {
            return Ok(Start::Runs {
                window: task.window_id.clone(),
                run: task.run,
            });
        }
        Ok(Start::Needed(
            task.pane_pid.map_or(Replaces::Ended, Replaces::EndedOr),
        ))
    }
}

/// A task of a file that runs.
#[derive(Debug)]
pub(crate) enum FileTaskRun {
    /// It was started now.
    Now(Box<StartedRun>),
    /// It ran already with the same command in the same directory.
    Before {
        window: String,
        /// The number of its run.
        run: Option<u32>,
    },
}

impl FileTaskRun {
    /// Returns the task's window.
    pub(crate) fn window(&self) -> &str {
        match self {
            Self::Now(started) => &started.run.window_id,
            Self::Before { window, .. } => window,
        }
    }

    /// Returns the number of a run that was not started now.
    pub(super) fn earlier_run(&self) -> Option<u32> {
        match self {
            Self::Now(_) => None,
            Self::Before { run, .. } => *run,
        }
    }

    /// Returns a run that was started now, with the daemon to wait with and the gate that its command
    /// waits at.
    pub(super) fn into_launched(self) -> Option<(Client, LaunchedRun, Option<Gate>)> {
        let Self::Now(started) = self else {
            return None;
        };
        let StartedRun {
            run, daemon, gate, ..
        } = *started;
        Some((daemon?, run, gate))
    }
}

/// How often a task may change between a look at it and its launch.
const LOOKS: usize = 10;

/// Starts a task of a file unless it runs already. `seen` are the tasks as they were just now, if that
/// is known; `will_wait` says that it will be waited for. Of several commands that start a task at the
/// same time, one does, and the others find that it runs.
pub(crate) async fn start_one(
    session: &mut Session,
    plan: &TaskPlan,
    seen: Option<&LsView>,
    will_wait: bool,
) -> Result<FileTaskRun, OpsError> {
    let mut seen = seen.map(|seen| plan.start(seen)).transpose()?;
    let mut failed = None;
    for _ in 0..LOOKS {
        let start = match seen.take() {
            Some(start) => start,
            None => plan.start(&list(session).await?)?,
        };
        let replaces = match start {
            Start::Runs { window, run } => return Ok(FileTaskRun::Before { window, run }),
            Start::Needed(replaces) => replaces,
        };
        if let Some((tried, error)) = failed.take()
            && tried == replaces
        {
            return Err(error);
        }
        let options = RunOptions {
            replaces,
            wait: match plan.ready {
                Some(_) if will_wait => LaunchWait::Text,
                Some(_) | None => LaunchWait::No,
            },
            ..plan.options.clone()
        };
        session.resolve_name().await?;
        match run(session.for_request(), options).await {
            Ok(started) => return Ok(FileTaskRun::Now(Box::new(started))),
            // The task may have been started meanwhile.
            Err(error) => failed = Some((replaces, error)),
        }
    }
    let error = failed.map(|(_, error)| error);
    Err(error.unwrap_or(OpsError::Launch(LaunchError::Contended)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Task;
    use crate::model::test_notation::task;
    use crate::wire::LsTask;

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
        let expected: [&[&str]; 3] = [&["docs", "web"], &["api"], &["cache", "db"]];
        assert_eq!(groups_down(&tasks), expected);
    }

    fn view(tasks: impl IntoIterator<Item = Task>) -> LsView {
        let listed = |task: Task| LsTask::new((&task).into(), None, None).with_name_of(&task);
        LsView {
            session_name: "S".to_owned(),
            exists: true,
            supervised: true,
            captured_at: 1,
            tasks: tasks.into_iter().map(listed).collect(),
        }
    }

    #[track_caller]
    fn check(tasks: impl IntoIterator<Item = Task>, expected: Result<Option<&str>, &str>) {
        let view = view(tasks);
        let found = find(&view, "db").map(|task| task.map(|task| task.window_id.as_str()));
        let found = found.map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_files_task_is_the_one_that_a_launch_would_find() {
        let linked = || Task {
            is_linked: true,
            ..task("@1 db running")
        };
        check([task("@2 web running")], Ok(None));
        check([linked()], Ok(None));
        check([linked(), task("@2 db running")], Ok(Some("@2")));
        check(
            [task("@1 db running"), task("@4 db running")],
            Err("two windows are named `db`: @1 and @4"),
        );
    }
}
