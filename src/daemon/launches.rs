//! Starts tasks through the daemon's own client.

use super::run::Options;
use super::session_link::SessionLink;
use crate::clock;
use crate::model::{RunRequest, SessionId, Task};
use crate::paths::Paths;
use crate::session::{DueRestart, JobOutcome, RestartEnd};
use crate::tmux::{
    self, Connection, Gate, LaunchAnswer, LaunchRecord, LiveRun, NewRun, RestartResult,
    TaskRestart, TmuxError,
};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, Response, TaskRecord};

/// Starts a task, or runs it again in its slot. `ended` are the processes of the live runs that were
/// ended for it.
pub(super) async fn run(
    link: &mut SessionLink,
    paths: &Paths,
    request: RunRequest,
    ended: &[u32],
) -> JobOutcome {
    let answer = |response, window| JobOutcome::Answered(Box::new(response), window);
    let Some(session) = link.attached_session() else {
        return answer(Response::Unattached, None);
    };
    link.write_runs_named(&request.name).await;
    let request = RunRequest {
        last_run: link.observer.last_run(&request.name),
        ..request
    };
    match launch(link, paths, session, &request, ended).await {
        Ok(Some(LaunchAnswer::Started(launched))) => {
            link.note_launched(launched.window, Some(launched.pane));
            let response = Response::Launched(launched_run(&launched));
            answer(response, Some(launched.window))
        }
        Ok(Some(LaunchAnswer::Live(LiveRun { window, pid }))) => JobOutcome::Live(window, pid),
        Ok(None) => answer(Response::Unattached, None),
        Err(error) => answer(Response::Refused(error.of_launch()), None),
    }
}

/// Runs a task again that has failed, unless its window has changed.
pub(super) async fn restart(
    link: &mut SessionLink,
    options: &Options,
    due: &DueRestart,
) -> Result<RestartEnd, TmuxError> {
    link.write_runs_of(&[due.task.window]).await;
    let paths = &options.paths;
    let program = tmux::program().and_then(|path| path.into_os_string().into_string().ok());
    let Some(program) = program else {
        return Ok(RestartEnd::Impossible(
            "this program is not found any more".to_owned(),
        ));
    };
    let order = TaskRestart {
        task: &due.task,
        number: due.number,
        last_run: link.observer.last_run(&due.task.name),
        session: &due.session_name,
        runtime: &paths.runtime,
        kept: &paths.kept_environments(),
        program: &program,
        now: clock::now().wall,
    };
    // tmux can crash when windows change while a control client of another daemon connects.
    let _lock = paths.lock_server().await;
    let result = tmux::restart(&mut link.connection(), order).await?;
    Ok(match result {
        RestartResult::Started => {
            link.note_launched(due.task.window, due.task.pane);
            RestartEnd::Started
        }
        RestartResult::Superseded => RestartEnd::Superseded,
        RestartResult::Impossible(why) => RestartEnd::Impossible(why),
    })
}

/// Returns what a window says of its last launch in the socket's format.
pub(crate) fn task_record(task: &Task, found: LaunchRecord) -> TaskRecord {
    let LaunchRecord { record, restart } = found;
    TaskRecord {
        window_name: task.name.clone(),
        record,
        restarts: restart.map(|(_, restarts)| restarts),
        stop: task.stop.clone(),
        notify_on: task.notify_on.clone(),
        slot: task.slot.clone(),
    }
}

/// Launches a task; `None` when the session is gone.
async fn launch(
    link: &mut SessionLink,
    paths: &Paths,
    session: SessionId,
    request: &RunRequest,
    ended: &[u32],
) -> Result<Option<LaunchAnswer<NewRun>>, TmuxError> {
    // tmux can crash when windows change while a control client of another daemon connects.
    let _lock = paths.lock_server().await;
    let gate = Gate::close(request.file())?;
    let launched = tmux::launch_in(&mut link.connection(), session, request, ended).await;
    let launched = match launched {
        // Our client was detached during the launch.
        Err(TmuxError::Closed) => {
            let server = &link.server;
            let found = tmux::find_launched(&mut Connection::OneShot(server), request).await;
            found.map(|found| found.map(LaunchAnswer::Started))
        }
        launched => launched,
    };
    if let Ok(Some(LaunchAnswer::Started(run))) = &launched {
        gate.open(&run.pane.to_string());
    }
    launched
}

/// Returns a started run in the socket's format.
pub(crate) fn launched_run(launched: &NewRun) -> LaunchedRun {
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
        replaced: launched.replaced,
    }
}
