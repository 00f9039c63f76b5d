//! The tasks of a file: which are to be started, and when each is ready.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::after::{RESTARTING, Success, ended_as, ending};
use super::caller::Caller;
use super::error::OpsError;
use super::list::{find_listed, list};
use super::logs::present_log;
use super::run::{LaunchWait, RunOptions, run};
use super::session::Session;
use super::wait::{find_to_wait, wait};
use crate::config::{self, TASK_FILE, TaskEntry};
use crate::tmux::CommandWords;
use crate::wire::{ConditionFields, LogRequest, LsView, NextRestart, OutcomeName, WaitRequest};

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
    /// It is to be started.
    Needed,
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
            only_if_absent: false,
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
        let runs = view.tasks.iter().find(|listed| {
            let task = &listed.task;
            (task.window_name == self.name && !task.dead && !task.shell)
                && task.current_command.as_deref().is_some_and(|shown| {
                    // A long one is shown in part.
                    shown == command
                        || shown
                            .strip_suffix('…')
                            .is_some_and(|part| command.starts_with(part))
                })
                && task.task_cwd.as_deref() == cwd
        });
        runs.map_or(Start::Needed, |listed| Start::Runs {
            window: listed.task.window_id.clone(),
            run: listed.task.run,
        })
    }
}

/// Starts a task of a file. Returns its window.
pub(crate) async fn start_one(session: Session, plan: &TaskPlan) -> Result<String, OpsError> {
    let started = run(session, plan.options.clone()).await?;
    Ok(started.run.window_id)
}

/// What is known of a task that prints a text when it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Whether it has printed the text.
    Known(Success),
    /// It ran before, and what it printed first is no longer in its history.
    OutOfSight,
}

/// Waits until the task has printed this text in its present run, or has failed and no restart follows.
/// `earlier` is a run that was not started for this: it may have printed the text before its history
/// begins, and is not waited for then.
pub(crate) async fn wait_until_ready(
    session: &mut Session,
    name: &str,
    text: &str,
    earlier: Option<u32>,
    deadline: Option<Instant>,
) -> Result<Readiness, OpsError> {
    let ready = wait_for_text(session, name, text, earlier, deadline).await?;
    Ok(ready.map_or(Readiness::OutOfSight, Readiness::Known))
}

/// The same; `None` if the text is out of sight.
async fn wait_for_text(
    session: &mut Session,
    name: &str,
    text: &str,
    earlier: Option<u32>,
    deadline: Option<Instant>,
) -> Result<Option<Success>, OpsError> {
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
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
            return Ok(Some(Success::No(ended_as(&listed.task))));
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
        let result = wait(&mut daemon, request, || {}).await?;
        match result.outcome {
            OutcomeName::Matched => return Ok(Some(Success::Yes)),
            OutcomeName::Timeout => return Ok(Some(Success::TimedOut)),
            OutcomeName::Disappeared => return Ok(Some(Success::No("has disappeared".to_owned()))),
            // The cursor or the run is not the present one: looked at again.
            OutcomeName::Respawned | OutcomeName::AnchorLost => {}
            OutcomeName::Died | OutcomeName::Exited => {
                let listed = find_listed(session, name).await?;
                if listed.next_restart.is_none() && listed.task.dead {
                    return Ok(Some(Success::No(ending(&result))));
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
