//! Ends tasks and sessions, through the daemon if one runs, so that it knows why tasks disappear.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::caller::Caller;
use super::ending::{EndWatch, not_ended};
use super::error::OpsError;
use super::session::Session;
use crate::client::ClientError;
use crate::model::{Ordered as _, PaneId, SessionId, StopChoice, Task, WindowId};
use crate::session::Killer;
use crate::tmux;
use crate::wire::{EndedTask, Request, Response};

/// A session that is about to be ended.
#[derive(Debug)]
pub(crate) struct SessionToKill {
    id: SessionId,
    pub(crate) tasks: Vec<Arc<Task>>,
}

/// What became of the tasks of a command.
#[derive(Debug)]
pub(crate) struct KilledSession {
    pub(crate) ended: Vec<EndedTask>,
    /// Those that live on in another session, to which their windows belong as well.
    pub(crate) moved: Vec<EndedTask>,
}

/// Ends these tasks, given by name or window id; none of them when one does not exist.
pub(crate) async fn kill(
    session: &mut Session,
    caller: Caller,
    names: Vec<String>,
    choice: &StopChoice,
    watch: &EndWatch,
) -> Result<Vec<EndedTask>, OpsError> {
    let is_by_agent = caller.is_agent || caller.owner.is_some();
    let killer = Killer {
        owner: caller.owner.clone(),
        is_agent: caller.is_agent,
    };
    let request = Request::Kill {
        tasks: names.clone(),
        owner: caller.owner,
        by_agent: caller.is_agent,
        choice: choice.clone(),
    };
    if let Some(ended) = ask_to_end(session, &request, is_by_agent).await? {
        return Ok(ended.ended);
    }
    let look = session.look().await?;
    if !look.exists {
        return Err(session.missing());
    }
    let (mut tasks, mut windows) = (Vec::new(), BTreeSet::new());
    for name in &names {
        let task = look.find_task_to_end(name)?;
        if windows.insert(task.window) {
            tasks.push(Arc::clone(task));
        }
    }
    // If a daemon looks before their windows are closed, it has to know why they ended.
    let reasons = killer.reasons(&tasks);
    let alive = tasks.iter().filter(|task| task.is_alive());
    let marks: Vec<_> = alive
        .filter_map(|task| Some((task.window, task.pid?, *reasons.get(&task.window)?)))
        .collect();
    tmux::mark_endings(&mut session.connection(), &marks).await?;
    let failed = watch.end_alone(&tasks, choice).await;
    let left: Vec<WindowId> = failed.keys().copied().collect();
    tmux::unmark_endings(&mut session.connection(), &left).await?;
    // A daemon that has been started meanwhile keeps their output before it closes their windows.
    if failed.is_empty()
        && let Ok(Some(ended)) = ask(session, &request).await
    {
        return Ok(ended.ended);
    }
    for task in tasks
        .iter()
        .filter(|task| !failed.contains_key(&task.window))
    {
        tmux::kill_window(&mut session.connection(), task.window).await?;
    }
    if !failed.is_empty() {
        return Err(not_ended(&tasks, &failed));
    }
    Ok(tasks.iter().map(|task| ended(task)).collect())
}

/// Returns what [`kill_all`] would end.
pub(crate) async fn session_to_kill(session: &Session) -> Result<SessionToKill, OpsError> {
    let look = session.look().await?;
    let Some(life) = look.life.filter(|_| look.exists) else {
        return Err(session.missing());
    };
    Ok(SessionToKill {
        id: life.id,
        tasks: look.tasks.into_values().collect(),
    })
}

/// Ends the session: `target`, where the caller has looked at it before; otherwise the one that has
/// the given name now. A name that a session had before is not enough: another session may have had it
/// since.
pub(crate) async fn kill_all(
    session: &mut Session,
    target: Option<SessionToKill>,
    choice: &StopChoice,
    watch: &EndWatch,
) -> Result<KilledSession, OpsError> {
    let owner = Caller::of_environment().owner;
    let is_by_agent = owner.is_some();
    let given = session.name.clone();
    let request = Request::KillAll {
        owner,
        choice: choice.clone(),
    };
    if let Some(ended) = ask_to_end(session, &request, is_by_agent).await? {
        return Ok(ended);
    }
    let target = match target {
        Some(target) => target,
        None => {
            session.resolve_name().await?;
            if session.name != given {
                let name = &session.name;
                return Err(OpsError::missing(
                    format!(
                        "no session `{given}`: the one that had this name is called `{name}` now"
                    ),
                    format!("`tmux-task -s '{name}' kill-all` ends it"),
                ));
            }
            session_to_kill(session).await?
        }
    };
    let windows: Vec<WindowId> = target.tasks.iter().map(|task| task.window).collect();
    let shared = tmux::shared_windows(&mut session.connection(), target.id, &windows).await?;
    let mut ending = target.tasks.clone();
    ending.retain(|task| task.is_alive() && !shared.contains(&task.window));
    let failed = watch.end_alone(&ending, choice).await;
    if !failed.is_empty() {
        for task in ending
            .iter()
            .filter(|task| !failed.contains_key(&task.window))
        {
            tmux::kill_window(&mut session.connection(), task.window).await?;
        }
        return Err(not_ended(&ending, &failed));
    }
    let _lock = session.lock_server().await?;
    tmux::kill_session(&mut session.connection(), target.id).await?;
    let left = tmux::where_is(&mut session.connection(), &windows).await?;
    let (moved, gone): (Vec<_>, Vec<_>) = target
        .tasks
        .iter()
        .partition(|task| left.contains_key(&task.window));
    let fields = |tasks: Vec<&Arc<Task>>| tasks.into_iter().map(|task| ended(task)).collect();
    Ok(KilledSession {
        ended: fields(gone),
        moved: fields(moved),
    })
}

/// Removes ended tasks.
pub(crate) async fn prune(session: &mut Session) -> Result<Vec<EndedTask>, OpsError> {
    if let Some(pruned) = ask(session, &Request::Prune).await? {
        return Ok(pruned.ended);
    }
    let before = session.look().await?;
    let dead: BTreeMap<WindowId, (PaneId, EndedTask)> = before
        .tasks
        .into_values()
        .filter(|task| task.is_prunable())
        .filter_map(|task| Some((task.window, (task.pane?, ended(&task)))))
        .into_map();
    let panes: Vec<_> = dead
        .iter()
        .map(|(window, (pane, _))| (*window, *pane))
        .collect();
    tmux::prune_windows(&mut session.connection(), &panes).await?;
    let after = session.look().await?;
    let gone = dead
        .into_iter()
        .filter(|(window, _)| !after.tasks.contains_key(window));
    Ok(gone.map(|(_, (_, ended))| ended).collect())
}

/// Sends a request to end tasks to the daemon; `None` when none runs.
///
/// For an agent a daemon is started where one has run before: a later one would report the tasks as
/// lost, which wakes the agent.
async fn ask_to_end(
    session: &mut Session,
    request: &Request,
    is_by_agent: bool,
) -> Result<Option<KilledSession>, OpsError> {
    if let Some(ended) = ask(session, request).await? {
        return Ok(Some(ended));
    }
    if is_by_agent
        && session.paths.feed().exists()
        && let Err(error) = session.daemon_or_start().await
    {
        tracing::debug!(%error, "no daemon to note why tasks disappear");
    }
    ask(session, request).await
}

/// Sends a request to the daemon; `None` when none runs.
async fn ask(session: &mut Session, request: &Request) -> Result<Option<KilledSession>, OpsError> {
    match session.ask_by_name(request).await? {
        None => Ok(None),
        Some(Response::Ended { tasks, moved }) => Ok(Some(KilledSession {
            ended: tasks,
            moved,
        })),
        Some(_) => Err(ClientError::Unexpected.into()),
    }
}

fn ended(task: &Task) -> EndedTask {
    EndedTask {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
        exit_code: None,
        exit_signal: None,
    }
}
