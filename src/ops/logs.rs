//! The output of tasks: of the present run, of an earlier one, live, or the lines of it that match.

use std::collections::BTreeMap;
use std::io;

use super::list::list;
use super::session::TaskSession;
use crate::client::DaemonClient;
use crate::files;
use crate::model::Error;
use crate::rules::terminal::Pattern;
use crate::rules::wire::{LogRequest, Request, SearchRequest, SearchResult, TaskLog};
use crate::session::matches_in;
use crate::store::archive;

pub(crate) use crate::store::archive::RunInfo;

/// Returns the output of a task's present run.
pub(crate) async fn present_log(
    session: &mut TaskSession,
    request: LogRequest,
) -> Result<TaskLog, Error> {
    session.ask(Request::Log(request)).await
}

/// Returns a task's output with colours: the screen and at most this many rows of history, else all.
pub(crate) async fn coloured_log(
    session: &TaskSession,
    window: String,
    history_rows: Option<usize>,
) -> Result<Vec<String>, Error> {
    let request = LogRequest {
        task: window,
        raw: true,
        history_rows,
        ..LogRequest::default()
    };
    let log = present_log(&mut session.for_request(), request).await?;
    Ok(log.lines)
}

/// Returns the output of a task's present run or, without a cursor, of its last stored one.
pub(crate) async fn last_log(
    session: &mut TaskSession,
    request: LogRequest,
) -> Result<TaskLog, Error> {
    let (name, has_cursor) = (request.task.clone(), request.since.is_some());
    match present_log(session, request).await {
        Err(error) if !has_cursor => stored_if_gone(session, &name, error),
        log => log,
    }
}

/// Returns the output of the last stored run of a task, if this error says that the task is gone.
fn stored_if_gone(session: &TaskSession, name: &str, error: Error) -> Result<TaskLog, Error> {
    let is_gone = error.kind.is_missing();
    let kept = is_gone.then(|| stored(session, name, None)).transpose()?;
    kept.flatten().ok_or(error)
}

pub(super) fn archive_error(error: &io::Error) -> Error {
    let failed = Error::of(error);
    if files::is_refusal(error) {
        return failed
            .with_hint("earlier runs are read from a folder of your own only: put one there");
    }
    failed
}

/// Returns the stored output of an ended run: of this one, or of the last one.
fn stored(session: &TaskSession, name: &str, run: Option<u32>) -> Result<Option<TaskLog>, Error> {
    let kept =
        archive::find(&session.paths.runs(), name, run).map_err(|error| archive_error(&error))?;
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

pub(crate) async fn earlier_log(
    session: &mut TaskSession,
    request: LogRequest,
    run: u32,
) -> Result<TaskLog, Error> {
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
        Ok(_) | Err(_) => Err(Error::missing(format!(
            "no output of run {run} of task `{name}` was kept"
        ))
        .with_hint(format!(
            "`tmux-task logs {name} --runs` lists the runs that are stored"
        ))),
    }
}

/// Begins to follow the output of this window, after this many lines: one JSON string per line.
pub(crate) async fn follow_log(
    session: &TaskSession,
    window: &str,
    is_raw: bool,
    lines: usize,
) -> Result<DaemonClient, Error> {
    let mut daemon = session.daemon_or_start().await?;
    let request = Request::Follow {
        window: window.to_owned(),
        raw: is_raw,
        lines,
    };
    daemon.stream(&request).await?;
    Ok(daemon)
}

/// Returns the lines that match; of a task that is gone, of its last stored run, and which that is.
pub(crate) async fn search(
    session: &mut TaskSession,
    request: SearchRequest,
) -> Result<(SearchResult, Option<String>), Error> {
    let pattern = Pattern::parse(&request.pattern, request.regex, request.ignore_case)?;
    let name = request.task.clone().unwrap_or_default();
    match session.ask(Request::Search(request)).await {
        Ok(found) => Ok((found, None)),
        Err(error) => {
            let log = stored_if_gone(session, &name, error)?;
            let note = log.gone_words();
            Ok((matches_in(log, &pattern), note))
        }
    }
}

/// Returns the stored runs of these tasks, or of all, also of a session that is gone.
pub(crate) async fn stored_runs(
    session: &mut TaskSession,
    names: &[String],
) -> Result<Vec<RunInfo>, Error> {
    let mut runs = archive::list(&session.paths.runs()).map_err(|error| archive_error(&error))?;
    if runs.is_empty() && !list(session).await?.exists {
        return Err(session.missing());
    }
    runs.retain(|run| names.is_empty() || names.iter().any(|name| is_of(run, name)));
    let missing = names
        .iter()
        .find(|name| !runs.iter().any(|run| is_of(run, name)));
    match missing {
        Some(name) => Err(
            Error::missing(format!("no ended run of task `{name}` is stored")).with_hint(
                "a run is stored when it has ended; `tmux-task ls` shows the present ones",
            ),
        ),
        None => Ok(runs),
    }
}

/// Returns the last `most` runs of each task that was asked for, or of all of them, in their order.
pub(crate) fn last_of_each(mut runs: Vec<RunInfo>, names: &[String], most: usize) -> Vec<RunInfo> {
    let mut n_of: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    // Of each, the last one is counted first.
    runs.reverse();
    runs.retain(|run| {
        let n = n_of.entry(names.iter().position(|name| is_of(run, name)));
        *n.and_modify(|n| *n += 1).or_insert(1) <= most
    });
    runs.reverse();
    runs
}

fn is_of(run: &RunInfo, name: &str) -> bool {
    run.window_name == name || run.window_id == name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, number: u32) -> RunInfo {
        let run = format!(r#"{{"windowId":"@{name}","windowName":"{name}","run":{number}}}"#);
        serde_json::from_str(&run).unwrap()
    }

    #[test]
    fn the_last_runs_are_those_of_each_task() {
        let names = ["a", "b", "a", "c", "a", "b"];
        let runs: Vec<RunInfo> = names
            .iter()
            .zip(1..)
            .map(|(name, n)| run(name, n))
            .collect();
        for (names, most, expected) in [
            (&["a", "b"][..], 1, &[5, 6][..]),
            (&["@b", "c", "a"], 2, &[2, 3, 4, 5, 6]),
            (&["a"], 2, &[3, 5]),
            (&["a", "@a"], 1, &[5]),
            (&["a", "b"], 0, &[]),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let is_asked = |run: &&RunInfo| names.iter().any(|name| is_of(run, name));
            let asked = runs.iter().filter(is_asked).cloned().collect();
            let last = last_of_each(asked, &names, most);
            let numbers: Vec<u32> = last.iter().map(|run| run.run).collect();
            assert_eq!(numbers, expected, "{names:?}");
        }
    }
}
