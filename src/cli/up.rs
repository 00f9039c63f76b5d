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
use super::{kill, output};
use crate::ops::{self, Caller, ErrorKind, Readiness, Start, Success, TaskPlan};
use crate::wire::LsView;

/// What is known of a task, for those that start after it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    Pending,
    Ready,
    /// It will not be ready: what happened, in words that follow its name.
    Failed(String),
}

/// What became of a task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    window_name: String,
    window_id: Option<String>,
    state: State,
    /// Whether it is ready; null where that was not waited for.
    ready: Option<bool>,
    /// Why it was not started, or is not ready.
    why: Option<String>,
    #[serde(skip)]
    kind: Option<Kind>,
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
    async fn all(mut self, plans: &[TaskPlan]) -> Result<Vec<Outcome>, Failure> {
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
                sender.send_replace(match &outcome.why {
                    None => Progress::Ready,
                    Some(why) => Progress::Failed(why.clone()),
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
    async fn one(&self, plan: &TaskPlan, is_needed: bool) -> Result<Outcome, Failure> {
        let name = &plan.name;
        let mut outcome = Outcome {
            window_name: name.clone(),
            window_id: None,
            state: State::NotStarted,
            ready: None,
            why: None,
            kind: None,
        };
        for other in &plan.after {
            if let Progress::Failed(why) = self.progress_of(other).await {
                self.complain(&format!("{name} was not started: {other} {why}"));
                outcome.why = Some("was not started".to_owned());
                outcome.kind = Some(Kind::Impossible);
                return Ok(outcome);
            }
        }
        let (state, window, earlier) = match self.find_start(plan).await? {
            Start::Runs { window, run } => (State::Running, window, run),
            Start::Needed => {
                let session = self.context.session("up").await?;
                let window = ops::start_one(session, plan).await.or_fail("up")?;
                (State::Started, window, None)
            }
        };
        let done = match state {
            State::Running => "runs already:",
            State::Started | State::NotStarted => "started",
        };
        self.say(&format!("{done} {window} ({name})"))?;
        outcome.state = state;
        outcome.window_id = Some(window.clone());
        let Some(readiness) = self.readiness(plan, &window, earlier, is_needed).await? else {
            return Ok(outcome);
        };
        let (why, kind) = match readiness {
            Readiness::OutOfSight => {
                self.say(&format!(
                    "taken as ready: {window} ({name}): the beginning of its output is gone"
                ))?;
                outcome.ready = Some(true);
                return Ok(outcome);
            }
            Readiness::Known(Success::Yes) => {
                let is_over = plan.ready.is_none();
                let done = if is_over { "succeeded" } else { "ready" };
                self.say(&format!("{done} {window} ({name})"))?;
                outcome.ready = Some(true);
                return Ok(outcome);
            }
            Readiness::Known(Success::No(why)) => (why, Kind::Impossible),
            Readiness::Known(Success::TimedOut) => {
                let seconds = self.timeout.as_secs_f32();
                (
                    format!("was not ready after {seconds:.1} s"),
                    Kind::TimedOut,
                )
            }
        };
        self.complain(&format!("{name} {why}"));
        outcome.ready = Some(false);
        outcome.why = Some(why);
        outcome.kind = Some(kind);
        Ok(outcome)
    }

    /// Returns what is to be done for a task now. The tasks may have changed while others were waited
    /// for.
    async fn find_start(&self, plan: &TaskPlan) -> Result<Start, Failure> {
        if plan.after.is_empty() {
            return Ok(plan.start(&self.view));
        }
        let mut session = self.context.session("up").await?;
        let view = ops::list(&mut session).await.or_fail("up")?;
        Ok(plan.start(&view))
    }

    /// Waits until a task is ready; `None` where that does not matter. `earlier` is its run if that was
    /// not started now.
    async fn readiness(
        &self,
        plan: &TaskPlan,
        window: &str,
        earlier: Option<u32>,
        is_needed: bool,
    ) -> Result<Option<Readiness>, Failure> {
        let mut session = self.context.given("up")?;
        let readiness = match &plan.ready {
            Some(text) if is_needed || self.waits_for_all => {
                ops::wait_until_ready(&mut session, window, text, earlier, self.deadline).await
            }
            None if is_needed => ops::wait_for_success(&mut session, window, self.deadline)
                .await
                .map(Readiness::Known),
            Some(_) | None => return Ok(None),
        };
        match readiness {
            Err(error) if error.kind() == ErrorKind::Missing => {
                let gone = Success::No("has disappeared".to_owned());
                Ok(Some(Readiness::Known(gone)))
            }
            readiness => readiness.or_fail("up").map(Some),
        }
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

    fn say(&self, line: &str) -> Result<(), Failure> {
        if self.is_json {
            return Ok(());
        }
        output::line(line)
    }

    fn complain(&self, why: &str) {
        output::complain(&Failure::new(Kind::Impossible, "up", why));
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
