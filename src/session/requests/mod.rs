//! Requests: each is a story of its own, from its first look to its answer.

mod ends;
mod launch;
mod output;
mod send;
mod tasks;
mod wait;

use std::pin::Pin;
use std::sync::Arc;

use super::ending_runs::Killer;
use super::input::Reply;
use super::state::{Cx, State};
use crate::model::{Error, Snapshot, Task, WindowId};
use crate::wire::{Request, Response};

pub(crate) use output::matches_in;

/// How to start a missing session.
const NO_SESSION_HINT: &str =
    "`tmux-task run NAME -- COMMAND` starts a task and with it the session";

/// Carries out a request. Resolves to the last reply to its client, or the refusal.
pub(super) fn serve(cx: &Cx, request: Request) -> Story<'_> {
    match request {
        Request::Run(launch) => Box::pin(launch::run(cx, *launch)),
        Request::Follow { window, raw, lines } => {
            Box::pin(async move { output::follow(cx, &window, raw, lines).await })
        }
        Request::List => answered(tasks::list(cx)),
        Request::Count => answered(tasks::count(cx)),
        Request::Find { task } => answered(async move { tasks::find(cx, &task).await }),
        Request::Explain { task } => answered(async move { tasks::explain(cx, &task).await }),
        Request::Reads { owner } => answered(async { Ok(tasks::expect_reader(cx, owner)) }),
        Request::Seen { owner, events } => {
            answered(async move { Ok(tasks::note_seen(cx, &owner, &events)) })
        }
        Request::Send(request) => answered(send::send(cx, request)),
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
            answered(async move { ends::kill(cx, &tasks, is_repeated, &killer, &choice).await })
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
            answered(async move { ends::kill_all(cx, &killer, &choice).await })
        }
        Request::Endings { tasks, at_once } => {
            answered(async move { ends::endings(cx, &tasks, at_once).await })
        }
        Request::Prune => answered(ends::prune(cx)),
        Request::Stop { cleanup } => answered(ends::stop(cx, cleanup)),
        Request::Wait(request) => answered(wait::wait(cx, request)),
        Request::Log(request) => answered(output::log(cx, request)),
        Request::Record { task } => answered(async move { output::record(cx, &task).await }),
        Request::Search(request) => answered(async move { output::search(cx, &request).await }),
        Request::Status => answered(tasks::status(cx)),
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
