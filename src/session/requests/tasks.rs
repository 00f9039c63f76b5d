//! What is known of tasks, and who reads their events.

use std::time::Duration;

use super::super::input::LookOrder;
use super::super::state::{Cx, State};
use super::output::find_named;
use crate::model::{Error, Seq};
use crate::wire::Response;

/// A list queries up to this many windows for changes that are never reported: an option was set,
/// another program runs in the foreground, or a dead pane was respawned.
const FEW_WINDOWS: usize = 32;

/// How long a command that reads events for its owner is expected to say which it has read. One that
/// waits for longer announces itself again.
const READS_WITHIN: Duration = Duration::from_secs(6);

pub(super) async fn list(cx: &Cx) -> Result<Response, Error> {
    cx.first_look(cx.with(|state| state.order_for_list()))
        .await?;
    cx.with(|state| {
        if state.look_problem.is_some() {
            state.look()?;
        }
        Ok(Response::List(state.view(state.now)))
    })
}

pub(super) async fn count(cx: &Cx) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    let counts = cx.with(|state| state.engine.counts());
    Ok(Response::Counted(counts.unwrap_or_default()))
}

/// The status itself is the event loop's, which fills it in. A session that is named may have another name
/// since the last look; without a name no tmux is needed.
pub(super) async fn status(cx: &Cx) -> Result<Response, Error> {
    if cx.to.is_some() {
        cx.first_look(LookOrder::barrier([])).await?;
    }
    Ok(Response::Status(Box::default()))
}

pub(super) async fn find(cx: &Cx, task: &str) -> Result<Response, Error> {
    cx.first_look(LookOrder::barrier([])).await?;
    cx.with(|state| {
        let task = state.find_task(task)?;
        Ok(Response::Found(Box::new(state.listed(&task, state.now))))
    })
}

/// Explains why a task is or is not judged to wait for input.
pub(super) async fn explain(cx: &Cx, task: &str) -> Result<Response, Error> {
    let task = find_named(cx, task).await?;
    let explanation = cx.with(|state| state.explain(&task, state.now));
    Ok(Response::Explained(Box::new(explanation)))
}

/// Notes that a command reads events for this owner.
pub(super) fn expect_reader(cx: &Cx, owner: String) -> Response {
    cx.with(|state| {
        let until = state.now.mono + READS_WITHIN;
        state.engine.expect_reader(owner, until, state.now);
    });
    Response::Done
}

/// Notes which events an owner has read.
pub(super) fn note_seen(cx: &Cx, owner: &str, events: &[Seq]) -> Response {
    cx.with(|state| state.engine.note_seen(owner, events));
    Response::Done
}

impl State {
    /// Returns the look for a list: at all windows if they are few, otherwise at the dead ones if those
    /// are few.
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
