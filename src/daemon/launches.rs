//! Starts tasks.

use super::Options;
use super::session_link::SessionLink;
use crate::clock;
use crate::model::{Error, Launch, Replaces, SessionId, TaskRestarts, TaskSpec, text, with_causes};
use crate::paths::Paths;
use crate::session::{DueRestart, JobOutcome, RestartEnd};
use crate::tmux::{self, Connection, Gate, LaunchAnswer, LiveRun, NewRun, Slots, TmuxError};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, Response};

/// What came of a launch.
enum Started {
    /// The run, and what holds its command back.
    Run(NewRun, Gate),
    /// A live run has to be ended first.
    Live(LiveRun),
}

/// Starts a task, or runs it again in its slot. `ended` are the processes of the live runs that were
/// ended for it.
pub(super) async fn run(
    link: &mut SessionLink,
    paths: &Paths,
    mut launch: Launch,
    ended: &[u32],
) -> JobOutcome {
    if launch.is_repeated {
        match find_started(link, paths, &launch).await {
            Ok(None) => {}
            Ok(Some(run)) => return JobOutcome::Launched(Box::new(run), Box::new(())),
            Err(error) => return refused(error.of_launch()),
        }
    }
    let session = link.attached_session();
    if session.is_some() {
        link.write_runs_named(&launch.name).await;
        if let Some(name) = &link.about.name {
            launch.session.clone_from(name);
        }
    } else {
        // It is looked for by this name.
        link.note_name(&launch.session);
    }
    launch.last_run = link.observer.last_run(&launch.name);
    let mut started = start(link, paths, session, &mut launch, Slots::OfName, ended).await;
    if let (Ok(None), Some(_)) = (&started, session) {
        // It has ended since the last look.
        started = start(link, paths, None, &mut launch, Slots::OfName, ended).await;
    }
    match started {
        Ok(Some(Started::Run(run, gate))) => {
            JobOutcome::Launched(Box::new(launched_run(&run)), Box::new(gate))
        }
        Ok(Some(Started::Live(LiveRun { window, pid }))) => JobOutcome::Live(window, pid),
        Ok(None) => refused(Error::failed("the session has ended during the launch")),
        Err(error) => refused(error.of_launch()),
    }
}

fn refused(error: Error) -> JobOutcome {
    JobOutcome::Answered(Box::new(Response::Refused(error)))
}

/// Returns what a daemon that was killed has started for this launch. Its command may still wait for that
/// daemon.
async fn find_started(
    link: &SessionLink,
    paths: &Paths,
    launch: &Launch,
) -> Result<Option<LaunchedRun>, TmuxError> {
    let mut connection = Connection::OneShot(&link.server);
    let found = tmux::find_launched(&mut connection, launch).await?;
    Ok(found.map(|run| {
        tmux::complete_launch(&paths.runtime, &launch.token, &run.pane.to_string());
        launched_run(&run)
    }))
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
    let mut launch = match launch_again(link, paths, due, restarts, spec) {
        Ok(launch) => launch,
        Err(why) => return Ok(RestartEnd::Impossible(why)),
    };
    let slots = Slots::Window(window, token);
    match start(link, paths, Some(session), &mut launch, slots, &[]).await {
        Ok(Some(Started::Run(..))) => Ok(RestartEnd::Started),
        Ok(_) => Ok(RestartEnd::Superseded),
        Err(error) if error.is_missing() => Ok(RestartEnd::Superseded),
        Err(error) => Err(error),
    }
}

/// Returns how a task is launched again, with the environment that was kept; or why it never can be.
fn launch_again(
    link: &SessionLink,
    paths: &Paths,
    due: &DueRestart,
    restarts: &TaskRestarts,
    mut spec: TaskSpec,
) -> Result<Launch, String> {
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
    Ok(Launch {
        session: due.session_name.clone(),
        spec,
        token: tmux::unique_token(),
        environment,
        program: tmux::program_of_panes().map_err(|error| error.message)?,
        owner: due.task.owner.clone(),
        started: clock::now().wall,
        last_run: link.observer.last_run(&name),
        replaces: Replaces::Ended,
        name,
        ..Launch::default()
    })
}

/// Starts a task in this session, which is created if it is missing and none is given; `None` when the given
/// session is gone, or has no such window.
async fn start(
    link: &mut SessionLink,
    paths: &Paths,
    session: Option<SessionId>,
    launch: &mut Launch,
    slots: Slots,
    ended: &[u32],
) -> Result<Option<Started>, TmuxError> {
    // tmux can crash when windows change while a control client of another daemon connects.
    let _lock = paths.lock_server().await;
    let files = tmux::prepare(launch, &paths.runtime, &paths.kept_environments())?;
    let answer = match session {
        Some(session) => {
            let mut connection = link.connection();
            match tmux::launch_in(&mut connection, session, launch, slots, ended).await {
                // Our client was detached during the launch.
                Err(TmuxError::Closed) => {
                    let mut connection = Connection::OneShot(&link.server);
                    let found = tmux::find_launched(&mut connection, launch).await?;
                    found.map(LaunchAnswer::Started)
                }
                answer => answer?,
            }
        }
        None => {
            let mut connection = Connection::OneShot(&link.server);
            Some(tmux::launch(&mut connection, &link.server, launch, ended).await?)
        }
    };
    Ok(answer.map(|answer| match answer {
        LaunchAnswer::Live(live) => Started::Live(live),
        LaunchAnswer::Started(run) => {
            link.note_launched(run.window, Some(run.pane));
            let gate = files.hand_over(&run.pane.to_string());
            Started::Run(run, gate)
        }
    }))
}

/// Returns a started run in the socket's format.
fn launched_run(launched: &NewRun) -> LaunchedRun {
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
