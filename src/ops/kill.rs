//! Ends tasks, sessions and the daemon, whose status is here as well.

use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::caller::Caller;
use super::list::look;
use super::session::{ANSWERS_WITHIN, TaskSession};
use crate::daemon::{has_left, written_pid};
use crate::model::{Error, StopChoice, Task};
use crate::rules::restarts::restart_of;
use crate::rules::wire::{DaemonStatus, EndedTask, EndedTasks, EndingRun, EndingRuns, Request};
use crate::tmux::{self, Unless};

/// Ends these tasks, given by name or window id; none of them when one does not exist.
pub(crate) async fn kill(
    session: &mut TaskSession,
    caller: Caller,
    names: Vec<String>,
    choice: &StopChoice,
) -> Result<Vec<EndedTask>, Error> {
    let request = Request::Kill {
        tasks: names.clone(),
        caller,
        is_repeated: false,
        choice: choice.clone(),
    };
    let mut ended = session.ask::<EndedTasks>(request).await?.tasks;
    // A daemon that was killed meanwhile has ended the others, and the next one does not know them.
    for name in names {
        let is_known = |task: &EndedTask| [&task.window_id, &task.window_name].contains(&&name);
        if !ended.iter().any(is_known) {
            ended.push(EndedTask {
                window_name: name,
                ..EndedTask::default()
            });
        }
    }
    Ok(ended)
}

/// Ends the session that has this name now. Another one may have had it before.
pub(crate) async fn kill_all(
    session: &mut TaskSession,
    grace: Option<Duration>,
) -> Result<EndedTasks, Error> {
    let request = Request::KillAll {
        caller: Caller::of_environment(),
        choice: StopChoice {
            signal: None,
            grace,
        },
    };
    session.ask(request).await
}

/// Removes ended tasks. A missing session has none.
pub(crate) async fn prune(session: &mut TaskSession) -> Result<Vec<EndedTask>, Error> {
    let pruned: Option<EndedTasks> = session.ask_if_exists(Request::Prune).await?;
    Ok(pruned.unwrap_or_default().tasks)
}

/// Returns the runs of these tasks, or of all, that are being ended; kills them if that is asked for.
pub(crate) async fn ending_runs(
    session: &mut TaskSession,
    names: &[String],
    at_once: bool,
) -> Result<Vec<EndingRun>, Error> {
    let request = Request::Endings {
        tasks: names.to_vec(),
        at_once,
    };
    let ending: Option<EndingRuns> = session.ask_running(request).await?;
    Ok(ending.map_or_else(Vec::new, |ending| ending.runs))
}

// The daemon itself.

/// Returns the status of the daemon of the session that has this name now. If tmux does not answer, it is that of
/// the daemon that was found by the name.
pub(crate) async fn daemon_status(session: &mut TaskSession) -> Result<DaemonStatus, Error> {
    let asked = timeout(ANSWERS_WITHIN, session.ask_running(Request::Status)).await;
    let answer = match asked {
        Ok(answer) => answer?,
        Err(_) => {
            session.is_name_resolved = true;
            session.ask_running(Request::Status).await?
        }
    };
    answer.ok_or_else(|| session.no_daemon())
}

/// Stops the daemon, and waits until it has left. With `cleanup` the session is ended too when no task
/// in it is active, even if no daemon runs. Where the session is missing as well, there is nothing to do.
pub(crate) async fn stop_daemon(session: &mut TaskSession, cleanup: bool) -> Result<(), Error> {
    let asked = written_pid(&session.paths.lock());
    if session
        .ask_running::<IgnoredAny>(Request::Stop { cleanup })
        .await?
        .is_none()
    {
        let look = look(session).await?;
        let goes_on = |task: &Arc<Task>| !task.is_alive() && restart_of(task).is_some();
        return match look.life {
            None => Ok(()),
            Some(_) if !cleanup => Err(session.no_daemon()),
            // The next daemon runs it again.
            Some(_) if look.tasks.values().any(goes_on) => Ok(()),
            Some(life) => {
                session.paths.create_runtime()?;
                let _lock = session.paths.lock_server().await;
                let mut connection = session.connection();
                tmux::end_idle_session(&mut connection, &life, Unless::Active).await?;
                Ok(())
            }
        };
    }
    if has_left(&session.paths.lock(), asked).await {
        return Ok(());
    }
    let log = session.paths.log();
    Err(Error::failed("the daemon is still stopping")
        .with_hint(format!("its log is {}", log.display())))
}
