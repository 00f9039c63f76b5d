//! The output of tasks: of the present run, of an earlier one, live, or the lines of it that match.

use super::error::OpsError;
use super::run::StartedRun;
use super::session::TaskSession;
use crate::client::{ClientError, DaemonClient};
use crate::daemon::matches_in;
use crate::store::archive;
use crate::terminal::Pattern;
use crate::wire::{
    LogRequest, RefusalKind, Request, Response, SearchRequest, SearchResult, TaskLog,
};

/// Returns the output of a task's present run, optionally from a cursor on. Raw output includes
/// escape sequences.
pub(crate) async fn present_log(
    session: &mut TaskSession,
    request: LogRequest,
) -> Result<TaskLog, OpsError> {
    log_of(session.ask_by_name(&Request::Log(request)).await?)
}

/// Returns the output of a task's present run, as [`present_log`], if the session is known already.
pub(crate) async fn further_log(
    session: &TaskSession,
    request: LogRequest,
) -> Result<TaskLog, OpsError> {
    log_of(session.ask(&Request::Log(request)).await?)
}

fn log_of(answer: Response) -> Result<TaskLog, OpsError> {
    let Response::Log(log) = answer else {
        return Err(ClientError::Unexpected.into());
    };
    Ok(log)
}

/// Returns the output of a task's present run or, if the task is gone and no cursor is given, of its last
/// stored run.
pub(crate) async fn last_log(
    session: &mut TaskSession,
    request: LogRequest,
) -> Result<TaskLog, OpsError> {
    let (name, has_cursor) = (request.task.clone(), request.since.is_some());
    match present_log(session, request).await {
        Err(error) if !has_cursor => stored_if_gone(session, &name, error),
        log => log,
    }
}

/// Returns the output of the last stored run of a task, if this error says that the task is gone.
fn stored_if_gone(session: &TaskSession, name: &str, error: OpsError) -> Result<TaskLog, OpsError> {
    let is_gone = error.kind() == RefusalKind::Missing;
    let kept = is_gone.then(|| stored(session, name, None)).transpose()?;
    kept.flatten().ok_or(error)
}

/// Returns the stored output of an ended run: of this one, or of the last one.
fn stored(
    session: &TaskSession,
    name: &str,
    run: Option<u32>,
) -> Result<Option<TaskLog>, OpsError> {
    let kept = archive::find(&session.paths.runs(), name, run).map_err(OpsError::Archive)?;
    Ok(kept.map(|kept| TaskLog {
        window_id: kept.about.window_id,
        window_name: kept.about.window_name,
        run: Some(kept.about.run),
        lines: kept.lines,
        cursor: None,
        may_lack_beginning: kept.about.gap_after.is_some(),
        gap_after: kept.about.gap_after.filter(|gap| *gap > 0),
        gone: run.is_none(),
    }))
}

/// Returns the stored output of an ended run.
pub(crate) async fn earlier_log(
    session: &mut TaskSession,
    request: LogRequest,
    run: u32,
) -> Result<TaskLog, OpsError> {
    let name = request.task.clone();
    if let Some(kept) = stored(session, &name, Some(run))? {
        return Ok(kept);
    }
    // The present run is not stored yet.
    match present_log(session, request).await {
        Ok(log) if log.run == Some(run) => Ok(TaskLog {
            cursor: None,
            ..log
        }),
        Ok(_) | Err(_) => Err(OpsError::NotKept { run, name }),
    }
}

/// Begins to follow the output of the task in this window, with this many of the lines before it.
/// [`DaemonClient::line`] returns it, one JSON string per line.
pub(crate) async fn follow_log(
    session: &TaskSession,
    window: &str,
    is_raw: bool,
    lines: usize,
) -> Result<DaemonClient, OpsError> {
    let daemon = session.daemon_or_start().await?;
    let mut daemon = daemon.ok_or_else(|| session.no_daemon())?;
    daemon.follow(window.to_owned(), is_raw, lines).await?;
    Ok(daemon)
}

/// Begins to follow the output of a run that was launched, as [`follow_log`].
pub(crate) async fn follow_launched(started: &StartedRun) -> Result<DaemonClient, OpsError> {
    let mut daemon = DaemonClient::connect(&started.paths.socket()).await?;
    let window = started.run.window_id.clone();
    daemon.follow(window, false, 0).await?;
    Ok(daemon)
}

/// Returns the lines that match: of the present runs or, of a task that is named and gone, of its last
/// stored run, and which that is.
pub(crate) async fn search(
    session: &mut TaskSession,
    request: SearchRequest,
) -> Result<(SearchResult, Option<String>), OpsError> {
    let pattern = pattern_of(&request)?;
    let name = request.task.clone().unwrap_or_default();
    match session.ask_by_name(&Request::Search(request)).await {
        Ok(Response::Matches(found)) => Ok((found, None)),
        Ok(_) => Err(ClientError::Unexpected.into()),
        Err(error) => {
            let log = stored_if_gone(session, &name, error)?;
            let note = log.gone_words();
            Ok((matches_in(log, &pattern), note))
        }
    }
}

pub(super) fn pattern_of(request: &SearchRequest) -> Result<Pattern, OpsError> {
    Pattern::parse(&request.pattern, request.regex, request.ignore_case)
        .map_err(|error| OpsError::Usage(error.to_string()))
}
