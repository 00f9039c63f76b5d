//! Starting tasks through the daemon's own client.

use super::hub::Hub;
use super::run_archiver;
use crate::model::{SessionId, WindowId};
use crate::tmux::{self, Connection, LaunchError, LaunchPlan, Launched, Replaced, TmuxError};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, Refusal, RefusalKind, ReplacedRun, Response, RunRequest};

/// Starts a task, or runs it again in its slot; the answer comes when the run was seen.
pub(super) async fn run(hub: &mut Hub, request: RunRequest) -> Response {
    hub.catch_up().await;
    let Some(session) = attached_session(hub) else {
        return Response::Unattached;
    };
    let will_wait = request.will_wait;
    let plan = plan_of(request);
    // The run that this one may replace is recorded as it is now.
    for window in windows_named(hub, &plan.name) {
        hub.look_at_window(window).await;
    }
    if will_wait {
        hub.expect_wait(plan.name.clone(), plan.owner.clone());
    }
    if !plan.only_if_absent {
        run_archiver::keep_replaced(hub, &plan.name).await;
    }
    match launch(hub, session, &plan).await {
        Ok(Some(launched)) => {
            hub.look_at_window(launched.window).await;
            Response::Launched(launched_run(&launched))
        }
        Ok(None) => Response::Unattached,
        Err(error) => Response::Refused(refusal(&error)),
    }
}

/// Returns the session that our client is attached to.
fn attached_session(hub: &Hub) -> Option<SessionId> {
    let life = hub.watch.life().filter(|_| hub.watch.is_told())?;
    Some(life.id)
}

/// Launches; `None` when the session has gone.
async fn launch(
    hub: &mut Hub,
    session: SessionId,
    plan: &LaunchPlan,
) -> Result<Option<Launched>, LaunchError> {
    // tmux can crash when windows change while a control client of another daemon connects.
    let _lock = hub.paths.lock_server().await;
    let launched = tmux::launch_in(&mut hub.watch.connection(), session, plan).await;
    match launched {
        // Our client was detached in the middle of it.
        Err(LaunchError::Tmux(TmuxError::Closed)) => {
            let server = hub.watch.server();
            tmux::find_launched(&mut Connection::OneShot(server), plan).await
        }
        launched => launched,
    }
}

fn windows_named(hub: &Hub, name: &str) -> Vec<WindowId> {
    let tasks = hub.engine.before().into_iter();
    let tasks = tasks.flat_map(|look| look.tasks.values());
    let named = tasks.filter(|task| task.name == name);
    named.map(|task| task.window).collect()
}

fn plan_of(request: RunRequest) -> LaunchPlan {
    let RunRequest {
        name,
        token,
        words,
        command,
        cwd,
        owner,
        started,
        if_absent,
        will_wait: _,
    } = request;
    LaunchPlan {
        name,
        token,
        words,
        command,
        cwd,
        owner,
        started,
        only_if_absent: if_absent,
    }
}

/// Returns a run that was started as the socket tells of it.
#[must_use]
pub fn launched_run(launched: &Launched) -> LaunchedRun {
    let cursor = Cursor {
        life: Cursor::life_of(&launched.life),
        window: launched.window,
        run: launched.run,
        anchor: Anchor::START,
    };
    LaunchedRun {
        window_id: launched.window.to_string(),
        pane_id: launched.pane.to_string(),
        run: launched.run,
        cursor: cursor.to_string(),
        replaced: launched.replaced.map(|replaced| match replaced {
            Replaced::Live => ReplacedRun::Live,
            Replaced::Dead => ReplacedRun::Dead,
        }),
    }
}

fn refusal(error: &LaunchError) -> Refusal {
    let kind = if error.is_usage() {
        RefusalKind::Usage
    } else {
        RefusalKind::Failed
    };
    let refusal = Refusal::new(kind, error.to_string());
    match error.hint() {
        Some(hint) => refusal.with_hint(hint),
        None => refusal,
    }
}
