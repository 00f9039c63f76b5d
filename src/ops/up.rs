//! The tasks of a file: which are to be started, and when each is ready.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::after::{RESTARTING, Success, ended_as, wait_for_success};
use super::caller::Caller;
use super::error::{ErrorKind, OpsError};
use super::list::{find_listed, list};
use super::logs::present_log;
use super::run::{LaunchWait, RunOptions, StartedRun, run};
use super::session::Session;
use super::wait::{find_to_wait, wait};
use crate::client::ClientError;
use crate::config::{self, TASK_FILE, TaskEntry};
use crate::model::{Replaces, with_causes};
use crate::tmux::{CommandWords, LaunchError};
use crate::wire::{
    ConditionFields, LogRequest, LsView, NextRestart, OutcomeName, TaskFields, WaitRequest,
};

/// A task of a file.
#[derive(Debug, Clone)]
pub(crate) struct TaskPlan {
    /// Its name.
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
        /// Its window.
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
            after,
            ready,
        } = task;
        let cwd = cwd.canonicalize().map_err(|source| OpsError::Directory {
            dir: cwd.clone(),
            source,
        })?;
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

/// Returns the windows of the file's tasks that exist, those of the last ones first. A shell with the
/// name of a task is not one.
pub(crate) async fn windows_down(
    session: &mut Session,
    file: Option<PathBuf>,
) -> Result<Vec<String>, OpsError> {
    let tasks = config::read_tasks(&locate(session, file)?).map_err(OpsError::Config)?;
    let view = list(session).await?;
    let windows = tasks.into_iter().rev().filter_map(|file_task| {
        let mut present = view.tasks.iter().map(|listed| &listed.task);
        let task = present.find(|task| task.window_name == file_task.name && !task.shell)?;
        Some(task.window_id.clone())
    });
    Ok(windows.collect())
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
    pub(crate) fn start(&self, view: &LsView) -> Start {
        let command = CommandWords::from_words(self.options.command.clone()).shown_bounded();
        let cwd = self.options.cwd.as_ref().and_then(|cwd| cwd.to_str());
        let mut live = view.tasks.iter().map(|listed| &listed.task);
        let is_live =
            |task: &&TaskFields| task.window_name == self.name && !task.dead && !task.shell;
        let live: Vec<&TaskFields> = live.by_ref().filter(is_live).collect();
        let is_same = |task: &&&TaskFields| {
            let shown = task.current_command.as_deref();
            let has_command = shown.is_some_and(|shown| {
                // A long one is shown in part.
                shown == command
                    || shown
                        .strip_suffix('…')
                        .is_some_and(|part| command.starts_with(part))
            });
            has_command && task.task_cwd.as_deref() == cwd
        };
        match (live.iter().find(is_same), live.first()) {
            (Some(task), _) => Start::Runs {
                window: task.window_id.clone(),
                run: task.run,
            },
            (None, Some(task)) => {
                Start::Needed(task.pane_pid.map_or(Replaces::Ended, Replaces::EndedOr))
            }
            (None, None) => Start::Needed(Replaces::Ended),
        }
    }
}

/// A task of a file that runs.
#[derive(Debug)]
pub(crate) enum Started {
    /// It was started now.
    Now(Box<StartedRun>),
    /// It ran already with the same command in the same directory.
    Before {
        /// Its window.
        window: String,
        /// The number of its run.
        run: Option<u32>,
    },
}

impl Started {
    /// Returns the task's window.
    pub(crate) fn window(&self) -> &str {
        match self {
            Self::Now(started) => &started.run.window_id,
            Self::Before { window, .. } => window,
        }
    }
}

/// Why a task of a file is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotReady {
    /// What happened, in words that follow its name.
    pub(crate) why: String,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// Whether the time was over.
    pub(crate) has_timed_out: bool,
}

impl NotReady {
    fn because(why: String) -> Self {
        Self {
            why,
            hint: None,
            has_timed_out: false,
        }
    }

    fn after_error(what: &str, error: &OpsError) -> Self {
        Self {
            hint: error.hint(),
            ..Self::because(format!("{what}: {}", with_causes(error)))
        }
    }
}

/// How often a task may change between a look at it and its launch.
const LOOKS: usize = 10;

/// Starts a task of a file unless it runs already. `seen` are the tasks as they were just now, if that
/// is known. Of several commands that start a task at the same time, one does, and the others find
/// that it runs.
pub(crate) async fn start_one(
    session: &mut Session,
    plan: &TaskPlan,
    seen: Option<&LsView>,
) -> Result<Started, NotReady> {
    let started = start_unless_running(session, plan, seen).await;
    started.map_err(|error| NotReady::after_error("could not be started", &error))
}

async fn start_unless_running(
    session: &mut Session,
    plan: &TaskPlan,
    seen: Option<&LsView>,
) -> Result<Started, OpsError> {
    let mut seen = seen.map(|seen| plan.start(seen));
    let mut failed = None;
    for _ in 0..LOOKS {
        let start = match seen.take() {
            Some(start) => start,
            None => plan.start(&list(session).await?),
        };
        let replaces = match start {
            Start::Runs { window, run } => return Ok(Started::Before { window, run }),
            Start::Needed(replaces) => replaces,
        };
        if let Some((tried, error)) = failed.take()
            && tried == replaces
        {
            return Err(error);
        }
        let options = RunOptions {
            replaces,
            ..plan.options.clone()
        };
        session.settle().await?;
        match run(session.for_request(), options).await {
            Ok(started) => return Ok(Started::Now(Box::new(started))),
            // The task may have been started meanwhile.
            Err(error) => failed = Some((replaces, error)),
        }
    }
    let error = failed.map(|(_, error)| error);
    Err(error.unwrap_or(OpsError::Launch(LaunchError::Contended)))
}

/// How it is known that a task is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It has printed the text.
    Printed,
    /// It has no such text, and has ended with code 0.
    Succeeded,
    /// It ran before, and what it printed first is no longer in its history.
    OutOfSight,
}

/// Waits until a task of a file is ready, or has failed and no restart follows. A run that was not
/// started now may have printed the text before its history begins, and is not waited for then.
/// `limit` is for words.
pub(crate) async fn wait_until_ready(
    session: &mut Session,
    plan: &TaskPlan,
    started: &Started,
    deadline: Option<Instant>,
    limit: Duration,
) -> Result<Readiness, NotReady> {
    let earlier = match started {
        Started::Now(_) => None,
        Started::Before { run, .. } => *run,
    };
    let window = started.window();
    let (found, ready) = match &plan.ready {
        Some(text) => {
            let found = wait_for_text(session, window, text, earlier, deadline).await;
            (found, Readiness::Printed)
        }
        None => {
            let found = wait_for_success(session, window, deadline).await;
            (found.map(Some), Readiness::Succeeded)
        }
    };
    match found {
        Ok(None) => Ok(Readiness::OutOfSight),
        Ok(Some(Success::Yes)) => Ok(ready),
        Ok(Some(Success::No(why))) => Err(NotReady::because(why)),
        Ok(Some(Success::TimedOut)) => Err(NotReady {
            has_timed_out: true,
            ..NotReady::because(format!("was not ready after {:.1} s", limit.as_secs_f32()))
        }),
        Err(error) if error.kind() == ErrorKind::Missing => {
            Err(NotReady::because("has disappeared".to_owned()))
        }
        Err(error) => Err(NotReady::after_error("could not be waited for", &error)),
    }
}

/// Waits until the task has printed this text in its present run, or has failed and no restart follows;
/// `None` if the text is out of sight.
async fn wait_for_text(
    session: &mut Session,
    name: &str,
    text: &str,
    earlier: Option<u32>,
    deadline: Option<Instant>,
) -> Result<Option<Success>, OpsError> {
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    // The run that a wait was refused for.
    let mut refused = None;
    loop {
        let listed = find_listed(session, name).await?;
        if let Some(NextRestart { in_ms, .. }) = listed.next_restart {
            let pause = Duration::from_millis(in_ms).max(RESTARTING);
            if left().is_some_and(|left| left.is_zero()) {
                return Ok(Some(Success::TimedOut));
            }
            sleep(left().map_or(pause, |left| left.min(pause))).await;
            continue;
        }
        if listed.task.dead {
            return Ok(Some(Success::No(ended_without(&listed.task, text))));
        }
        // What was printed before the wait begins, and from there on what is printed.
        let request = LogRequest {
            task: listed.task.window_id.clone(),
            raw: false,
            since: None,
            history_rows: None,
        };
        let log = present_log(session, request).await?;
        if log.lines.iter().any(|line| line.contains(text)) {
            return Ok(Some(Success::Yes));
        }
        if log.may_lack_beginning && log.run.is_some() && log.run == earlier {
            return Ok(None);
        }
        let (mut daemon, window) = find_to_wait(session, name).await?;
        let request = WaitRequest {
            window,
            run: log.run,
            conditions: vec![ConditionFields::Text(text.to_owned())],
            since: log.cursor,
            timeout_ms: left().map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            tail: Some(0),
            ..WaitRequest::default()
        };
        let result = match wait(&mut daemon, request, || {}).await {
            Ok(result) => result,
            // Refused, because a restart has begun another run since this one was looked at.
            Err(OpsError::Client(ClientError::Refused(_))) if refused != Some(log.run) => {
                refused = Some(log.run);
                continue;
            }
            Err(error) => return Err(error),
        };
        match result.outcome {
            OutcomeName::Matched => return Ok(Some(Success::Yes)),
            OutcomeName::Timeout => return Ok(Some(Success::TimedOut)),
            OutcomeName::Disappeared => return Ok(Some(Success::No("has disappeared".to_owned()))),
            // The cursor or the run is not the present one: looked at again.
            OutcomeName::Respawned | OutcomeName::AnchorLost => {}
            OutcomeName::Died | OutcomeName::Exited => {
                let listed = find_listed(session, name).await?;
                if listed.next_restart.is_none() && listed.task.dead {
                    return Ok(Some(Success::No(ended_without(&listed.task, text))));
                }
            }
            OutcomeName::Changed
            | OutcomeName::Bell
            | OutcomeName::Input
            | OutcomeName::Idle
            | OutcomeName::Signalled
            | OutcomeName::Stopped => {
                return Ok(Some(Success::No("could not be waited for".to_owned())));
            }
        }
    }
}

/// Returns how a run ended that has not printed this text, in words that follow the task's name.
fn ended_without(task: &TaskFields, text: &str) -> String {
    let how = ended_as(task);
    match task.exit_code {
        // Reads like a success otherwise.
        Some(0) => format!("{how} without printing `{text}`"),
        Some(_) | None => how,
    }
}
