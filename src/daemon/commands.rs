//! What people and agents do to tasks through the daemon, so that it knows why they went.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::hub::Hub;
use crate::clock::now;
use crate::model::{GoneReason, Level, NameError, SessionId, Task, WindowId};
use crate::tmux::{self, TmuxError, Unless};
use crate::wire::{Ended, ExplainedState, Explanation, Refusal, RefusalKind, Response, TaskFields};

/// What starts a session that is missing.
const NO_SESSION_HINT: &str =
    "`tmux-task run NAME -- COMMAND` starts a task and with it the session";

/// Finds a task by its name or window id.
pub(super) async fn find(hub: &mut Hub, name: &str) -> Response {
    hub.catch_up().await;
    match find_task(hub, name) {
        Ok(task) => Response::Found(Box::new(hub.listed(TaskFields::from(&*task), now()))),
        Err(refusal) => Response::Refused(refusal),
    }
}

/// Ends tasks and removes their windows; none when one of the names is no task's.
pub(super) async fn kill(hub: &mut Hub, names: &[String], reason: GoneReason) -> Response {
    hub.catch_up().await;
    let found: Result<Vec<Arc<Task>>, Refusal> =
        names.iter().map(|name| find_task(hub, name)).collect();
    let mut tasks = match found {
        Ok(tasks) => tasks,
        Err(refusal) => return Response::Refused(refusal),
    };
    let mut windows = BTreeSet::new();
    tasks.retain(|task| windows.insert(task.window));
    match end(hub, &tasks, reason).await {
        Ok(()) => {
            let names: Vec<String> = tasks.iter().map(|task| label(task)).collect();
            hub.notice(Level::Info, format!("killed {}", list_of_tasks(&names)));
            ended(&tasks)
        }
        Err(error) => refused(RefusalKind::Failed, error.to_string()),
    }
}

/// Tells why a task is or is not taken to wait for a person.
pub(super) async fn explain(hub: &mut Hub, name: &str) -> Response {
    hub.catch_up().await;
    let explained = match find_task(hub, name) {
        Ok(task) => explain_task(hub, task.window).await,
        Err(refusal) => Err(refusal),
    };
    match explained {
        Ok((_, explanation)) => Response::Explained(Box::new(explanation)),
        Err(refusal) => Response::Refused(refusal),
    }
}

/// Looks at a task and tells how it was judged.
pub(super) async fn explain_task(
    hub: &mut Hub,
    window: WindowId,
) -> Result<(Arc<Task>, Explanation), Refusal> {
    hub.look_at_window(window).await;
    let task = find_task(hub, &window.to_string())?;
    let terminal = hub
        .engine
        .before()
        .and_then(|look| look.terminals.get(&window))
        .map(Arc::as_ref);
    let judged = hub.engine.judgement_of(window);
    let mut explanation = Explanation::new(&task, judged.map(|(judged, ..)| judged), terminal);
    if let Some((judged, since, told)) = judged {
        let found = judged.found.as_ref();
        let is_muted = found.is_some_and(|found| hub.engine.teaching().mutes(&task, &found.prompt));
        if is_muted {
            explanation.state = ExplainedState::Muted;
        }
        explanation.waiting_since = told.map(|now| now.wall);
        explanation.quiet_ms = u64::try_from(since.elapsed().as_millis()).ok();
    }
    if hub.engine.prompt_of(window).is_some() {
        explanation.state = ExplainedState::Waiting;
    } else if hub.engine.stalled_for(window, now()).is_some() {
        explanation.state = ExplainedState::Stalled;
    }
    Ok((task, explanation))
}

/// Ends the task session.
pub(super) async fn kill_all(hub: &mut Hub, reason: GoneReason) -> Response {
    hub.look().await;
    let Some(id) = hub.watch.life().map(|life| life.id) else {
        return refused(
            RefusalKind::Missing,
            "the session does not exist".to_owned(),
        );
    };
    let tasks = all_tasks(hub);
    match kill_session(hub, id).await {
        Ok(()) => {
            let killed = tasks.iter().map(|task| (task.window, reason)).collect();
            hub.look_after_kill(&killed).await;
            let n = tasks.len();
            let text = format!("ended the session with {n} task{}", plural(n));
            hub.notice(Level::Info, text);
            ended(&tasks)
        }
        Err(error) => refused(RefusalKind::Failed, error.to_string()),
    }
}

/// Removes the windows of tasks that have ended.
pub(super) async fn prune(hub: &mut Hub) -> Response {
    hub.look().await;
    let dead: Vec<Arc<Task>> = all_tasks(hub)
        .into_iter()
        .filter(|task| !task.is_alive())
        .collect();
    let panes: Vec<_> = dead
        .iter()
        .filter_map(|task| Some((task.window, task.pane?)))
        .collect();
    match tmux::prune_windows(&mut hub.watch.connection(), &panes).await {
        Ok(()) => {
            hub.look().await;
            // One that was rerun meanwhile is still there.
            let gone: Vec<Arc<Task>> = dead
                .into_iter()
                .filter(|dead| task(hub, dead.window).is_none())
                .collect();
            if !gone.is_empty() {
                let names: Vec<String> = gone.iter().map(|task| label(task)).collect();
                hub.notice(Level::Info, format!("pruned {}", list_of_tasks(&names)));
            }
            ended(&gone)
        }
        Err(error) => refused(RefusalKind::Failed, error.to_string()),
    }
}

/// Ends the task session when no task in it is active.
pub(super) async fn cleanup(hub: &mut Hub) {
    hub.look().await;
    let Some(life) = hub.watch.life().cloned() else {
        return;
    };
    let _lock = hub.paths.lock_server().await;
    let mut connection = hub.watch.connection();
    match tmux::end_idle_session(&mut connection, &life, Unless::Active).await {
        // With the session goes our connection.
        Ok(true) | Err(TmuxError::Closed) => hub.look().await,
        Ok(false) => {}
        Err(error) => tracing::error!(%error, "could not end the session"),
    }
}

async fn kill_session(hub: &mut Hub, id: SessionId) -> Result<(), TmuxError> {
    let _lock = hub.paths.lock_server().await;
    tmux::kill_session(&mut hub.watch.connection(), id).await
}

/// Ends tasks. Those that were ended are marked as killed in the look that finds them gone; a kill
/// that fails leaves no mark.
async fn end(hub: &mut Hub, tasks: &[Arc<Task>], reason: GoneReason) -> Result<(), TmuxError> {
    let mut killed = BTreeMap::new();
    let mut outcome = Ok(());
    for task in tasks {
        match tmux::kill_window(&mut hub.watch.connection(), task.window).await {
            Ok(true) => drop(killed.insert(task.window, reason)),
            Ok(false) => {}
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    hub.look_after_kill(&killed).await;
    outcome
}

fn all_tasks(hub: &Hub) -> Vec<Arc<Task>> {
    hub.engine
        .before()
        .map(|look| look.tasks.values().cloned().collect())
        .unwrap_or_default()
}

/// Returns the one task of this name or window id, as the last look saw it.
pub(super) fn find_task(hub: &Hub, name: &str) -> Result<Arc<Task>, Refusal> {
    let Some(look) = hub.engine.before().filter(|look| look.exists) else {
        let session = &hub.recorder.context().session_name;
        let missing = Refusal::new(RefusalKind::Missing, format!("no session `{session}`"));
        return Err(missing.with_hint(NO_SESSION_HINT));
    };
    match look.find_task(name) {
        Ok(task) => Ok(Arc::clone(task)),
        Err(error) => {
            let kind = match error {
                NameError::Missing { .. } => RefusalKind::Missing,
                NameError::Ambiguous { .. } => RefusalKind::Failed,
            };
            Err(Refusal::new(kind, error.to_string()).with_hint(error.hint()))
        }
    }
}

fn task(hub: &Hub, window: WindowId) -> Option<Arc<Task>> {
    hub.engine.before()?.tasks.get(&window).cloned()
}

/// Returns what a task is called in texts.
pub(super) fn label(task: &Task) -> String {
    format!("{} ({})", task.window, task.name)
}

fn list_of_tasks(names: &[String]) -> String {
    format!("task{} {}", plural(names.len()), names.join(", "))
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn ended(tasks: &[Arc<Task>]) -> Response {
    let of = |task: &Arc<Task>| Ended {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
    };
    Response::Ended {
        tasks: tasks.iter().map(of).collect(),
    }
}

/// Returns the answer that something was not done.
pub(super) fn refused(kind: RefusalKind, message: String) -> Response {
    Response::Refused(Refusal::new(kind, message))
}
