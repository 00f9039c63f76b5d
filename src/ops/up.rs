//! Starts the tasks of a file together, each when those that it starts after are ready.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use super::again::find_spec;
use super::file_tasks::{find, launch_of};
use super::list::list;
use super::run::{StartedRun, run};
use super::session::TaskSession;
use super::wait::{Awaited, NotReady, Readiness, WaitNews};
use crate::config::{Ready, TaskEntry};
use crate::model::{Error, ErrorKind, Launch};
use crate::tmux;

/// Until when tasks are waited for, and for which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpOptions {
    /// The time limit of all of it.
    pub(crate) timeout: Option<Duration>,
    /// Whether to wait also for tasks that nothing starts after.
    pub(crate) waits_for_all: bool,
    /// How many of the last lines of a failed run are wanted.
    pub(crate) tail: usize,
}

/// A task of a file, and what has become of it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskUp {
    /// The keys whose values in the file are not those that it runs with.
    pub(crate) outdated: Vec<&'static str>,
    /// `None` where that was not waited for.
    pub(crate) ready: Option<bool>,
    pub(crate) state: UpState,
    /// The last lines of a run that has failed.
    pub(crate) tail: Vec<String>,
    /// What it asked for when the time was over.
    pub(crate) waiting_for: Option<String>,
    /// Why it is not ready, in words that follow its name; if it was not started because one before it is
    /// not ready, which, and why.
    pub(crate) why: Option<String>,
    pub(crate) window_id: Option<String>,
    pub(crate) window_name: String,
    /// What the user can do about it.
    #[serde(skip)]
    pub(crate) hint: Option<String>,
    /// Whether the time was over.
    #[serde(skip)]
    pub(crate) has_timed_out: bool,
    /// The number of a run that was not started now.
    #[serde(skip)]
    run: Option<u32>,
}

/// The run of a task of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum UpState {
    /// It was started now.
    Started,
    /// It ran before, and was left alone.
    Running,
    /// It has ended with code 0, and nothing more is expected of the task.
    Finished,
    #[default]
    NotStarted,
}

/// What is reported while tasks start.
#[derive(Debug)]
pub(crate) enum UpNews<'a> {
    /// It was started, or was before.
    Runs,
    /// How it is known that it is ready.
    Ready(Readiness),
    /// It was not started, because one before it is not ready.
    NotStarted,
    /// It could not be started, or is not ready.
    Failed,
    /// It is being waited for.
    Wait(WaitNews<'a>),
}

/// What is called with a task for what happens.
type Report<'a> = dyn Fn(&TaskUp, UpNews<'_>) -> Result<(), Error> + 'a;

/// Starts the tasks and returns the results in the order of the file. Dropping the future ends the waits;
/// what is started goes on.
///
/// # Errors
///
/// That of `report`, which ends all of it.
pub(crate) async fn bring_up(
    session: &TaskSession,
    plans: &[TaskEntry],
    options: UpOptions,
    report: &Report<'_>,
) -> Result<Vec<TaskUp>, Error> {
    let bring = BringUp {
        session,
        plans,
        deadline: options.timeout.map(|timeout| Instant::now() + timeout),
        options,
        outcomes: plans
            .iter()
            .map(|plan| (plan.name.as_str(), watch::Sender::new(None)))
            .collect(),
        report,
    };
    try_join_all(plans.iter().map(|plan| bring.one(plan))).await
}

struct BringUp<'a> {
    session: &'a TaskSession,
    plans: &'a [TaskEntry],
    deadline: Option<Instant>,
    options: UpOptions,
    /// Which tasks are ready, for those that start after them, and of which that can no longer come, with
    /// the task that has failed, this one or one before it, and how.
    outcomes: BTreeMap<&'a str, watch::Sender<Option<Result<(), String>>>>,
    report: &'a Report<'a>,
}

impl<'a> BringUp<'a> {
    /// Starts a task when those before it are ready, and waits until it is ready if that matters.
    async fn one(&self, plan: &'a TaskEntry) -> Result<TaskUp, Error> {
        let mut task = TaskUp {
            window_name: plan.name.clone(),
            ..TaskUp::default()
        };
        let mut outcome = Ok(());
        for other in &plan.after {
            outcome = self.outcome_of(other).await;
            if let Err(cause) = &outcome {
                task.why = Some(cause.clone());
                (self.report)(&task, UpNews::NotStarted)?;
                break;
            }
        }
        if outcome.is_ok()
            && let Err(failed) = self.start(plan, &mut task).await?
        {
            outcome = Err(format!("{} {}", plan.name, failed.why));
            task.ready = task.window_id.as_ref().map(|_| false);
            (task.why, task.hint) = (Some(failed.why), failed.hint);
            (task.tail, task.waiting_for) = (failed.tail, failed.asks);
            task.has_timed_out = failed.has_timed_out;
            (self.report)(&task, UpNews::Failed)?;
        }
        self.outcomes[plan.name.as_str()].send_replace(Some(outcome));
        Ok(task)
    }

    /// Starts a task now, and waits until it is ready if that matters. The tasks may have changed while
    /// others were waited for.
    async fn start(
        &self,
        plan: &TaskEntry,
        task: &mut TaskUp,
    ) -> Result<Result<(), NotReady>, Error> {
        let mut session = self.session.for_request();
        let mut others = self.plans.iter();
        let is_needed = others.any(|other| other.after.contains(&plan.name));
        let will_wait = is_needed || self.options.waits_for_all && plan.ready.is_some();
        let launched = match start_one(&mut session, plan, will_wait, task).await {
            Ok(launched) => launched,
            Err(error) => return Ok(Err(after_error("could not be started", error))),
        };
        (self.report)(task, UpNews::Runs)?;
        if will_wait && task.state != UpState::Finished {
            let awaited = Awaited {
                name: task.window_id.as_deref().unwrap_or(&plan.name),
                ready: plan.ready.as_ref(),
                earlier_run: task.run,
                deadline: self.deadline,
                limit: self.options.timeout.unwrap_or_default(),
                late: "was not ready",
                tail: self.options.tail,
                // What the wait reports is no reason to end it.
                report: &|news| drop((self.report)(task, UpNews::Wait(news))),
            };
            let readiness = match awaited.wait(&mut session, launched).await {
                Ok(Ok(readiness)) => readiness,
                Ok(Err(failed)) => return Ok(Err(failed)),
                Err(error) if error.kind == ErrorKind::Missing => {
                    return Ok(Err(NotReady::because("has disappeared")));
                }
                Err(error) => return Ok(Err(after_error("could not be waited for", error))),
            };
            (self.report)(task, UpNews::Ready(readiness))?;
        }
        task.ready = will_wait.then_some(true);
        Ok(Ok(()))
    }

    /// Waits until it is known whether a task is ready.
    async fn outcome_of(&self, name: &str) -> Result<(), String> {
        let Some(outcome) = self.outcomes.get(name) else {
            return Ok(());
        };
        let mut outcome = outcome.subscribe();
        let known = outcome.wait_for(Option::is_some).await;
        known.map_or(Ok(()), |known| known.clone().unwrap_or(Ok(())))
    }
}

fn after_error(what: &str, error: Error) -> NotReady {
    NotReady {
        hint: error.hint,
        ..NotReady::because(format!("{what}: {}", error.message))
    }
}

/// How often a task may change between a look at it and its launch.
const LOOKS: usize = 10;

/// Starts a task of a file unless it runs already or has finished, and returns the run that was started.
/// `will_wait` says that it will be waited for. Of several commands that start a task at the same time, one
/// does, and the others find that it runs.
async fn start_one(
    session: &mut TaskSession,
    plan: &TaskEntry,
    will_wait: bool,
    task: &mut TaskUp,
) -> Result<Option<StartedRun>, Error> {
    session.resolve_name().await?;
    let mut failed = None;
    for _ in 0..LOOKS {
        if is_there(session, plan, task).await? {
            return Ok(None);
        }
        // Nobody has started it meanwhile.
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let is_held = will_wait && matches!(plan.ready, Some(Ready::Text(_)));
        let launch = Launch {
            will_wait: is_held,
            is_held,
            ..launch_of(plan.clone())
        };
        match run(session.for_request(), launch).await {
            Ok(started) => {
                task.state = UpState::Started;
                task.window_id = Some(started.run.window_id.clone());
                return Ok(Some(started));
            }
            // The task may have been started meanwhile.
            Err(error) => failed = Some(error),
        }
    }
    Err(tmux::contended())
}

/// Looks for the run of a task of a file. Returns whether there is one; else it is to be started.
///
/// # Errors
///
/// When several windows have its name.
async fn is_there(
    session: &mut TaskSession,
    wanted: &TaskEntry,
    result: &mut TaskUp,
) -> Result<bool, Error> {
    let view = list(session).await?;
    let Some(task) = find(&view, &wanted.name)? else {
        return Ok(false);
    };
    // Where something says that it is ready, it is to run.
    let has_finished = task.exit_code() == Some(0) && wanted.ready.is_none();
    if !task.is_alive() && (!has_finished || wanted.is_named) {
        return Ok(false);
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
    let window = task.window.to_string();
    let (_, last) = find_spec(session, &window).await?;
    let env_digest = last.and_then(|last| last.env_digest);
    let outdated = [
        ("env", wanted.spec.digest_of_env() != env_digest),
        ("command", !has_command),
        ("cwd", task.cwd.as_deref() != cwd),
    ];
    let outdated = outdated.into_iter().filter(|(_, is_other)| *is_other);
    let mut outdated: Vec<&str> = outdated.map(|(key, _)| key).collect();
    if task.is_alive() {
        outdated.extend(task.settings.differences(&wanted.spec.settings));
        (result.outdated, result.run) = (outdated, task.run);
        result.state = UpState::Running;
    } else if outdated.is_empty() {
        result.state = UpState::Finished;
    } else {
        return Ok(false);
    }
    result.window_id = Some(window);
    Ok(true)
}
