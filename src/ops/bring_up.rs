//! Starts the tasks of a file together, each when those that it starts after are ready.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;

use super::patient_wait::WaitNews;
use super::readiness::{NotReady, Readiness, wait_until_ready};
use super::session::TaskSession;
use super::up::{TaskPlan, TaskRun, start_one};
use crate::wire::LsView;

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

/// What is known of a task, for those that start after it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Pending,
    Ready,
    /// It will not be ready: which task failed, this one or one before it, and how.
    Failed(String),
}

/// Starts the tasks and returns the results in the order of the file. `view` has the tasks that there
/// are; `report` is called with a task's name for what happens. Dropping the future ends the waits; what
/// is started goes on.
///
/// # Errors
///
/// That of `report`, which ends all of it.
pub(crate) async fn bring_up<E>(
    session: &TaskSession,
    plans: &[TaskPlan],
    view: &LsView,
    options: BringUpOptions,
    report: &impl Fn(&str, BringUpNews<'_>) -> Result<(), E>,
) -> Result<Vec<BringUpResult>, E> {
    let mut receivers = BTreeMap::new();
    let mut senders = Vec::new();
    for plan in plans {
        let (sender, receiver) = watch::channel(Progress::Pending);
        receivers.insert(plan.name.as_str(), receiver);
        senders.push(sender);
    }
    let bring = &BringUp {
        session,
        view,
        deadline: options.timeout.map(|timeout| Instant::now() + timeout),
        options,
        receivers,
        report,
    };
    let mut running: FuturesUnordered<_> = plans
        .iter()
        .zip(senders)
        .enumerate()
        .map(|(index, (plan, sender))| async move {
            let is_needed = plans.iter().any(|other| other.after.contains(&plan.name));
            let (result, progress) = bring.one(plan, is_needed).await?;
            sender.send_replace(progress);
            Ok((index, result))
        })
        .collect();
    let mut results = BTreeMap::new();
    while let Some(ended) = running.next().await {
        let (index, result) = ended?;
        results.insert(index, result);
    }
    Ok(results.into_values().collect())
}

struct BringUp<'a, R> {
    session: &'a TaskSession,
    /// The tasks that there were at the beginning.
    view: &'a LsView,
    deadline: Option<Instant>,
    options: BringUpOptions,
    receivers: BTreeMap<&'a str, watch::Receiver<Progress>>,
    report: &'a R,
}

impl<E, R: Fn(&str, BringUpNews<'_>) -> Result<(), E>> BringUp<'_, R> {
    /// Starts a task when those before it are ready, and waits until it is ready if that matters.
    async fn one(&self, plan: &TaskPlan, is_needed: bool) -> Result<(BringUpResult, Progress), E> {
        let name = &plan.name;
        let mut result = BringUpResult {
            name: name.clone(),
            run: None,
            is_ready: None,
        };
        for other in &plan.after {
            if let Progress::Failed(cause) = self.progress_of(other).await {
                (self.report)(name, BringUpNews::NotStarted(&cause))?;
                result.is_ready = Some(Err(NotReady::because(cause.clone())));
                return Ok((result, Progress::Failed(cause)));
            }
        }
        let Err(failed) = self.start(plan, is_needed, &mut result).await? else {
            return Ok((result, Progress::Ready));
        };
        (self.report)(name, BringUpNews::Failed(&failed))?;
        let cause = format!("{name} {}", failed.why);
        result.is_ready = Some(Err(failed));
        Ok((result, Progress::Failed(cause)))
    }

    /// Starts a task now, and waits until it is ready if that matters. The tasks may have changed while
    /// others were waited for.
    async fn start(
        &self,
        plan: &TaskPlan,
        is_needed: bool,
        result: &mut BringUpResult,
    ) -> Result<Result<(), NotReady>, E> {
        let mut session = self.session.for_request();
        let seen = plan.after.is_empty().then_some(self.view);
        let will_wait = is_needed || self.options.waits_for_all && plan.ready.is_some();
        let (run, launched) = match start_one(&mut session, plan, seen, will_wait).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(NotReady::not_started(&error))),
        };
        (self.report)(&plan.name, BringUpNews::Runs(&run))?;
        let run = &*result.run.insert(run);
        if matches!(run, TaskRun::Finished(_)) {
            result.is_ready = will_wait.then_some(Ok(()));
            return Ok(Ok(()));
        }
        if !will_wait {
            return Ok(Ok(()));
        }
        // What the wait reports is no reason to end it.
        let report = |news: WaitNews<'_>| {
            drop((self.report)(&plan.name, BringUpNews::Wait(news)));
        };
        let limit = self.options.timeout.unwrap_or_default();
        let BringUpOptions { tail, .. } = self.options;
        let started = (run, launched);
        let wait = wait_until_ready(
            &mut session,
            plan,
            started,
            self.deadline,
            limit,
            tail,
            &report,
        );
        let readiness = match wait.await {
            Ok(readiness) => readiness,
            Err(failed) => return Ok(Err(failed)),
        };
        result.is_ready = Some(Ok(()));
        let window = run.window().unwrap_or_default();
        (self.report)(&plan.name, BringUpNews::Ready { window, readiness })?;
        Ok(Ok(()))
    }

    /// Waits until it is known whether a task is ready.
    async fn progress_of(&self, name: &str) -> Progress {
        let Some(mut receiver) = self.receivers.get(name).cloned() else {
            return Progress::Ready;
        };
        let known = receiver.wait_for(|progress| *progress != Progress::Pending);
        match known.await {
            Ok(progress) => progress.clone(),
            Err(_) => Progress::Failed("was not started".to_owned()),
        }
    }
}
