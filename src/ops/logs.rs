//! The output of tasks: of the present run, of an earlier one, or live.

use super::error::OpsError;
use super::session::Session;
use crate::archive;
use crate::client::{Client, ClientError};
use crate::daemon::read_task_log;
use crate::wire::{LogRequest, Request, Response, TaskLog};

/// Returns the output of a task's present run, optionally from a cursor on. Raw output includes
/// escape sequences.
pub(crate) async fn present_log(
    session: &mut Session,
    request: LogRequest,
) -> Result<TaskLog, OpsError> {
    let answer = session.ask_by_name(&Request::Log(request.clone())).await;
    log_of(session, request, answer).await
}

/// Returns the output of a task's present run, as [`present_log`], if the session is known already.
pub(crate) async fn further_log(
    session: &Session,
    request: LogRequest,
) -> Result<TaskLog, OpsError> {
    let answer = session.ask(&Request::Log(request.clone())).await;
    log_of(session, request, answer).await
}

/// Returns the output that the daemon has answered; without a daemon, what tmux has.
async fn log_of(
    session: &Session,
    request: LogRequest,
    answer: Result<Option<Response>, OpsError>,
) -> Result<TaskLog, OpsError> {
    match answer {
        Ok(Some(Response::Log(log))) => return Ok(log),
        Ok(Some(Response::Unattached) | None) => {}
        Ok(Some(_)) => return Err(ClientError::Unexpected.into()),
        // tmux has it as well.
        Err(error) if error.is_unknown_request() => {}
        Err(error) => return Err(error),
    }
    let look = session.look().await?;
    let life = look.life.clone().filter(|_| look.exists);
    let life = life.ok_or_else(|| session.missing())?;
    let task = look.find_task(&request.task)?;
    let mut connection = session.connection();
    Ok(read_task_log(&mut connection, &life, task, &request).await?)
}

/// Returns the stored output of an ended run.
pub(crate) async fn earlier_log(
    session: &mut Session,
    request: LogRequest,
    run: u32,
) -> Result<TaskLog, OpsError> {
    let name = &request.task;
    let kept = archive::find(&session.paths.runs(), name, run).map_err(OpsError::Archive)?;
    if let Some(kept) = kept {
        return Ok(TaskLog {
            window_id: kept.about.window_id,
            window_name: kept.about.window_name,
            run: Some(run),
            lines: kept.lines,
            cursor: None,
            may_lack_beginning: false,
        });
    }
    let name = name.clone();
    // The present run is not stored yet.
    match present_log(session, request).await {
        Ok(log) if log.run == Some(run) => Ok(TaskLog {
            cursor: None,
            ..log
        }),
        Ok(_) | Err(_) => Err(OpsError::NotKept { run, name }),
    }
}

/// Begins to follow the output of the task in this window. [`Client::line`] returns it, one JSON
/// string per line.
pub(crate) async fn follow_log(
    session: &Session,
    window: &str,
    is_raw: bool,
) -> Result<Client, OpsError> {
    let daemon = session.daemon_or_start().await?;
    let mut daemon = daemon.ok_or_else(|| session.no_daemon())?;
    daemon.follow(window.to_owned(), is_raw).await?;
    Ok(daemon)
}
