//! The output of tasks: its end, all of it, what matches in it, and what is written from now on.

use std::sync::Arc;

use super::super::input::{Job, LogLevel, LookOrder, Reply};
use super::super::listeners::OutputStream;
use super::super::promise::promise;
use super::super::state::Cx;
use crate::model::{Error, Task, WindowId};
use crate::terminal::{Line, Pattern, Utf8Splitter};
use crate::wire::{
    LaunchRecord, LogRequest, Response, SearchMatch, SearchRequest, SearchResult, TaskLog,
};

/// Sends the output of the task in this window from here on.
pub(super) async fn follow(cx: &Cx, window: &str, raw: bool, lines: usize) -> Result<Reply, Error> {
    let id = window.parse::<WindowId>().ok();
    cx.first_look(LookOrder::of(id)).await?;
    let task = id.and_then(|window| cx.with(|state| state.task(window)));
    let found = task.and_then(|task| Some((task.pane?, task)));
    let (pane, task) = found.ok_or_else(|| Error::missing(format!("no task {window}")))?;
    let Some(request_id) = cx.request else {
        return Ok(Reply::Cut);
    };
    let (done, is_complete) = promise();
    cx.with(|state| {
        let begins = state.begin_with(pane);
        begins.output_streams.push(OutputStream {
            request_id,
            pane,
            task,
            raw: raw.then(Utf8Splitter::default),
            lines,
            done,
        });
    });
    Ok(match is_complete.await? {
        true => Reply::Output(None),
        false => Reply::Cut,
    })
}

/// Returns the output of a task's present run.
pub(super) async fn log(cx: &Cx, request: LogRequest) -> Result<Response, Error> {
    let task = find_named(cx, &request.task).await?;
    let log = cx.run(|outcome| Job::ReadLog(task, request, outcome));
    Ok(Response::Log(log.await?))
}

/// Returns how a task was last launched.
pub(super) async fn record(cx: &Cx, task: &str) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    let task = cx.with(|state| state.find_task(task))?;
    let window = task.window;
    let spec = cx.run(|outcome| Job::ReadRecord(window, outcome)).await?;
    Ok(Response::Record(LaunchRecord {
        window_name: task.name.clone(),
        spec: spec.map(Box::new),
    }))
}

/// Returns the lines that match, of one task or of all, one after the other: looks go between them.
pub(super) async fn search(cx: &Cx, request: &SearchRequest) -> Result<Response, Error> {
    let SearchRequest {
        task,
        pattern,
        regex,
        ignore_case,
    } = request;
    let name = task.as_ref();
    let windows = name.map(|name| cx.with(|state| state.windows_named(name)));
    cx.first_look(LookOrder::barrier(windows.unwrap_or_default()))
        .await?;
    let pattern = Pattern::parse(pattern, *regex, *ignore_case)?;
    let tasks = cx.with(|state| match name {
        Some(name) => state.find_task(name).map(|task| vec![task]),
        None => state.look().map(|_| state.tasks()),
    })?;
    let mut found = SearchResult::default();
    for task in tasks.into_iter().filter(|task| task.pane.is_some()) {
        let window = task.window;
        let read = |outcome| Job::ReadLog(task, LogRequest::default(), outcome);
        match cx.run(read).await {
            Ok(log) => {
                let further = matches_in(log, &pattern);
                found.matches.extend(further.matches);
                found.incomplete.extend(further.incomplete);
            }
            // Its window was closed meanwhile.
            Err(error) if cx.with(|state| state.task(window).is_none()) => {
                let text = format!(
                    "a window was closed before it was searched error={:?} window={window}",
                    error.message
                );
                cx.with(|state| state.log(LogLevel::Debug, text));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Response::Matches(found))
}

/// Returns the lines of an output that match.
pub(crate) fn matches_in(log: TaskLog, pattern: &Pattern) -> SearchResult {
    let incomplete = log.missing().into_iter().collect();
    let is_match = |line: &String| {
        let runs = [(line.len(), 1)];
        pattern.find(&Line::new(line, &runs, true), 0).is_some()
    };
    let lines = log.lines.into_iter().enumerate();
    let found = lines.filter(|(_, line)| is_match(line));
    let matches = found.map(|(index, line)| SearchMatch {
        window_id: log.window_id.clone(),
        window_name: log.window_name.clone(),
        run: log.run,
        line_number: index + 1,
        line,
        may_lack_beginning: log.may_lack_beginning,
    });
    SearchResult {
        matches: matches.collect(),
        incomplete,
    }
}

/// Returns the task of this name or window id, after a look at it.
pub(super) async fn find_named(cx: &Cx, name: &str) -> Result<Arc<Task>, Error> {
    let windows = cx.with(|state| state.windows_named(name));
    cx.first_look(LookOrder::barrier(windows)).await?;
    cx.with(|state| state.find_task(name))
}
