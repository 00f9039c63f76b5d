//! The end of tasks, of the session and of the daemon.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::endings::{close, end_runs, fields_of, list_of_tasks};
use super::super::input::{Effect, Job, LogLevel, LookOrder};
use super::super::state::{Cx, State};
use super::super::stories::turn_to_change;
use crate::model::text::counted;
use crate::model::{Error, ErrorKind, Level, StopChoice, Task, WindowId, quote_where_needed};
use crate::rules::wire::{Caller, EndedTasks, EndingRuns, Response};

/// Ends tasks; none of them if one of the names is no task's. An earlier daemon may have ended a part of them.
pub(super) async fn kill(
    cx: &Cx,
    names: Vec<String>,
    is_repeated: bool,
    killer: Caller,
    choice: StopChoice,
) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    let mut tasks = cx.with(|state| state.find_tasks_to_end(&names, is_repeated))?;
    killer.sign(&mut tasks);
    let reasons = killer.reasons(&tasks);
    // What has begun to end is ended also without the client.
    cx.keep();
    let ended = end_runs(cx, &tasks, &reasons, &choice, false).await;
    if cx.has_left() {
        // Somebody has to know of it.
        if let Err(Error { message, .. }) = ended {
            cx.with(|state| state.notice(Level::Warning, message, state.now));
        }
        return Ok(Response::Done);
    }
    cx.with(|state| {
        let is_gone = |task: &&Arc<Task>| {
            let now = state.task(task.window);
            now.is_none_or(|now| now.run != task.run)
        };
        let gone: Vec<&Arc<Task>> = tasks.iter().filter(is_gone).collect();
        if !gone.is_empty() {
            let text = format!("killed {}", list_of_tasks(gone));
            state.notice(Level::Info, text, state.now);
        }
    });
    cx.recorded().await;
    let ended = ended?;
    let of = |task: &Arc<Task>| fields_of(task, ended.get(&task.window));
    Ok(Response::Ended(EndedTasks {
        tasks: tasks.iter().map(of).collect(),
        moved: Vec::new(),
    }))
}

/// Ends the session, after all its runs have ended, but those of windows that live on in another session.
pub(super) async fn kill_all(
    cx: &Cx,
    killer: Caller,
    choice: StopChoice,
) -> Result<Response, Error> {
    let order = LookOrder::barrier(cx.with(|state| state.windows()));
    cx.look(order).await;
    let present = cx.find_present_name().await?;
    if let (Some(named), Some(present)) = (cx.to.as_deref(), present.as_deref())
        && named != present
    {
        // Another session may have had the name since.
        return Err(renamed(named, present));
    }
    let windows = cx.with(|state| match state.link.life {
        Some(_) => Ok(state.windows()),
        None => Err(state.missing()),
    })?;
    let shared = cx.run(|outcome| Job::FindShared(windows, outcome)).await?;
    let mut tasks = cx.with(|state| state.tasks());
    tasks.retain(|task| task.is_alive() && !shared.contains(&task.window));
    killer.sign(&mut tasks);
    let reasons = killer.reasons(&tasks);
    cx.keep();
    if let Err(refusal) = end_runs(cx, &tasks, &reasons, &choice, true).await {
        cx.with(|state| {
            // The windows of those that have ended go all the same.
            let windows = tasks.iter().map(|task| task.window);
            let ended = windows.filter(|window| state.endings.contain(*window));
            let ended: Vec<WindowId> = ended.collect();
            if !ended.is_empty() {
                state.spawn(|cx| close(cx, ended));
            }
        });
        cx.recorded().await;
        return Err(refusal);
    }
    let windows = cx.with(|state| state.windows());
    let link = turn_to_change(cx, |_, _| true).await;
    let killed = link.run(|outcome| Job::KillSession(windows, outcome));
    let moved = killed.await?;
    let tasks = cx.with(|state| state.tasks());
    let mut killed = killer.reasons(&tasks);
    killed.retain(|window, _| !moved.contains(window));
    cx.look(LookOrder {
        killed,
        ..LookOrder::of(tasks.iter().map(|task| task.window))
    })
    .await;
    let (moved, tasks): (Vec<_>, Vec<_>) = tasks
        .into_iter()
        .partition(|task| moved.contains(&task.window));
    let text = format!("ended the session with {}", counted(tasks.len(), "task"));
    cx.with(|state| state.notice(Level::Info, text, state.now));
    cx.recorded().await;
    Ok(ended(&tasks, &moved))
}

pub(super) async fn prune(cx: &Cx) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    let mut dead = cx.with(|state| state.tasks());
    // The user may want to keep the last output of a shell.
    dead.retain(|task| !task.is_alive() && !task.shell);
    let pane_of = |task: &Arc<Task>| Some((task.window, task.pane?));
    let panes = dead.iter().filter_map(pane_of).collect();
    let link = turn_to_change(cx, |_, _| true).await;
    cx.keep();
    link.run(|outcome| Job::Prune(panes, outcome)).await?;
    cx.look(LookOrder::of(dead.iter().map(|task| task.window)))
        .await;
    // A task that was run again meanwhile still exists.
    dead.retain(|task| cx.with(|state| state.task(task.window).is_none()));
    if !dead.is_empty() {
        let text = format!("pruned {}", list_of_tasks(&dead));
        cx.with(|state| state.notice(Level::Info, text, state.now));
    }
    cx.recorded().await;
    Ok(ended(&dead, &[]))
}

/// Returns the runs that are being ended, as far as that is known.
pub(super) async fn endings(cx: &Cx, tasks: Vec<String>, at_once: bool) -> Result<Response, Error> {
    cx.first_look(LookOrder::default()).await?;
    let runs = cx.with(|state| state.endings_of(&tasks, at_once));
    Ok(Response::Endings(EndingRuns { runs }))
}

/// Stops the daemon, and ends the session before if that is asked for and no task in it is active or will be run
/// again.
pub(super) async fn stop(cx: &Cx, cleanup: bool) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    // The daemon stops, whoever asked for it.
    cx.keep();
    let is_over = |state: &mut State| {
        let counts = state.status().filter(|_| state.link.life.is_some());
        counts.is_some_and(|counts| counts.restarting == 0)
    };
    if cleanup && cx.with(is_over) {
        let link = turn_to_change(cx, |_, _| true).await;
        if let Err(error) = link.run(Job::Cleanup).await {
            let text = format!("could not end the session error={:?}", error.message);
            cx.with(|state| state.log(LogLevel::Error, text));
        }
        cx.look(LookOrder::of(cx.with(|state| state.windows())))
            .await;
    }
    cx.with(|state| state.effects.push(Effect::Leave));
    Ok(Response::Done)
}

fn renamed(named: &str, present: &str) -> Error {
    let message =
        format!("no session `{named}`: the one that had this name is called `{present}` now");
    let hint = format!("`-s {}` names it", quote_where_needed(present));
    Error::missing(message).with_hint(hint)
}

fn ended(tasks: &[Arc<Task>], moved: &[Arc<Task>]) -> Response {
    let all = |tasks: &[Arc<Task>]| tasks.iter().map(|task| fields_of(task, None)).collect();
    Response::Ended(EndedTasks {
        tasks: all(tasks),
        moved: all(moved),
    })
}

impl State {
    /// Returns the tasks of these names or window ids, each once.
    fn find_tasks_to_end(
        &self,
        names: &[String],
        is_repeated: bool,
    ) -> Result<Vec<Arc<Task>>, Error> {
        let mut tasks = Vec::new();
        let mut windows = BTreeSet::new();
        for name in names {
            let found = self.look().and_then(|look| look.find_task_to_end(name));
            match found {
                Ok(task) if windows.insert(task.window) => tasks.push(Arc::clone(task)),
                Ok(_) => {}
                Err(refusal) if is_repeated && refusal.kind == ErrorKind::Missing => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(tasks)
    }
}
