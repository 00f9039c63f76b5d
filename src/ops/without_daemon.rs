//! Who answers a request: the daemon, or where none runs this file, from tmux and /proc, and from the
//! session's files.
//!
//! A launch is not here: besides its answer it has a file and a gate, and a daemon that is not attached
//! yet looks before and after it (`launch.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::ending::{EndWatch, not_ended};
use super::logs::pattern_of;
use super::lookup;
use super::session::TaskSession;
use super::stored_feed::{no_feed, stored_consumers};
use crate::daemon::{read_task_log, search_task, type_into_task};
use crate::model::{
    Error, Ordered as _, PaneId, SessionId, Snapshot, StatusCounts, StopChoice, Task, WindowId,
};
use crate::prompt::{self, UserRules};
use crate::session::{Killer, Progress, Typing};
use crate::store::feed::{has_files, remove_consumer as remove_file, sync_consumers};
use crate::tmux::{self, PaneView, Unless};
use crate::wire::{
    EndedTask, ExplainedState, Explanation, LogRequest, LsTask, LsView, Request, Response,
    SearchRequest, SearchResult, SendRequest, TaskLog,
};
use crate::{config, process};

/// A session that is about to be ended.
#[derive(Debug)]
pub(crate) struct SessionToKill {
    id: SessionId,
    pub(crate) tasks: Vec<Arc<Task>>,
}

impl TaskSession {
    /// Sends the daemon a request; where none runs, it is answered without one.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Response, Error> {
        let answered = self.ask_daemon(request).await?;
        self.or_without_daemon(answered, request).await
    }

    /// The same for a request with the session's name, which is resolved with it if it is not yet.
    pub(crate) async fn ask_by_name(&mut self, request: &Request) -> Result<Response, Error> {
        let answered = self.ask_daemon_by_name(request).await?;
        self.or_without_daemon(answered, request).await
    }

    async fn or_without_daemon(
        &self,
        answered: Option<Response>,
        request: &Request,
    ) -> Result<Response, Error> {
        match answered {
            Some(Response::Unattached) | None => answer(self, request, &EndWatch::default()).await,
            Some(answered) => Ok(answered),
        }
    }
}

/// Answers a request. `watch` follows the runs that it ends.
///
/// # Errors
///
/// When it fails, or only a daemon can answer it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a request is the daemon's unless it is answered here"
)]
pub(super) async fn answer(
    session: &TaskSession,
    request: &Request,
    watch: &EndWatch,
) -> Result<Response, Error> {
    Ok(match request {
        Request::List => Response::List(list(session).await?),
        Request::Count => Response::Counted(count(session).await?),
        Request::Find { task } => {
            let task = session.task(task).await?;
            Response::Found(Box::new(LsTask::new(task, None)))
        }
        Request::Log(log) => Response::Log(read_log(session, log).await?),
        Request::Search(request) => Response::Matches(search(session, request).await?),
        Request::Record { task } => {
            let task = session.task(task).await?;
            let found = tmux::read_spec(&mut session.connection(), task.window).await?;
            Response::Record {
                window_name: task.name.clone(),
                spec: found.map(|(_, spec)| Box::new(spec)),
            }
        }
        Request::Explain { task } => {
            let task = session.task(task).await?;
            Response::Explained(Box::new(explain(session, &task).await?))
        }
        Request::Send(request) | Request::SendGuarded(request) => {
            send(session, request).await?;
            Response::Done
        }
        Request::Kill {
            tasks,
            owner,
            by_agent,
            asked_by,
            choice,
        } => {
            let killer = Killer {
                owner: owner.clone(),
                is_agent: *by_agent,
                asked_by: asked_by.clone(),
            };
            kill(session, request, tasks, &killer, choice, watch).await?
        }
        Request::KillAll { choice, .. } => {
            let target = session_to_kill(session).await?;
            kill_session(session, target, choice, watch).await?
        }
        // Those of another command are not known.
        Request::Endings { .. } => Response::Endings { runs: Vec::new() },
        Request::Prune => prune(session).await?,
        Request::Stop { cleanup } => {
            stop(session, *cleanup).await?;
            Response::Done
        }
        Request::Consumers => {
            let stored = stored_consumers(session)?;
            Response::Consumers(stored.ok_or_else(|| no_feed(session))?)
        }
        Request::RemoveConsumer { name } => {
            remove_consumer(session, name)?;
            Response::Done
        }
        _ => return Err(session.no_daemon()),
    })
}

/// Returns the tasks. A missing session has none.
pub(super) async fn list(session: &TaskSession) -> Result<LsView, Error> {
    Ok(view_of(&session.look().await?))
}

/// Returns the view of a look: waiting is judged by the screens.
fn view_of(look: &Snapshot) -> LsView {
    LsView::new(look, false, |task| {
        let asks = Some(task).filter(|task| task.is_alive());
        let found = asks.and_then(|task| prompt::find(&task.screen));
        LsTask::new(Arc::clone(task), found.map(|found| found.prompt.text))
    })
}

async fn count(session: &TaskSession) -> Result<StatusCounts, Error> {
    let look = session.look().await?;
    let asks = |window: WindowId| {
        let task = look.tasks.get(&window);
        task.is_some_and(|task| prompt::find(&task.screen).is_some())
    };
    Ok(look.counts(asks, |_| false))
}

async fn read_log(session: &TaskSession, request: &LogRequest) -> Result<TaskLog, Error> {
    let look = session.look().await?;
    let life = look.life.clone().filter(|_| look.exists);
    let life = life.ok_or_else(|| session.missing())?;
    let task = look.find_task(&request.task)?;
    read_task_log(&mut session.connection(), &life, task, &[], request).await
}

async fn search(session: &TaskSession, request: &SearchRequest) -> Result<SearchResult, Error> {
    let pattern = pattern_of(request)?;
    let look = session.look().await?;
    if !look.exists {
        return Err(session.missing());
    }
    let tasks = match &request.task {
        Some(name) => vec![look.find_task(name)?],
        None => look.tasks.values().collect(),
    };
    let mut found = SearchResult::default();
    for task in tasks {
        let further = search_task(&mut session.connection(), task, &[], &pattern).await?;
        found.matches.extend(further.matches);
        found.incomplete.extend(further.incomplete);
    }
    Ok(found)
}

/// Explains a task by a single look.
async fn explain(session: &TaskSession, task: &Task) -> Result<Explanation, Error> {
    let (true, Some(pid), Some(pane)) = (task.is_alive(), task.pid, task.pane) else {
        return Ok(Explanation::new(task, None, None));
    };
    let input = config::load(&lookup)?.input;
    let user_rules =
        UserRules::new(&input.ask, &input.ignore, input.mute_tasks).map_err(Error::of)?;
    let view = PaneView::read(&mut session.connection(), pane).await?;
    let terminal = process::examine(pid, Path::new(&view.tty)).evidence;
    let judgement = prompt::judge_task(task, terminal.as_deref(), &user_rules);
    let mut explanation = Explanation::new(task, Some(&judgement), terminal.as_deref());
    let mutes = |found: prompt::PromptMatch| user_rules.mutes(task, &found.prompt);
    if judgement.found.is_some_and(mutes) {
        explanation.state = ExplainedState::Muted;
    }
    Ok(explanation)
}

async fn send(session: &TaskSession, request: &SendRequest) -> Result<(), Error> {
    let task = session.task(&request.task).await?;
    let explanation = if request.needs_prompt() {
        Some(Box::new(explain(session, &task).await?))
    } else {
        None
    };
    let mut connection = session.connection();
    let mut typing = Typing {
        task,
        explanation,
        request: request.clone(),
        progress: Progress::default(),
    };
    loop {
        type_into_task(&mut connection, &session.server, &mut typing).await?;
        let Some(due) = typing.progress.due else {
            return Ok(());
        };
        tokio::time::sleep_until(due.into()).await;
    }
}

/// Ends these tasks, given by name or window id; none of them when one does not exist. `request` is
/// the one that asks for it.
async fn kill(
    session: &TaskSession,
    request: &Request,
    names: &[String],
    killer: &Killer,
    choice: &StopChoice,
    watch: &EndWatch,
) -> Result<Response, Error> {
    let look = session.look().await?;
    if !look.exists {
        return Err(session.missing());
    }
    let (mut tasks, mut windows) = (Vec::new(), BTreeSet::new());
    for name in names {
        let task = look.find_task_to_end(name)?;
        if windows.insert(task.window) {
            tasks.push(Arc::clone(task));
        }
    }
    // If a daemon looks before their windows are closed, it has to know why they ended.
    killer.sign(&mut tasks);
    let reasons = killer.reasons(&tasks);
    let alive = tasks.iter().filter(|task| task.is_alive());
    let marks: Vec<_> = alive
        .filter_map(|task| Some((Arc::clone(task), *reasons.get(&task.window)?)))
        .collect();
    tmux::mark_endings(&mut session.connection(), &marks).await?;
    let failed = watch.end_alone(&tasks, choice).await;
    let left: Vec<WindowId> = failed.keys().copied().collect();
    tmux::unmark_endings(&mut session.connection(), &left).await?;
    // A daemon that has been started meanwhile keeps their output before it closes their windows.
    if failed.is_empty()
        && let Ok(Some(ended)) = session.ask_daemon(request).await
    {
        return Ok(ended);
    }
    close_ended(session, &tasks, &failed).await?;
    if !failed.is_empty() {
        return Err(not_ended(&tasks, &failed));
    }
    Ok(ended(&tasks, Vec::new()))
}

/// Returns what `kill_all` would end.
pub(crate) async fn session_to_kill(session: &TaskSession) -> Result<SessionToKill, Error> {
    let look = session.look().await?;
    let Some(life) = look.life.filter(|_| look.exists) else {
        return Err(session.missing());
    };
    Ok(SessionToKill {
        id: life.id,
        tasks: look.tasks.into_values().collect(),
    })
}

/// Ends the session that the caller has looked at.
pub(super) async fn kill_session(
    session: &TaskSession,
    target: SessionToKill,
    choice: &StopChoice,
    watch: &EndWatch,
) -> Result<Response, Error> {
    let windows: Vec<WindowId> = target.tasks.iter().map(|task| task.window).collect();
    let shared = tmux::shared_windows(&mut session.connection(), target.id, &windows).await?;
    let mut ending = target.tasks.clone();
    ending.retain(|task| task.is_alive() && !shared.contains(&task.window));
    let failed = watch.end_alone(&ending, choice).await;
    if !failed.is_empty() {
        close_ended(session, &ending, &failed).await?;
        return Err(not_ended(&ending, &failed));
    }
    let _lock = session.lock_server().await?;
    tmux::kill_session(&mut session.connection(), target.id).await?;
    let left = tmux::where_is(&mut session.connection(), &windows).await?;
    let is_left = |task: &Arc<Task>| left.contains_key(&task.window);
    let (moved, gone): (Vec<_>, Vec<_>) = target.tasks.into_iter().partition(is_left);
    Ok(ended(
        &gone,
        moved.iter().map(|task| ended_task(task)).collect(),
    ))
}

/// Closes the windows of those tasks that have ended.
async fn close_ended(
    session: &TaskSession,
    tasks: &[Arc<Task>],
    failed: &BTreeMap<WindowId, String>,
) -> Result<(), Error> {
    for task in tasks {
        if !failed.contains_key(&task.window) {
            tmux::kill_window(&mut session.connection(), task.window).await?;
        }
    }
    Ok(())
}

/// Removes ended tasks.
async fn prune(session: &TaskSession) -> Result<Response, Error> {
    let before = session.look().await?;
    let mut dead: BTreeMap<WindowId, (PaneId, Arc<Task>)> = before
        .tasks
        .into_values()
        .filter(|task| task.is_prunable())
        .filter_map(|task| Some((task.window, (task.pane?, task))))
        .into_map();
    let panes: Vec<_> = dead
        .iter()
        .map(|(window, (pane, _))| (*window, *pane))
        .collect();
    tmux::prune_windows(&mut session.connection(), &panes).await?;
    let after = session.look().await?;
    dead.retain(|window, _| !after.tasks.contains_key(window));
    let gone: Vec<_> = dead.into_values().map(|(_, task)| task).collect();
    Ok(ended(&gone, Vec::new()))
}

fn ended(tasks: &[Arc<Task>], moved: Vec<EndedTask>) -> Response {
    Response::Ended {
        tasks: tasks.iter().map(|task| ended_task(task)).collect(),
        moved,
    }
}

fn ended_task(task: &Task) -> EndedTask {
    EndedTask {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
        exit_code: None,
        exit_signal: None,
    }
}

/// Ends the session when no task in it is active, if that is asked for: there is no daemon to stop.
async fn stop(session: &TaskSession, cleanup: bool) -> Result<(), Error> {
    let look = session.look().await?;
    let Some(life) = look.life.filter(|_| look.exists) else {
        return Ok(());
    };
    if !cleanup {
        return Err(session.no_daemon());
    }
    let _lock = session.lock_server().await?;
    tmux::end_idle_session(&mut session.connection(), &life, Unless::Active).await?;
    Ok(())
}

fn remove_consumer(session: &TaskSession, name: &str) -> Result<(), Error> {
    if !has_files(&session.paths.feed()) {
        return Err(no_feed(session));
    }
    let folder = session.paths.consumers();
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotFound {
            let hint = "`tmux-task consumer ls` shows which there are";
            Error::missing(format!("no consumer `{name}`")).with_hint(hint)
        } else {
            Error::folder(&folder, &source)
        }
    };
    folder.join(name).symlink_metadata().map_err(failed)?;
    remove_file(&folder, name).map_err(failed)?;
    sync_consumers(&folder).map_err(failed)
}
