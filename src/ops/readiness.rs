//! When a task of a file is ready.

use std::time::Duration;

use tokio::time::Instant;

use super::after::{RunFailure, Success, ended_as, wait_for_success};
use super::caller::Caller;
use super::list::find_listed;
use super::logs::present_log;
use super::patient_wait::{PatientWait, WaitNews};
use super::port_readiness::wait_for_port;
use super::run::StartedRun;
use super::session::TaskSession;
use super::up::{TaskPlan, TaskRun};
use super::wait::{find_to_wait, wait_of_launch};
use crate::client::DaemonClient;
use crate::config::Ready;
use crate::model::{Condition, Error, ErrorKind, WaitOutcome, limit_words};
use crate::tmux::Gate;
use crate::wire::{LaunchedRun, LogRequest, TaskFields, TaskLog, WaitRequest, WaitResult};

/// Why a task of a file is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotReady {
    /// What happened, in words that follow its name.
    pub(crate) why: String,
    /// The last lines of its output, where it has ended.
    pub(crate) tail: Vec<String>,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
    /// Whether the time was over.
    pub(crate) has_timed_out: bool,
    /// What it asked for then.
    pub(crate) asks: Option<String>,
}

impl NotReady {
    pub(super) fn because(why: String) -> Self {
        Self {
            why,
            tail: Vec::new(),
            hint: None,
            has_timed_out: false,
            asks: None,
        }
    }

    fn with_trouble(self, trouble: Option<String>) -> Self {
        let why = match trouble {
            Some(trouble) => format!("{}; {trouble}", self.why),
            None => self.why,
        };
        Self { why, ..self }
    }

    fn in_time(limit: Duration, asks: Option<String>) -> Self {
        let mut why = format!("was not ready after {}", limit_words(limit));
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
    pub(crate) fn not_started(error: &Error) -> Self {
        Self::after_error("could not be started", error)
    }

    fn after_error(what: &str, error: &Error) -> Self {
        Self {
            hint: error.hint.clone(),
            ..Self::because(format!("{what}: {}", error))
        }
    }
}

/// How it is known that a task is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It has printed the text.
    Printed,
    /// It listens on its port or answers.
    Listens,
    /// It has no such text, and has ended with code 0.
    Succeeded,
    /// It ran before, and what it printed first is no longer in its history.
    OutOfSight,
}

/// Waits until a task of a file is ready, or has failed and no restart follows. A run that was not
/// started now may have printed the text before its history begins, and is not waited for then.
/// `limit` is the time that the deadline comes after. A failure has the last `tail` lines of the run.
/// `report` is called for what happens meanwhile.
pub(crate) async fn wait_until_ready(
    session: &mut TaskSession,
    plan: &TaskPlan,
    started: (&TaskRun, Option<StartedRun>),
    deadline: Option<Instant>,
    limit: Duration,
    tail: usize,
    report: &dyn Fn(WaitNews<'_>),
) -> Result<Readiness, NotReady> {
    let patience = PatientWait::new(deadline, tail, report);
    let window = started.0.window().unwrap_or_default().to_owned();
    let mut trouble = None;
    let (found, ready) = match &plan.ready {
        Some(Ready::Text(text)) => {
            let found = wait_for_text(session, text, started, tail, patience).await;
            (found, Readiness::Printed)
        }
        Some(Ready::Port(port)) => {
            let found = wait_for_port(session, &window, *port, None, patience, &mut trouble).await;
            (found.map(Some), Readiness::Listens)
        }
        Some(Ready::Http(url)) => {
            let (port, url) = (url.port, Some(url));
            let found = wait_for_port(session, &window, port, url, patience, &mut trouble).await;
            (found.map(Some), Readiness::Listens)
        }
        None => {
            let found = wait_for_success(session, &window, deadline, tail, report).await;
            (found.map(Some), Readiness::Succeeded)
        }
    };
    match found {
        Ok(None) => Ok(Readiness::OutOfSight),
        Ok(Some(Success::Yes)) => Ok(ready),
        Ok(Some(Success::No(RunFailure { why, tail }))) => Err(NotReady {
            tail,
            ..NotReady::because(why).with_trouble(trouble)
        }),
        Ok(Some(Success::TimedOut(asks))) => {
            Err(NotReady::in_time(limit, asks).with_trouble(trouble))
        }
        Err(error) if has_disappeared(&error) => {
            Err(NotReady::because("has disappeared".to_owned()))
        }
        Err(error) => Err(NotReady::after_error("could not be waited for", &error)),
    }
}

fn has_disappeared(error: &Error) -> bool {
    error.kind == ErrorKind::Missing
}

/// Waits until the task has printed this text in its present run, or has failed and no restart follows;
/// `None` if the text is out of sight.
async fn wait_for_text(
    session: &mut TaskSession,
    text: &str,
    started: (&TaskRun, Option<StartedRun>),
    tail: usize,
    mut patience: PatientWait<'_>,
) -> Result<Option<Success>, Error> {
    let (run, launched) = started;
    let name = run.window().unwrap_or_default().to_owned();
    let earlier = run.earlier_run();
    let mut from_start = launched.and_then(|one| Some((one.daemon?, one.run, one.gate)));
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
                ..LogRequest::default()
            };
            let log = present_log(session, request).await?;
            match find_in_log(&log, &listed.task, text, tail, earlier) {
                TextSearch::Ended(success) => return Ok(Some(success)),
                TextSearch::OutOfSight => return Ok(None),
                TextSearch::StillPossible => {}
            }
            let (mut daemon, window) = find_to_wait(session, &name).await?;
            let request = WaitRequest {
                task: window,
                run: log.run,
                conditions: vec![Condition::Text(text.to_owned())],
                since: log.cursor,
                ..WaitRequest::default()
            };
            (log.run, patience.wait(&mut daemon, request, || {}).await)
        };
        let result = match result {
            Ok(result) => result,
            Err(error) if patience.goes_on_after(&error) => continue,
            // A restart may have begun another run since this one was looked at.
            Err(_) if refused != Some(run) => {
                refused = Some(run);
                continue;
            }
            Err(error) => return Err(error),
        };
        match next_step(result.outcome) {
            NextStep::Return(success) => return Ok(Some(success)),
            NextStep::ReturnTimeout => return Ok(Some(Success::TimedOut(patience.asks))),
            NextStep::LookAgain => {}
            NextStep::AskHowItEnded => {
                let listed = find_listed(session, &name).await?;
                if listed.next_restart.is_none() && listed.task.dead {
                    return Ok(Some(Success::No(RunFailure {
                        why: ended_without(&listed.task, text),
                        tail: result.tail,
                    })));
                }
            }
        }
    }
}

/// What a task's output so far says of a text that it is to print.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TextSearch {
    /// Printed, or the run has ended without it.
    Ended(Success),
    /// The run is an earlier one, and its first output is no longer in its history.
    OutOfSight,
    /// The run may still print it.
    StillPossible,
}

/// Looks for the text in what a task has printed.
fn find_in_log(
    log: &TaskLog,
    task: &TaskFields,
    text: &str,
    tail: usize,
    earlier_run: Option<u32>,
) -> TextSearch {
    if log.lines.iter().any(|line| line.contains(text)) {
        TextSearch::Ended(Success::Yes)
    } else if task.dead {
        let with_text = log.lines.iter().filter(|line| !line.trim().is_empty());
        let mut last: Vec<String> = with_text.rev().take(tail).cloned().collect();
        last.reverse();
        TextSearch::Ended(Success::No(RunFailure {
            why: ended_without(task, text),
            tail: last,
        }))
    } else if log.may_lack_beginning && log.run.is_some() && log.run == earlier_run {
        TextSearch::OutOfSight
    } else {
        TextSearch::StillPossible
    }
}

/// What follows the end of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NextStep {
    Return(Success),
    ReturnTimeout,
    /// The cursor or the run is not the present one, or the task asks for input or was answered.
    LookAgain,
    /// The run has ended: a restart may follow.
    AskHowItEnded,
}

fn next_step(outcome: WaitOutcome) -> NextStep {
    match outcome {
        WaitOutcome::Matched | WaitOutcome::Listening => NextStep::Return(Success::Yes),
        WaitOutcome::Timeout => NextStep::ReturnTimeout,
        WaitOutcome::Disappeared => {
            let gone = RunFailure::without_output("has disappeared");
            NextStep::Return(Success::No(gone))
        }
        WaitOutcome::Respawned
        | WaitOutcome::AnchorLost
        | WaitOutcome::Input
        | WaitOutcome::Changed => NextStep::LookAgain,
        WaitOutcome::Died | WaitOutcome::Exited => NextStep::AskHowItEnded,
        WaitOutcome::Bell | WaitOutcome::Idle | WaitOutcome::Signalled | WaitOutcome::Stopped => {
            let lost = RunFailure::without_output("could not be waited for");
            NextStep::Return(Success::No(lost))
        }
    }
}

/// Waits for a text in a run from its start on. The command waits at the gate until all of its output
/// is followed.
async fn wait_from_start(
    mut daemon: DaemonClient,
    text: &str,
    run: &LaunchedRun,
    gate: Option<Gate>,
    patience: &mut PatientWait<'_>,
) -> Result<WaitResult, Error> {
    let owner = Caller::of_environment().owner;
    let request = wait_of_launch(
        run,
        vec![Condition::Text(text.to_owned())],
        owner,
        gate.is_some(),
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of_log(lines: &[&str], exit_code: Option<i32>, may_lack_beginning: bool) -> TextSearch {
        let log = TaskLog {
            window_id: "@1".to_owned(),
            window_name: "api".to_owned(),
            run: Some(2),
            lines: lines.iter().map(ToString::to_string).collect(),
            may_lack_beginning,
            ..TaskLog::default()
        };
        let task = TaskFields {
            dead: exit_code.is_some(),
            exit_code,
            ..TaskFields::default()
        };
        find_in_log(&log, &task, "ready", 2, Some(2))
    }

    #[test]
    fn a_text_is_looked_for_in_what_was_printed() {
        let printed = TextSearch::Ended(Success::Yes);
        assert_eq!(of_log(&["is ready now"], None, true), printed);
        assert_eq!(of_log(&["ready"], Some(1), false), printed);
        assert_eq!(of_log(&["read"], None, false), TextSearch::StillPossible);
        assert_eq!(of_log(&["read"], None, true), TextSearch::OutOfSight);
        let without = of_log(&["1", "2", " ", "3"], Some(0), true);
        let TextSearch::Ended(Success::No(failure)) = without else {
            panic!("{without:?}");
        };
        let why = &failure.why;
        assert!(why.ends_with("without printing `ready`"), "{why}");
        assert_eq!(failure.tail, ["2", "3"]);
    }

    #[test]
    fn each_end_of_a_wait_has_its_next_step() {
        for outcome in [WaitOutcome::Respawned, WaitOutcome::Input] {
            assert_eq!(next_step(outcome), NextStep::LookAgain);
        }
        assert_eq!(next_step(WaitOutcome::Died), NextStep::AskHowItEnded);
        assert_eq!(
            next_step(WaitOutcome::Matched),
            NextStep::Return(Success::Yes)
        );
    }
}
