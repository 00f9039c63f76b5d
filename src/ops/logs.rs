//! The output of tasks: of the present run, of an earlier one, live, or the lines of it that match.

use super::error::OpsError;
use super::run::StartedRun;
use super::session::TaskSession;
use crate::client::{ClientError, DaemonClient};
use crate::model::RunEnd;
use crate::store::archive::{self, ArchivedRun, RunInfo};
use crate::terminal::Pattern;
use crate::wire::{
    LogRequest, RefusalKind, Request, Response, SearchMatch, SearchRequest, SearchResult, TaskLog,
    missing_lines,
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

/// Returns the output of a task's present run or, of a task that is gone, of its last stored run, and
/// which that is. A cursor is of a present run.
pub(crate) async fn last_log(
    session: &mut TaskSession,
    request: LogRequest,
) -> Result<(TaskLog, Option<RunInfo>), OpsError> {
    let (name, has_cursor) = (request.task.clone(), request.since.is_some());
    match present_log(session, request).await {
        Err(error) if !has_cursor => {
            let kept = stored_if_gone(session, &name, error)?;
            let about = kept.about.clone();
            Ok((log_of_stored(kept), Some(about)))
        }
        log => Ok((log?, None)),
    }
}

/// Returns the last stored run of a task of which this error says that it is gone.
fn stored_if_gone(
    session: &TaskSession,
    name: &str,
    error: OpsError,
) -> Result<ArchivedRun, OpsError> {
    let is_gone = error.kind() == RefusalKind::Missing;
    let kept = is_gone.then(|| stored(session, name, None)).transpose()?;
    kept.flatten().ok_or(error)
}

fn stored(
    session: &TaskSession,
    name: &str,
    run: Option<u32>,
) -> Result<Option<ArchivedRun>, OpsError> {
    archive::find(&session.paths.runs(), name, run).map_err(OpsError::Archive)
}

fn log_of_stored(kept: ArchivedRun) -> TaskLog {
    TaskLog {
        window_id: kept.about.window_id,
        window_name: kept.about.window_name,
        run: Some(kept.about.run),
        lines: kept.lines,
        cursor: None,
        may_lack_beginning: kept.about.gap_after.is_some(),
        gap_after: kept.about.gap_after.filter(|gap| *gap > 0),
    }
}

/// Returns that the output is of this run, because its task is gone.
pub(crate) fn stored_words(run: &RunInfo) -> String {
    let end = RunEnd::of(run.exit_signal.as_deref(), run.exit_code).words();
    format!(
        "{} is gone; this is its last run, {}, which {end}",
        run.window_name, run.run
    )
}

/// Returns the stored output of an ended run.
pub(crate) async fn earlier_log(
    session: &mut TaskSession,
    request: LogRequest,
    run: u32,
) -> Result<TaskLog, OpsError> {
    let name = &request.task;
    if let Some(kept) = stored(session, name, Some(run))? {
        return Ok(log_of_stored(kept));
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

/// Begins to follow the output of the task in this window. [`DaemonClient::line`] returns it, one JSON
/// string per line.
pub(crate) async fn follow_log(
    session: &TaskSession,
    window: &str,
    is_raw: bool,
) -> Result<DaemonClient, OpsError> {
    let daemon = session.daemon_or_start().await?;
    let mut daemon = daemon.ok_or_else(|| session.no_daemon())?;
    daemon.follow(window.to_owned(), is_raw).await?;
    Ok(daemon)
}

/// Begins to follow the output of a run that was launched, as [`follow_log`].
pub(crate) async fn follow_launched(started: &StartedRun) -> Result<DaemonClient, OpsError> {
    let mut daemon = DaemonClient::connect(&started.paths.socket()).await?;
    daemon.follow(started.run.window_id.clone(), false).await?;
    Ok(daemon)
}

/// Returns the lines that match: of the present runs or, of a task that is named and gone, of its last
/// stored run, and which that is.
pub(crate) async fn search(
    session: &mut TaskSession,
    request: SearchRequest,
) -> Result<(SearchResult, Option<RunInfo>), OpsError> {
    let pattern = pattern_of(&request)?;
    let error = match session.ask_by_name(&Request::Search(request.clone())).await {
        Ok(Response::Matches(found)) => return Ok((found, None)),
        Ok(_) => return Err(ClientError::Unexpected.into()),
        Err(error) => error,
    };
    let Some(name) = request.task else {
        return Err(error);
    };
    let kept = stored_if_gone(session, &name, error)?;
    let gap = kept.about.gap_after;
    let lines = kept.lines.into_iter().enumerate();
    let found = lines.filter(|(_, line)| pattern.is_in(line));
    let matches = found.map(|(index, line)| SearchMatch {
        window_id: kept.about.window_id.clone(),
        window_name: kept.about.window_name.clone(),
        run: Some(kept.about.run),
        line_number: index + 1,
        line,
        may_lack_beginning: gap.is_some(),
    });
    let found = SearchResult {
        matches: matches.collect(),
        incomplete: gap.map(|gap| missing_lines(&name, gap)).into_iter().collect(),
    };
    Ok((found, Some(kept.about)))
}

pub(super) fn pattern_of(request: &SearchRequest) -> Result<Pattern, OpsError> {
    Pattern::parse(&request.pattern, request.regex, request.ignore_case)
        .map_err(|error| OpsError::Usage(error.to_string()))
}
