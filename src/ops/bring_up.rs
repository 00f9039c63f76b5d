//! Starts the tasks of a file together, each when those that it starts after are ready.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::session::TaskSession;
use super::up::{TaskRun, start_one};
use super::wait::{Awaited, NotReady, Readiness, WaitNews};
use crate::config::TaskEntry;
use crate::model::{Error, ErrorKind};

/// Until when tasks are waited for, and for which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BringUpOptions {
    /// The time limit of all of it.
    pub(crate) timeout: Option<Duration>,
    /// Whether to wait also for tasks that nothing starts after.
    pub(crate) waits_for_all: bool,
    /// How many of the last lines of a failed run are wanted.
    pub(crate) tail: usize,
}

/// What is reported while tasks start.
#[derive(Debug)]
pub(crate) enum BringUpNews<'a> {
    /// It was started, or was before.
    Runs(&'a TaskRun),
    Ready {
        window: &'a str,
        /// How that is known.
        readiness: Readiness,
    },
    /// It was not started, because one before it is not ready. This says which, and why.
    NotStarted(&'a str),
    /// It could not be started, or is not ready.
    Failed(&'a NotReady),
    /// It is being waited for.
    Wait(WaitNews<'a>),
}

/// The result for one task.
#[derive(Debug)]
pub(crate) struct BringUpResult {
    pub(crate) name: String,
    /// The run that was started now or before; `None` if it was not started.
    pub(crate) run: Option<TaskRun>,
    /// Whether it is ready, or why not; `None` where that was not waited for.
    pub(crate) is_ready: Option<Result<(), NotReady>>,
}

/// What is called with a task's name for what happens.
type Report<'a> = dyn Fn(&str, BringUpNews<'_>) -> Result<(), Error> + 'a;

/// Starts the tasks and returns the results in the order of the file. Dropping the future ends the waits;
/// what is started goes on.
///
/// # Errors
///
/// That of `report`, which ends all of it.
pub(crate) async fn bring_up(
    session: &TaskSession,
    plans: &[TaskEntry],
    options: BringUpOptions,
    report: &Report<'_>,
) -> Result<Vec<BringUpResult>, Error> {
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
    options: BringUpOptions,
    /// Which tasks are ready, for those that start after them, and of which that can no longer come, with
    /// the task that has failed, this one or one before it, and how.
    outcomes: BTreeMap<&'a str, watch::Sender<Option<Result<(), String>>>>,
    report: &'a Report<'a>,
}

impl<'a> BringUp<'a> {
    /// Starts a task when those before it are ready, and waits until it is ready if that matters.
    async fn one(&self, plan: &'a TaskEntry) -> Result<BringUpResult, Error> {
        let name = &plan.name;
        let mut result = BringUpResult {
            name: name.clone(),
            run: None,
            is_ready: None,
        };
        let mut outcome = Ok(());
        for other in &plan.after {
            outcome = self.outcome_of(other).await;
            if let Err(cause) = &outcome {
                (self.report)(name, BringUpNews::NotStarted(cause))?;
                result.is_ready = Some(Err(NotReady::because(cause.clone())));
                break;
            }
        }
        if outcome.is_ok()
            && let Err(failed) = self.start(plan, &mut result).await?
        {
            (self.report)(name, BringUpNews::Failed(&failed))?;
            outcome = Err(format!("{name} {}", failed.why));
            result.is_ready = Some(Err(failed));
        }
        self.outcomes[name.as_str()].send_replace(Some(outcome));
        Ok(result)
    }

    /// Starts a task now, and waits until it is ready if that matters. The tasks may have changed while
    /// others were waited for.
    async fn start(
        &self,
        plan: &TaskEntry,
        result: &mut BringUpResult,
    ) -> Result<Result<(), NotReady>, Error> {
        let mut session = self.session.for_request();
        let mut others = self.plans.iter();
        let is_needed = others.any(|other| other.after.contains(&plan.name));
        let will_wait = is_needed || self.options.waits_for_all && plan.ready.is_some();
        let (run, launched) = match start_one(&mut session, plan, will_wait).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(after_error("could not be started", error))),
        };
        (self.report)(&plan.name, BringUpNews::Runs(&run))?;
        let run = &*result.run.insert(run);
        if will_wait && !matches!(run, TaskRun::Finished(_)) {
            let window = run.window();
            let awaited = Awaited {
                name: window,
                ready: plan.ready.as_ref(),
                earlier_run: run.earlier_run(),
                deadline: self.deadline,
                limit: self.options.timeout.unwrap_or_default(),
                late: "was not ready",
                tail: self.options.tail,
                // What the wait reports is no reason to end it.
                report: &|news| drop((self.report)(&plan.name, BringUpNews::Wait(news))),
            };
            let readiness = match awaited.wait(&mut session, launched).await {
                Ok(Ok(readiness)) => readiness,
                Ok(Err(failed)) => return Ok(Err(failed)),
                Err(error) if error.kind == ErrorKind::Missing => {
                    return Ok(Err(NotReady::because("has disappeared")));
                }
                Err(error) => return Ok(Err(after_error("could not be waited for", error))),
            };
            (self.report)(&plan.name, BringUpNews::Ready { window, readiness })?;
        }
        result.is_ready = will_wait.then_some(Ok(()));
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
