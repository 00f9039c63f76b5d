//! Requests: each is a story of its own, from its first look to its answer.

mod ends;
mod launch;
mod send;
mod wait;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::input::{Job, LogLevel, LookOrder, Reply};
use super::listeners::OutputStream;
use super::promise::promise;
use super::state::{Cx, State};
use crate::model::{Error, Snapshot, Task, WindowId};
use crate::rules::terminal::{Line, Pattern, Utf8Splitter};
use crate::rules::wire::{
    LaunchRecord, LogRequest, Request, Response, SearchMatch, SearchRequest, SearchResult, TaskLog,
};

const NO_SESSION_HINT: &str =
    "`tmux-task run NAME -- COMMAND` starts a task and with it the session";

/// A list queries up to this many windows for changes that are never reported: an option was set,
/// another program runs in the foreground, or a dead pane was respawned.
const FEW_WINDOWS: usize = 32;

/// How long a command that reads events for its owner is expected to say which it has read. One that
/// waits for longer announces itself again.
const READS_WITHIN: Duration = Duration::from_secs(6);

/// Carries out a request. Resolves to the last reply to its client, or the refusal.
pub(super) fn serve(cx: &Cx, request: Request) -> Story<'_> {
    match request {
        Request::Run(launch) => Box::pin(launch::run(cx, *launch)),
        Request::Follow { window, raw, lines } => Box::pin(follow(cx, window, raw, lines)),
        Request::List => answered(list(cx)),
        Request::Count => answered(count(cx)),
        Request::Find { task } => answered(find(cx, task)),
        Request::Explain { task } => answered(explain(cx, task)),
        // A command reads events for this owner.
        Request::Reads { owner } => noted(cx, |state| {
            let until = state.now.mono + READS_WITHIN;
            state.engine.expect_reader(owner, until, state.now);
        }),
        // These an owner has read.
        Request::Seen { owner, events } => noted(cx, move |state| {
            state.engine.note_seen(&owner, &events, state.now)
        }),
        Request::Send(request) => answered(send::send(cx, request)),
        Request::Kill {
            tasks,
            caller,
            is_repeated,
            choice,
        } => answered(ends::kill(cx, tasks, is_repeated, caller, choice)),
        Request::KillAll { caller, choice } => answered(ends::kill_all(cx, caller, choice)),
        Request::Endings { tasks, at_once } => answered(ends::endings(cx, tasks, at_once)),
        Request::Prune => answered(ends::prune(cx)),
        Request::Stop { cleanup } => answered(ends::stop(cx, cleanup)),
        Request::Wait(request) => answered(wait::wait(cx, request)),
        Request::Log(request) => answered(log(cx, request)),
        Request::Record { task } => answered(record(cx, task)),
        Request::Search(request) => answered(search(cx, request)),
        Request::Status => answered(status(cx)),
        Request::Subscribe { .. }
        | Request::Consume(_)
        | Request::Consumers
        | Request::MessageReaders
        | Request::RemoveConsumer { .. } => {
            Box::pin(async { Err(Error::usage("this is not for the session")) })
        }
    }
}

/// What carries out a request. It is on the heap, each kind in its own size: there can be many waits.
type Story<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + 'a>>;

fn answered<'a>(story: impl Future<Output = Result<Response, Error>> + 'a) -> Story<'a> {
    Box::pin(async { story.await.map(Response::into) })
}

fn noted<'a>(cx: &'a Cx, note: impl FnOnce(&mut State) + 'a) -> Story<'a> {
    answered(async move {
        cx.with(note);
        Ok(Response::Done)
    })
}

async fn list(cx: &Cx) -> Result<Response, Error> {
    cx.first_look(cx.with(|state| state.order_for_list()))
        .await?;
    cx.with(|state| {
        if state.look_problem.is_some() {
            state.look()?;
        }
        Ok(Response::List(state.view(state.now)))
    })
}

async fn count(cx: &Cx) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    let counts = cx.with(|state| state.engine.counts());
    Ok(Response::Counted(counts.unwrap_or_default()))
}

/// The event loop fills in the status. Without a session's name, which may have changed, tmux is not needed.
async fn status(cx: &Cx) -> Result<Response, Error> {
    if cx.to.is_some() {
        cx.first_look(LookOrder::barrier([])).await?;
    }
    Ok(Response::Status(Box::default()))
}

async fn find(cx: &Cx, task: String) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    cx.with(|state| {
        let task = state.find_task(&task)?;
        Ok(Response::Found(Box::new(state.listed(&task, state.now))))
    })
}

async fn explain(cx: &Cx, task: String) -> Result<Response, Error> {
    let task = find_named(cx, &task).await?;
    let explanation = cx.with(|state| state.explain(&task, state.now));
    Ok(Response::Explained(Box::new(explanation)))
}

/// Sends the output of the task in this window from here on.
async fn follow(cx: &Cx, window: String, raw: bool, lines: usize) -> Result<Reply, Error> {
    let id = window.parse::<WindowId>().ok();
    cx.first_look(LookOrder::of(id)).await?;
    let task = id.and_then(|window| cx.with(|state| state.task(window)));
    let found = task.and_then(|task| Some((task.pane?, task)));
    let (pane, task) = found.ok_or_else(|| Error::missing(format!("no task {window}")))?;
    let Some(request_id) = cx.request else {
        return Ok(Reply::Cut);
    };
    let (done, is_complete) = promise();
    let stream = OutputStream {
        request_id,
        pane,
        task,
        raw: raw.then(Utf8Splitter::default),
        lines,
        done,
    };
    cx.with(|state| state.begin_with(pane).output_streams.push(stream));
    Ok(match is_complete.await? {
        true => Reply::Output(None),
        false => Reply::Cut,
    })
}

async fn log(cx: &Cx, request: LogRequest) -> Result<Response, Error> {
    let task = find_named(cx, &request.task).await?;
    let log = cx.run(|outcome| Job::ReadLog(task, request, outcome));
    Ok(Response::Log(log.await?))
}

async fn record(cx: &Cx, task: String) -> Result<Response, Error> {
    let task = find_named(cx, &task).await?;
    let window = task.window;
    let spec = cx.run(|outcome| Job::ReadRecord(window, outcome)).await?;
    Ok(Response::Record(LaunchRecord {
        window_name: task.name.clone(),
        spec: spec.map(Box::new),
    }))
}

/// Returns the lines that match, of one task or of all, one after the other: looks go between them.
async fn search(cx: &Cx, request: SearchRequest) -> Result<Response, Error> {
    let name = request.task.as_ref();
    let windows = name.map(|name| cx.with(|state| state.windows_named(name)));
    cx.first_look(LookOrder::barrier(windows.unwrap_or_default()))
        .await?;
    let pattern = Pattern::parse(&request.pattern, request.regex, request.ignore_case)?;
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
            Err(Error { message, .. }) if cx.with(|state| state.task(window).is_none()) => {
                let what = "a window was closed before it was searched";
                let text = format!("{what} error={message:?} window={window}");
                cx.with(|state| state.log(LogLevel::Debug, text));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Response::Matches(found))
}

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
async fn find_named(cx: &Cx, name: &str) -> Result<Arc<Task>, Error> {
    let windows = cx.with(|state| state.windows_named(name));
    cx.first_look(LookOrder::barrier(windows)).await?;
    cx.with(|state| state.find_task(name))
}

impl State {
    fn windows_named(&self, name: &str) -> Vec<WindowId> {
        let mut tasks = self.tasks();
        tasks.retain(|task| task.name == name || task.window.to_string() == name);
        tasks.iter().map(|task| task.window).collect()
    }

    /// Returns the task of this name or window id, as of the last look.
    fn find_task(&self, name: &str) -> Result<Arc<Task>, Error> {
        self.look()?.find_task(name).map(Arc::clone)
    }

    /// Returns the last look, if the session exists.
    fn look(&self) -> Result<&Snapshot, Error> {
        let look = self.engine.last_look().filter(|look| look.exists);
        look.ok_or_else(|| self.missing())
    }

    fn missing(&self) -> Error {
        if let Some(problem) = &self.look_problem {
            return Error::failed(problem.clone());
        }
        let message = format!("no session `{}`", self.session_name);
        Error::missing(message).with_hint(NO_SESSION_HINT)
    }

    /// Returns the look for a list: at all windows if they are few, else at the dead ones if those are.
    fn order_for_list(&self) -> LookOrder {
        let mut tasks = self.tasks();
        if tasks.len() > FEW_WINDOWS {
            tasks.retain(|task| !task.is_alive());
        }
        if tasks.len() > FEW_WINDOWS {
            tasks.clear();
        }
        LookOrder::barrier(tasks.iter().map(|task| task.window))
    }
}
