//! `up` and `down`: the tasks of a file.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::args::{Down, Up};
use super::context::{self, Context};
use super::failure::{Failure, Kind, OrFail};
use super::{after, kill, output};
use crate::ops::{self, Caller, FileTaskRun, NotReady, Readiness, TaskPlan, WaitNews};
use crate::wire::LsView;

/// What is known of a task, for those that start after it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Pending,
    Ready,
    /// It will not be ready: which task failed, this one or one before it, and how.
    Failed(String),
}

/// The result for one task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskResult {
    window_name: String,
    window_id: Option<String>,
    state: State,
    /// Whether it is ready; null where that was not waited for.
    ready: Option<bool>,
    /// Why it was not started, or is not ready.
    why: Option<String>,
    /// The prompt that it waited at when the time was over.
    waiting_for: Option<String>,
    /// `why` with the name of the task that failed, which may be one before it.
    #[serde(skip)]
    cause: Option<String>,
    #[serde(skip)]
    kind: Option<Kind>,
}

impl TaskResult {
    fn new(name: &str) -> Self {
        Self {
            window_name: name.to_owned(),
            window_id: None,
            state: State::NotStarted,
            ready: None,
            why: None,
            waiting_for: None,
            cause: None,
            kind: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    /// It was started.
    Started,
    /// It runs already with the same command.
    Running,
    NotStarted,
}

pub(super) async fn up(context: &Context, args: Up) -> Result<(), Failure> {
    let what = "up";
    let mut session = context.session(what).await?;
    let plans = ops::plan_tasks(&session, args.file).await.or_fail(what)?;
    let view = ops::list(&mut session).await.or_fail(what)?;
    context.limit.wait(args.timeout);
    let bring = Bring {
        context,
        view,
        deadline: args.timeout.map(|timeout| Instant::now() + timeout),
        timeout: args.timeout.unwrap_or_default(),
        waits_for_all: args.wait,
        is_json: args.json.json,
        receivers: BTreeMap::new(),
    };
    let outcomes = bring.all(&plans).await?;
    if args.json.json {
        output::json(&json!({ "sessionName": session.name, "tasks": outcomes }))?;
    }
    // The one that came first in the file.
    match outcomes.iter().find_map(|outcome| outcome.kind) {
        None => Ok(()),
        Some(kind) => Err(Failure::silent(kind)),
    }
}

/// Starts the tasks of a file, each when those before it are ready.
struct Bring<'a> {
    context: &'a Context,
    /// The tasks that there were at the beginning.
    view: LsView,
    deadline: Option<Instant>,
    timeout: Duration,
    /// Whether to wait also for tasks that nothing starts after.
    waits_for_all: bool,
    is_json: bool,
    receivers: BTreeMap<String, watch::Receiver<Progress>>,
}

impl Bring<'_> {
    async fn all(mut self, plans: &[TaskPlan]) -> Result<Vec<TaskResult>, Failure> {
        let mut senders = Vec::new();
        for plan in plans {
            let (sender, receiver) = watch::channel(Progress::Pending);
            self.receivers.insert(plan.name.clone(), receiver);
            senders.push(sender);
        }
        let bring = &self;
        let mut running: FuturesUnordered<_> = plans
            .iter()
            .zip(senders)
            .enumerate()
            .map(|(index, (plan, sender))| async move {
                let is_needed = plans.iter().any(|other| other.after.contains(&plan.name));
                let outcome = bring.one(plan, is_needed).await?;
                sender.send_replace(match &outcome.cause {
                    None => Progress::Ready,
                    Some(cause) => Progress::Failed(cause.clone()),
                });
                Ok::<_, Failure>((index, outcome))
            })
            .collect();
        let mut interrupts = context::interrupts("up")?;
        let mut outcomes = BTreeMap::new();
        loop {
            let ended = tokio::select! {
                ended = running.next() => ended,
                _ = interrupts.recv() => return Err(Failure::silent(Kind::Interrupted)),
            };
            let Some(ended) = ended else {
                return Ok(outcomes.into_values().collect());
            };
            let (index, outcome) = ended?;
            outcomes.insert(index, outcome);
        }
    }

    /// Starts a task when those before it are ready, and waits until it is ready if that matters.
    async fn one(&self, plan: &TaskPlan, is_needed: bool) -> Result<TaskResult, Failure> {
        let name = &plan.name;
        let mut outcome = TaskResult::new(name);
        for other in &plan.after {
            if let Progress::Failed(cause) = self.progress_of(other).await {
                self.complain(&format!("{name} was not started: {cause}"), None);
                outcome.why = Some(cause.clone());
                outcome.cause = Some(cause);
                outcome.kind = Some(Kind::Impossible);
                return Ok(outcome);
            }
        }
        if let Err(NotReady {
            why,
            hint,
            has_timed_out,
            asks,
        }) = self.start(plan, is_needed, &mut outcome).await?
        {
            let cause = format!("{name} {why}");
            self.complain(&cause, hint);
            outcome.ready = outcome.window_id.is_some().then_some(false);
            outcome.why = Some(why);
            outcome.waiting_for = asks;
            outcome.cause = Some(cause);
            outcome.kind = Some(if has_timed_out {
                Kind::TimedOut
            } else {
                Kind::Impossible
            });
        }
        Ok(outcome)
    }

    /// Starts a task now, and waits until it is ready if that matters. The tasks may have changed while
    /// others were waited for.
    async fn start(
        &self,
        plan: &TaskPlan,
        is_needed: bool,
        outcome: &mut TaskResult,
    ) -> Result<Result<(), NotReady>, Failure> {
        let mut session = self.context.given("up")?;
        let seen = plan.after.is_empty().then_some(&self.view);
        let will_wait = is_needed || self.waits_for_all && plan.ready.is_some();
        let started = match ops::start_one(&mut session, plan, seen, will_wait).await {
            Ok(started) => started,
            Err(error) => return Ok(Err(NotReady::not_started(&error))),
        };
        let (done, state) = match started {
            FileTaskRun::Now(_) => ("started", State::Started),
            FileTaskRun::Before { .. } => ("runs already:", State::Running),
        };
        let task = format!("{} ({})", started.window(), plan.name);
        self.say(&format!("{done} {task}"))?;
        outcome.state = state;
        outcome.window_id = Some(started.window().to_owned());
        if !will_wait {
            return Ok(Ok(()));
        }
        let report = |news: WaitNews<'_>| after::news_of(self.context, "up", &plan.name, &news);
        let wait = ops::wait_until_ready(
            &mut session,
            plan,
            started,
            self.deadline,
            self.timeout,
            &report,
        );
        let line = match wait.await {
            Ok(Readiness::Printed) => format!("ready {task}"),
            Ok(Readiness::Succeeded) => format!("succeeded {task}"),
            Ok(Readiness::OutOfSight) => {
                format!("taken as ready: {task}: the beginning of its output is gone")
            }
            Err(why) => return Ok(Err(why)),
        };
        self.say(&line)?;
        outcome.ready = Some(true);
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

    fn complain(&self, why: &str, hint: Option<String>) {
        let failure = Failure::new(Kind::Impossible, "up", why).with_optional_hint(hint);
        self.context.complain(failure);
    }

    fn say(&self, line: &str) -> Result<(), Failure> {
        if self.is_json {
            return Ok(());
        }
        output::line(line)
    }
}

pub(super) async fn down(context: &Context, args: Down) -> Result<(), Failure> {
    let mut session = context.session("down").await?;
    let windows = ops::windows_down(&mut session, args.file).await;
    let windows = windows.or_fail("down")?;
    let ended = if windows.is_empty() {
        Vec::new()
    } else {
        let ended = ops::kill(&mut session, Caller::of_environment(), windows).await;
        ended.or_fail("down")?
    };
    kill::report("killed", &ended, args.json)
}
