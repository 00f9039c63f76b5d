//! The tasks of a file: which are to be started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::again::find_spec;
use super::file_tasks::{ReadFile, options_of, select};
use super::list::list;
use super::lookup;
use super::run::{LaunchWait, RunOptions, StartedRun, run as launch};
use super::session::TaskSession;
use crate::config::{self, Ready, TaskEntry};
use crate::model::{Error, Task};
use crate::tmux;
use crate::wire::LsView;

#[derive(Debug)]
pub(crate) struct FilePlan {
    pub(crate) file: ReadFile,
    /// Each after those that it starts after.
    pub(crate) tasks: Vec<TaskEntry>,
}

/// A live run of a task that was started before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierRun {
    pub(crate) window: String,
    /// Its number.
    pub(super) run: Option<u32>,
    /// The keys whose values in the file are not those that it runs with.
    pub(crate) outdated: Vec<&'static str>,
}

/// Returns the tasks of `[FILE] [NAME...]`, with those that the named ones need.
pub(crate) async fn plan_tasks(
    session: &TaskSession,
    words: Vec<PathBuf>,
) -> Result<FilePlan, Error> {
    let selected = select(session, words)?;
    let stop = config::load(&lookup)?.stop;
    let mut tasks = Vec::new();
    for task in selected.with_needed() {
        let mut task = task.resolve()?;
        task.spec.settings.stop = stop.complete(task.spec.settings.stop);
        options_of(task.clone()).check()?;
        tasks.push(task);
    }
    let file = selected.file;
    Ok(FilePlan { file, tasks })
}

/// The windows of a file's tasks.
#[derive(Debug)]
pub(crate) struct WindowsDown {
    pub(crate) file: ReadFile,
    /// Those to end together, and then the next ones.
    pub(crate) groups: Vec<Vec<String>>,
    /// The names that several windows have: which of them is meant is not known.
    pub(crate) ambiguous: Vec<Error>,
}

/// Returns the windows of the tasks of `[FILE] [NAME...]` that exist, in the groups in which they are to
/// be ended: each task after those that were started after it. What a launch would not take for a task
/// is none: ending it would end a user's program.
pub(crate) async fn windows_down(
    session: &mut TaskSession,
    words: Vec<PathBuf>,
) -> Result<WindowsDown, Error> {
    let selected = select(session, words)?;
    let view = list(session).await?;
    let mut down = WindowsDown {
        file: selected.file.clone(),
        groups: Vec::new(),
        ambiguous: Vec::new(),
    };
    for group in groups_down(&selected.all) {
        let mut windows = Vec::new();
        for name in group.into_iter().filter(|name| selected.is_named(name)) {
            match find(&view, name) {
                Ok(found) => windows.extend(found.map(|task| task.window.to_string())),
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
fn find<'a>(view: &'a LsView, name: &str) -> Result<Option<&'a Task>, Error> {
    let named = view.tasks.iter();
    let mut named = named.filter(|listed| listed.is_task_named(name));
    let first = named.next().map(|listed| &*listed.task);
    match first.zip(named.next()) {
        Some((first, second)) => Err(tmux::two_windows(name, first.window, second.task.window)),
        None => Ok(first),
    }
}

/// Returns the run of a task of a file; `None` where it is to be started, if no other run is alive.
///
/// # Errors
///
/// When several windows have its name.
async fn run_of(session: &mut TaskSession, wanted: &TaskEntry) -> Result<Option<TaskRun>, Error> {
    let view = list(session).await?;
    let Some(task) = find(&view, &wanted.name)? else {
        return Ok(None);
    };
    let window = task.window.to_string();
    // Where something says that it is ready, it is to run.
    let has_finished = task.exit_code() == Some(0) && wanted.ready.is_none();
    if !task.is_alive() && (!has_finished || wanted.is_named) {
        return Ok(None);
    }
    let command = wanted.spec.shown();
    let has_command = task.command.as_deref().is_some_and(|shown| {
        // A long one is shown in part.
        shown == command
            || shown
                .strip_suffix('…')
                .is_some_and(|part| command.starts_with(part))
    });
    let cwd = wanted.spec.cwd.as_ref().and_then(|cwd| cwd.to_str());
    // What the last launch has recorded says whether its variables are those of the file.
    let (_, last) = find_spec(session, &window).await?;
    let env_digest = last.and_then(|last| last.env_digest);
    let outdated = [
        ("env", wanted.spec.digest_of_env() != env_digest),
        ("command", !has_command),
        ("cwd", task.cwd.as_deref() != cwd),
    ];
    let outdated = outdated.into_iter().filter(|(_, is_other)| *is_other);
    let mut outdated: Vec<&str> = outdated.map(|(key, _)| key).collect();
    if !task.is_alive() {
        return Ok(outdated.is_empty().then_some(TaskRun::Finished(window)));
    }
    outdated.extend(task.settings.differences(&wanted.spec.settings));
    Ok(Some(TaskRun::Running(EarlierRun {
        window,
        run: task.run,
        outdated,
    })))
}

/// The run of a task of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskRun {
    /// It was started now, in this window.
    Started(String),
    /// It ran before, and was left alone.
    Running(EarlierRun),
    /// Its run in this window has ended with code 0, and nothing more is expected of the task.
    Finished(String),
}

impl TaskRun {
    /// Returns the task's window.
    pub(crate) fn window(&self) -> &str {
        match self {
            Self::Started(window) | Self::Finished(window) => window,
            Self::Running(earlier) => &earlier.window,
        }
    }

    /// Returns the number of a run that was not started now.
    pub(super) fn earlier_run(&self) -> Option<u32> {
        match self {
            Self::Running(earlier) => earlier.run,
            Self::Started(_) | Self::Finished(_) => None,
        }
    }
}

/// How often a task may change between a look at it and its launch.
const LOOKS: usize = 10;

/// Starts a task of a file unless it runs already or has finished, and returns what was started. `will_wait`
/// says that it will be waited for. Of several commands that start a task at the same time, one does, and the
/// others find that it runs.
pub(crate) async fn start_one(
    session: &mut TaskSession,
    plan: &TaskEntry,
    will_wait: bool,
) -> Result<(TaskRun, Option<StartedRun>), Error> {
    session.resolve_name().await?;
    let mut failed = None;
    for _ in 0..LOOKS {
        if let Some(run) = run_of(session, plan).await? {
            return Ok((run, None));
        }
        // Nobody has started it meanwhile.
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let options = RunOptions {
            wait: match plan.ready {
                Some(Ready::Text(_)) if will_wait => LaunchWait::Text,
                Some(_) | None => LaunchWait::No,
            },
            ..options_of(plan.clone())
        };
        match launch(session.for_request(), options).await {
            Ok(started) => {
                let window = started.run.window_id.clone();
                return Ok((TaskRun::Started(window), Some(started)));
            }
            // The task may have been started meanwhile.
            Err(error) => failed = Some(error),
        }
    }
    Err(tmux::contended())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
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
        let listed = |task: Task| LsTask::new(task, None);
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
        let found = find(&view, "db").map(|task| task.map(|task| task.window.to_string()));
        let found = found.map_err(|error| error.to_string());
        assert_eq!(
            found,
            expected
                .map(|id| id.map(str::to_owned))
                .map_err(str::to_owned)
        );
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
