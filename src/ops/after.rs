//! Waits until a task has succeeded, for tasks that start after it.

use tokio::time::Instant;

use super::list::find_listed;
use super::patient_wait::{PatientWait, WaitNews};
use super::session::TaskSession;
use super::wait::find_to_wait;
use crate::model::{Condition, Error, WaitOutcome};
use crate::restarts::{AfterEnd, after_end, gave_up};
use crate::wire::{TaskFields, WaitRequest, WaitResult};

/// How the wait for a task's success ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Success {
    /// Its present run has ended with code 0.
    Yes,
    /// It has failed or is gone.
    No(RunFailure),
    /// The time was over before. If the task asked for input then: the question.
    TimedOut(Option<String>),
}

/// What happened to a run that has not succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunFailure {
    /// In words that follow the task's name.
    pub(crate) why: String,
    /// The last lines of its output, where it has ended.
    pub(crate) tail: Vec<String>,
}

impl RunFailure {
    /// Returns a failure that no output explains.
    pub(super) fn without_output(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            tail: Vec::new(),
        }
    }
}

/// Waits until the task's present run has ended with code 0, or has failed and no restart follows. A
/// run that replaces it is waited for instead. A failure has the last `tail` lines of the run. `report`
/// is called for what happens meanwhile.
pub(crate) async fn wait_for_success(
    session: &mut TaskSession,
    name: &str,
    deadline: Option<Instant>,
    tail: usize,
    report: &dyn Fn(WaitNews<'_>),
) -> Result<Success, Error> {
    let mut patience = PatientWait::new(deadline, tail, report);
    loop {
        let result = match wait_for_end(session, name, &mut patience).await {
            Ok(result) => result,
            Err(error) if patience.goes_on_after(&error) => continue,
            Err(error) => return Err(error),
        };
        if result.outcome == WaitOutcome::Timeout {
            return Ok(Success::TimedOut(patience.asks));
        }
        if result.outcome == WaitOutcome::Respawned {
            continue;
        }
        if result.outcome != WaitOutcome::Exited {
            let why = if result.outcome == WaitOutcome::Disappeared {
                "has disappeared"
            } else {
                "could not be waited for"
            };
            return Ok(Success::No(RunFailure::without_output(why)));
        }
        if result.exit_code == Some(0) {
            return Ok(Success::Yes);
        }
        let listed = find_listed(session, name).await?;
        match listed.next_restart {
            Some(restart) => {
                if !patience.sleep_until(restart).await {
                    return Ok(Success::TimedOut(None));
                }
            }
            // Another run has begun meanwhile.
            None if !listed.task.dead => {}
            None => {
                return Ok(Success::No(RunFailure {
                    why: ended_as(&listed.task),
                    tail: result.tail,
                }));
            }
        }
    }
}

async fn wait_for_end(
    session: &mut TaskSession,
    name: &str,
    patience: &mut PatientWait<'_>,
) -> Result<WaitResult, Error> {
    let (mut daemon, window) = find_to_wait(session, name).await?;
    let request = WaitRequest {
        task: window,
        conditions: vec![Condition::Exit],
        ..WaitRequest::default()
    };
    patience.wait(&mut daemon, request, || {}).await
}

/// Returns how a task's run ended, in words that follow its name.
pub(super) fn ended_as(task: &TaskFields) -> String {
    let how = task.end_words();
    match task.to_task().ok().as_ref().and_then(after_end) {
        Some(AfterEnd::GaveUp(used)) => format!("{how}; {}", gave_up(used)),
        // One that is prevented is not announced.
        Some(AfterEnd::Restart(_)) | None => how,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{RestartPolicy, TaskRestarts};

    #[test]
    fn an_end_is_described_with_the_restarts_before_it() {
        let task = |code, signal: Option<&str>, used| TaskFields {
            window_id: "@1".to_owned(),
            dead: true,
            pane_state_known: true,
            exit_code: code,
            exit_signal: signal.map(str::to_owned),
            restarts: Some(TaskRestarts {
                policy: RestartPolicy {
                    limit: 2,
                    backoff: Duration::from_millis(1),
                },
                used,
                token: "t".to_owned(),
            }),
            ..TaskFields::default()
        };
        for (task, expected) in [
            (task(Some(0), None, 2), "exited with code 0"),
            (task(Some(3), None, 1), "exited with code 3"),
            (
                task(Some(127), None, 2),
                "exited with code 127; gave up after 2 restarts",
            ),
            (
                task(None, Some("SIGKILL"), 2),
                "was killed by SIGKILL; gave up after 2 restarts",
            ),
            (task(None, None, 2), "exited with unknown code"),
        ] {
            assert_eq!(ended_as(&task), expected);
        }
    }
}
