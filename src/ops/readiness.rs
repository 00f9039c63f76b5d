//! When a task of a file is ready.

use std::time::Duration;

use tokio::time::Instant;

use super::after::{Success, ended_as, wait_for_success};
use super::caller::Caller;
use super::error::{ErrorKind, OpsError};
use super::list::find_listed;
use super::logs::present_log;
use super::patient_wait::{PatientWait, WaitNews};
use super::session::Session;
use super::up::{Started, TaskPlan};
use super::wait::find_to_wait;
use crate::client::{Client, ClientError};
use crate::model::with_causes;
use crate::tmux::Gate;
use crate::wire::{
    ConditionFields, LaunchedRun, LogRequest, OutcomeName, TaskFields, WaitRequest, WaitResult,
};

/// Why a task of a file is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotReady {
    /// What happened, in words that follow its name.
    pub(crate) why: String,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// Whether the time was over.
    pub(crate) has_timed_out: bool,
    /// What it asked for then.
    pub(crate) asks: Option<String>,
}

impl NotReady {
    fn because(why: String) -> Self {
        Self {
            why,
            hint: None,
            has_timed_out: false,
            asks: None,
        }
    }

    fn in_time(limit: Duration, asks: Option<String>) -> Self {
        let mut why = format!("was not ready after {:.1} s", limit.as_secs_f32());
        if let Some(question) = &asks {
            why = format!("{why}: it asks for input: {question}");
        }
        Self {
            has_timed_out: true,
            asks,
            ..Self::because(why)
        }
    }

    /// Returns that a task could not be started.
    pub(crate) fn not_started(error: &OpsError) -> Self {
        Self::after_error("could not be started", error)
    }

    fn after_error(what: &str, error: &OpsError) -> Self {
        Self {
            hint: error.hint(),
            ..Self::because(format!("{what}: {}", with_causes(error)))
        }
    }
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
/// `limit` is the time that the deadline comes after. `report` is called for what happens meanwhile.
pub(crate) async fn wait_until_ready(
    session: &mut Session,
    plan: &TaskPlan,
    started: Started,
    deadline: Option<Instant>,
    limit: Duration,
    report: &dyn Fn(WaitNews<'_>),
) -> Result<Readiness, NotReady> {
    let (found, ready) = match &plan.ready {
        Some(text) => {
            let patience = PatientWait::new(deadline, report);
            let found = wait_for_text(session, text, started, patience).await;
            (found, Readiness::Printed)
        }
        None => {
            let found = wait_for_success(session, started.window(), deadline, report).await;
            (found.map(Some), Readiness::Succeeded)
        }
    };
    match found {
        Ok(None) => Ok(Readiness::OutOfSight),
        Ok(Some(Success::Yes)) => Ok(ready),
        Ok(Some(Success::No(why))) => Err(NotReady::because(why)),
        Ok(Some(Success::TimedOut(asks))) => Err(NotReady::in_time(limit, asks)),
        Err(error) if has_disappeared(&error) => {
            Err(NotReady::because("has disappeared".to_owned()))
        }
        Err(error) => Err(NotReady::after_error("could not be waited for", &error)),
    }
}

fn has_disappeared(error: &OpsError) -> bool {
    error.kind() == ErrorKind::Missing && !matches!(error, OpsError::NoDaemon(_))
}

/// Waits until the task has printed this text in its present run, or has failed and no restart follows;
/// `None` if the text is out of sight.
async fn wait_for_text(
    session: &mut Session,
    text: &str,
    started: Started,
    mut patience: PatientWait<'_>,
) -> Result<Option<Success>, OpsError> {
    let name = started.window().to_owned();
    let earlier = started.earlier_run();
    let mut from_start = started.into_launched();
    // The run that a wait was refused for.
    let mut refused = None;
    loop {
        let (run, result) = if let Some((daemon, run, gate)) = from_start.take() {
            // All that it prints is followed: it may clear its screen at once.
            let result = wait_from_start(daemon, text, &run, gate, &mut patience).await;
            (Some(run.run), result)
        } else {
            let listed = find_listed(session, &name).await?;
            if let Some(restart) = listed.next_restart {
                if !patience.sleep_until(restart).await {
                    return Ok(Some(Success::TimedOut(None)));
                }
                continue;
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
            if listed.task.dead {
                return Ok(Some(Success::No(ended_without(&listed.task, text))));
            }
            if log.may_lack_beginning && log.run.is_some() && log.run == earlier {
                return Ok(None);
            }
            let (mut daemon, window) = find_to_wait(session, &name).await?;
            let request = WaitRequest {
                window,
                run: log.run,
                conditions: vec![ConditionFields::Text(text.to_owned())],
                since: log.cursor,
                ..WaitRequest::default()
            };
            (log.run, patience.wait(&mut daemon, request, || {}).await)
        };
        let result = match result {
            Ok(result) => result,
            // Refused, because a restart has begun another run since this one was looked at.
            Err(OpsError::Client(ClientError::Refused(_))) if refused != Some(run) => {
                refused = Some(run);
                continue;
            }
            Err(error) if patience.goes_on_after(&error) => continue,
            Err(error) => return Err(error),
        };
        match result.outcome {
            OutcomeName::Matched => return Ok(Some(Success::Yes)),
            OutcomeName::Timeout => return Ok(Some(Success::TimedOut(patience.asks))),
            OutcomeName::Disappeared => return Ok(Some(Success::No("has disappeared".to_owned()))),
            // The cursor or the run is not the present one, or the task asks for input or was answered:
            // looked at again.
            OutcomeName::Respawned
            | OutcomeName::AnchorLost
            | OutcomeName::Input
            | OutcomeName::Changed => {}
            OutcomeName::Died | OutcomeName::Exited => {
                let listed = find_listed(session, &name).await?;
                if listed.next_restart.is_none() && listed.task.dead {
                    return Ok(Some(Success::No(ended_without(&listed.task, text))));
                }
            }
            OutcomeName::Bell
            | OutcomeName::Idle
            | OutcomeName::Signalled
            | OutcomeName::Stopped => {
                return Ok(Some(Success::No("could not be waited for".to_owned())));
            }
        }
    }
}

/// Waits for a text in a run from its start on. The command waits at the gate until all of its output
/// is followed.
async fn wait_from_start(
    mut daemon: Client,
    text: &str,
    run: &LaunchedRun,
    gate: Option<Gate>,
    patience: &mut PatientWait<'_>,
) -> Result<WaitResult, OpsError> {
    let request = WaitRequest {
        window: run.window_id.clone(),
        run: Some(run.run),
        conditions: vec![ConditionFields::Text(text.to_owned())],
        since: Some(run.cursor.clone()),
        owner: Caller::of_environment().owner,
        says_when_it_begins: gate.is_some(),
        ..WaitRequest::default()
    };
    patience.wait(&mut daemon, request, || drop(gate)).await
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
