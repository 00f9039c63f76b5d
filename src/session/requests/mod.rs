//! Requests: each is a story of its own, from its first look to its answer.

mod ends;
mod launch;
mod output;
mod send;
mod tasks;
mod wait;

use std::sync::Arc;

use super::ending_runs::Killer;
use super::input::Reply;
use super::state::{Cx, State};
use crate::model::{Error, Snapshot, Task, WindowId};
use crate::wire::{Request, Response};

/// How to start a missing session.
const NO_SESSION_HINT: &str =
    "`tmux-task run NAME -- COMMAND` starts a task and with it the session";

/// Carries out a request. Returns the last reply to its client.
///
/// # Errors
///
/// The refusal.
pub(super) async fn serve(cx: &Cx, request: Request) -> Result<Reply, Error> {
    let response = match request {
        // On the heap, each only while it is asked for: there can be many waits.
        Request::Run(launch) => return Box::pin(launch::run(cx, *launch)).await,
        Request::Follow { window, raw, lines } => {
            return output::follow(cx, &window, raw, lines).await;
        }
        Request::List => tasks::list(cx).await?,
        Request::Count => tasks::count(cx).await?,
        Request::Find { task } => tasks::find(cx, &task).await?,
        Request::Explain { task } => tasks::explain(cx, &task).await?,
        Request::Reads { owner } => tasks::expect_reader(cx, owner),
        Request::Seen { owner, events } => tasks::note_seen(cx, &owner, &events),
        Request::Send(request) => send::send(cx, request).await?,
        Request::Kill {
            tasks,
            owner,
            by_agent,
            asked_by,
            is_repeated,
            choice,
        } => {
            let killer = Killer {
                owner,
                is_agent: by_agent,
                asked_by,
            };
            ends::kill(cx, &tasks, is_repeated, &killer, &choice).await?
        }
        Request::KillAll {
            owner,
            asked_by,
            choice,
        } => {
            let killer = Killer {
                is_agent: owner.is_some(),
                owner,
                asked_by,
            };
            ends::kill_all(cx, &killer, &choice).await?
        }
        Request::Endings { tasks, at_once } => ends::endings(cx, &tasks, at_once).await?,
        Request::Prune => ends::prune(cx).await?,
        Request::Stop { cleanup } => ends::stop(cx, cleanup).await?,
        Request::Wait(request) => Box::pin(wait::wait(cx, request)).await?,
        Request::Cursor { window } => output::cursor(cx, &window).await?,
        Request::Log(request) => output::log(cx, request).await?,
        Request::Record { task } => output::record(cx, &task).await?,
        Request::Search(request) => output::search(cx, &request).await?,
        Request::Status
        | Request::Subscribe { .. }
        | Request::Consume(_)
        | Request::Consumers
        | Request::MessageReaders
        | Request::RemoveConsumer { .. } => {
            return Err(Error::usage("this is not for the session"));
        }
    };
    Ok(Response::into(response))
}

impl State {
    /// Returns the windows of tasks with this name or window id.
    fn windows_named(&self, name: &str) -> Vec<WindowId> {
        let tasks = self.tasks().into_iter();
        tasks
            .filter(|task| task.name == name || task.window.to_string() == name)
            .map(|task| task.window)
            .collect()
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

    /// Returns why nothing is known of the session.
    fn missing(&self) -> Error {
        if let Some(problem) = &self.look_problem {
            return Error::failed(problem.clone());
        }
        let message = format!("no session `{}`", self.session_name);
        Error::missing(message).with_hint(NO_SESSION_HINT)
    }
}
