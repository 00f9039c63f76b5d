//! The tasks of a file: which are to be started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::TaskEntry;

use super::again::find_record;
use super::error::OpsError;
use super::file_tasks::{options_of, select};
use super::list::list;
use super::run::{LaunchWait, RunOptions, StartedRun, run, with_stop_defaults};
use super::session::TaskSession;
use crate::client::DaemonClient;
use crate::model::Replaces;
use crate::tmux::{CommandWords, Gate, LaunchError, RecordedCommand, digest_of};
use crate::wire::{LaunchedRun, LsView, TaskFields};

/// A task of a file.
#[derive(Debug, Clone)]
pub(crate) struct TaskPlan {
    pub(crate) name: String,
    /// The tasks that it starts after.
    pub(crate) after: Vec<String>,
    /// The text of its output that says that it is ready.
    pub(crate) ready: Option<String>,
    /// Whether the user has named it: then it runs again although it has finished.
    is_named: bool,
    options: RunOptions,
}

/// What is to be done for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// It was started before with the same command in the same directory.
    Before(EarlierRun),
    /// It is to be started, if there is still no other run than those that may be replaced.
    Needed(Replaces),
}

/// A run of a task that was started before, with the command and the directory of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EarlierRun {
    pub(crate) window: String,
    /// Its number.
    pub(super) run: Option<u32>,
    /// Whether it has ended with code 0, and nothing more is expected of the task. Else it runs.
    pub(crate) has_finished: bool,
    /// The keys whose values in the file are not those that it runs with.
    pub(crate) outdated: Vec<&'static str>,
}

/// Returns the tasks of `[FILE] [NAME...]`, each after those that it starts after, with those that the
/// named ones need.
pub(crate) async fn plan_tasks(
    session: &TaskSession,
    words: Vec<PathBuf>,
) -> Result<Vec<TaskPlan>, OpsError> {
    let selected = select(session, words)?;
    let mut plans = Vec::new();
    for task in selected.with_needed() {
        let (name, after, ready) = (task.name.clone(), task.after.clone(), task.ready.clone());
        let mut options = options_of(task)?;
        options.stop = with_stop_defaults(options.stop)?;
        options.check()?;
        plans.push(TaskPlan {
            is_named: selected.names.contains(&name),
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

/// Returns the windows of the tasks of `[FILE] [NAME...]` that exist, in the groups in which they are to
/// be ended: each task after those that were started after it. What a launch would not take for a task
/// is none: ending it would end a user's program.
pub(crate) async fn windows_down(
    session: &mut TaskSession,
    words: Vec<PathBuf>,
) -> Result<WindowsDown, OpsError> {
    let selected = select(session, words)?;
    let view = list(session).await?;
    let mut down = WindowsDown {
        groups: Vec::new(),
        ambiguous: Vec::new(),
    };
    for group in groups_down(&selected.all) {
        let mut windows = Vec::new();
        for name in group.into_iter().filter(|name| selected.is_named(name)) {
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

impl TaskPlan {
    /// Returns what is to be done, given the tasks that there are.
    ///
    /// # Errors
    ///
    /// When several windows have its name.
    fn start(&self, view: &LsView) -> Result<Start, LaunchError> {
        let command = CommandWords::from_words(self.options.command.clone()).shown_bounded();
        let cwd = self.options.cwd.as_ref().and_then(|cwd| cwd.to_str());
        let Some(task) = find(view, &self.name)? else {
            return Ok(Start::Needed(Replaces::Ended));
        };
        // Where it has a text that says that it is ready, it is to run.
        let has_finished = task.dead && task.exit_code == Some(0) && self.ready.is_none();
        if task.dead && (!has_finished || self.is_named) {
            return Ok(Start::Needed(Replaces::Ended));
        }
        let shown = task.current_command.as_deref();
        let has_command = shown.is_some_and(|shown| {
            // A long one is shown in part.
            shown == command
                || shown
                    .strip_suffix('…')
                    .is_some_and(|part| command.starts_with(part))
        });
        if has_command && task.task_cwd.as_deref() == cwd {
            let restart = task.restarts.as_ref().map(|restarts| restarts.policy);
            let (stop, wanted) = (&task.stop, &self.options.stop);
            let outdated = [
                ("restart", restart != self.options.restart),
                ("stop-signal", stop.signal != wanted.signal),
                ("grace", stop.grace != wanted.grace),
                ("parent-only", stop.parent_only != wanted.parent_only),
                ("kill-after", stop.kill_after != wanted.kill_after),
                ("notify-on", task.notify_on != self.options.notify_on),
                ("slot", task.slot != self.options.slot),
            ];
            let outdated = outdated.into_iter().filter(|(_, is_other)| *is_other);
            return Ok(Start::Before(EarlierRun {
                window: task.window_id.clone(),
                run: task.run,
                has_finished,
                outdated: outdated
                    .filter(|_| !has_finished)
                    .map(|(key, _)| key)
                    .collect(),
            }));
        }
        Ok(Start::Needed(match task.pane_pid {
            Some(pid) if !task.dead => Replaces::EndedOr(pid),
            Some(_) | None => Replaces::Ended,
        }))
    }

    /// Adds whether the earlier run has other variables than the file says, and decides whether one that
    /// has finished has to run again for that.
    async fn compare_variables(
        &self,
        session: &mut TaskSession,
        earlier: EarlierRun,
    ) -> Result<Start, OpsError> {
        let mut earlier = earlier;
        let record = find_record(session, &earlier.window).await?.record;
        let record = record.as_deref().and_then(RecordedCommand::decode);
        let wanted = digest_of(&self.options.env);
        let is_other = wanted != record.and_then(|record| record.env_digest);
        if is_other && earlier.has_finished {
            return Ok(Start::Needed(Replaces::Ended));
        }
        if is_other {
            earlier.outdated.insert(0, "env");
        }
        Ok(Start::Before(earlier))
    }
}

/// A task of a file that runs, or has finished.
#[derive(Debug)]
pub(crate) enum FileTaskRun {
    /// It was started now.
    Now(Box<StartedRun>),
    Before(EarlierRun),
}

impl FileTaskRun {
    /// Returns the task's window.
    pub(crate) fn window(&self) -> &str {
        match self {
            Self::Now(started) => &started.run.window_id,
            Self::Before(earlier) => &earlier.window,
        }
    }

    /// Returns the number of a run that was not started now.
    pub(super) fn earlier_run(&self) -> Option<u32> {
        match self {
            Self::Now(_) => None,
            Self::Before(earlier) => earlier.run,
        }
    }

    /// Returns a run that was started now, with the daemon to wait with and the gate that its command
    /// waits at.
    pub(super) fn into_launched(self) -> Option<(DaemonClient, LaunchedRun, Option<Gate>)> {
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

/// Starts a task of a file unless it runs already or has finished. `seen` are the tasks as they were just now, if that
/// is known; `will_wait` says that it will be waited for. Of several commands that start a task at the
/// same time, one does, and the others find that it runs.
pub(crate) async fn start_one(
    session: &mut TaskSession,
    plan: &TaskPlan,
    seen: Option<&LsView>,
    will_wait: bool,
) -> Result<FileTaskRun, OpsError> {
    let mut seen = seen.map(|seen| plan.start(seen)).transpose()?;
    let mut failed = None;
    for _ in 0..LOOKS {
        let mut start = match seen.take() {
            Some(start) => start,
            None => plan.start(&list(session).await?)?,
        };
        if let Start::Before(earlier) = start {
            start = plan.compare_variables(session, earlier).await?;
        }
        let replaces = match start {
            Start::Before(earlier) => return Ok(FileTaskRun::Before(earlier)),
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
