//! Starts tasks through the daemon's own client.

use super::Options;
use super::session_link::SessionLink;
use crate::clock;
use crate::model::{Launch, Replaces, SessionId, TaskRestarts, TaskSpec, text, with_causes};
use crate::paths::Paths;
use crate::session::{DueRestart, JobOutcome, RestartEnd};
use crate::tmux::{
    self, Connection, Gate, LaunchAnswer, LaunchOrder, LiveRun, NewRun, Slots, TmuxError,
};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, Response};

/// Starts a task, or runs it again in its slot. `ended` are the processes of the live runs that were
/// ended for it.
pub(super) async fn run(
    link: &mut SessionLink,
    paths: &Paths,
    request: Launch,
    ended: &[u32],
) -> JobOutcome {
    let answer = |response, window| JobOutcome::Answered(Box::new(response), window);
    let Some(session) = link.attached_session() else {
        return answer(Response::Unattached, None);
    };
    link.write_runs_named(&request.name).await;
    let request = Launch {
        last_run: link.observer.last_run(&request.name),
        ..request
    };
    match launch(link, paths, session, &request, Slots::OfName, ended).await {
        Ok(Some(LaunchAnswer::Started(launched))) => {
            let response = Response::Launched(launched_run(&launched));
            answer(response, Some(launched.window))
        }
        Ok(Some(LaunchAnswer::Live(LiveRun { window, pid }))) => JobOutcome::Live(window, pid),
        Ok(None) => answer(Response::Unattached, None),
        Err(error) => answer(Response::Refused(error.of_launch()), None),
    }
}

/// Launches a task again that has failed, unless its window has changed.
pub(super) async fn restart(
    link: &mut SessionLink,
    options: &Options,
    due: &DueRestart,
) -> Result<RestartEnd, TmuxError> {
    let (window, paths) = (due.task.window, &options.paths);
    let session = link.life.as_ref().map(|life| life.id);
    let (Some(session), Some(restarts)) = (session, &due.task.settings.restarts) else {
        return Ok(RestartEnd::Superseded);
    };
    link.write_runs_of(&[window]).await;
    let found = match tmux::read_spec(&mut link.connection(), window).await {
        Err(error) if error.is_missing() => return Ok(RestartEnd::Superseded),
        found => found?,
    };
    let is_same = |spec: &TaskSpec| spec.settings.restarts.as_ref() == Some(restarts);
    let Some((token, spec)) = found.filter(|(_, spec)| is_same(spec)) else {
        return Ok(RestartEnd::Superseded);
    };
    let order = match order_again(link, paths, due, restarts, spec) {
        Ok(order) => order,
        Err(why) => return Ok(RestartEnd::Impossible(why)),
    };
    let prepared = match order.prepare() {
        Ok(prepared) => prepared,
        Err(error) => return Ok(RestartEnd::Impossible(error.message)),
    };
    let slots = Slots::Window(window, token);
    match launch(link, paths, session, &prepared.launch, slots, &[]).await {
        Ok(Some(LaunchAnswer::Started(launched))) => {
            prepared.hand_over(&launched.pane.to_string());
            Ok(RestartEnd::Started)
        }
        Ok(_) | Err(TmuxError::Refused(_)) => Ok(RestartEnd::Superseded),
        Err(error) if error.is_missing() => Ok(RestartEnd::Superseded),
        Err(error) => Err(error),
    }
}

/// Returns how a task is launched again, with the environment that was kept; or why it never can be.
fn order_again(
    link: &SessionLink,
    paths: &Paths,
    due: &DueRestart,
    restarts: &TaskRestarts,
    mut spec: TaskSpec,
) -> Result<LaunchOrder, String> {
    if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let cwd = cwd.display().to_string();
        let cwd = text::one_line(cwd.as_bytes(), 400);
        return Err(format!("`{cwd}` is not a directory any more"));
    }
    let kept = paths.kept_environments();
    let environment = tmux::kept_environment(&kept, &restarts.token).map_err(|error| {
        let why = with_causes(&error);
        format!("its environment is not available any more: {why}")
    })?;
    spec.settings.restarts = Some(TaskRestarts {
        used: due.number,
        ..restarts.clone()
    });
    let name = due.task.name.clone();
    Ok(LaunchOrder {
        session: due.session_name.clone(),
        launch: Launch {
            spec,
            program: tmux::program_of_panes().map_err(|error| error.message)?,
            owner: due.task.owner.clone(),
            started: clock::now().wall,
            last_run: link.observer.last_run(&name),
            replaces: Replaces::Ended,
            name,
            ..Launch::default()
        },
        environment,
        runtime: paths.runtime.clone(),
        kept,
        waits: false,
        root: None,
    })
}

/// Launches a task; `None` when the session is gone, or has no such window.
async fn launch(
    link: &mut SessionLink,
    paths: &Paths,
    session: SessionId,
    request: &Launch,
    slots: Slots,
    ended: &[u32],
) -> Result<Option<LaunchAnswer<NewRun>>, TmuxError> {
    // tmux can crash when windows change while a control client of another daemon connects.
    let _lock = paths.lock_server().await;
    let gate = Gate::close(&request.file)?;
    let launched = tmux::launch_in(&mut link.connection(), session, request, slots, ended).await;
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
        link.note_launched(run.window, Some(run.pane));
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
