//! Launches a task, through the daemon if it is attached to the session, otherwise directly with
//! tmux.

use std::sync::Arc;

use super::ending::{EndWatch, not_ended};
use super::session::{START_DAEMON, TaskSession};
use crate::client::{DaemonClient, unexpected};
use crate::daemon::{launched_run, stored_run_numbers};
use crate::model::{Error, ErrorKind, Launch, StopChoice};
use crate::tmux::{self, Gate, LaunchAnswer, LaunchOrder, NewRun, PreparedLaunch, TmuxError};
use crate::wire::{LaunchedRun, Request, Response};

/// A task that was launched.
pub(super) struct LaunchedTask {
    /// The session's present name.
    pub(super) session: TaskSession,
    /// The daemon that supervises it, if any.
    pub(super) daemon: Option<DaemonClient>,
    pub(super) run: LaunchedRun,
    /// Holds the command back, if the launch waits.
    pub(super) gate: Option<Gate>,
}

/// How many daemons may end during a launch before it is done without one.
const DAEMONS: usize = 3;

/// Starts a task in its slot by a single request, which also resolves the session's name. `None` if
/// more is needed: then nothing was started, and the name is resolved.
pub(super) async fn launch_at_once(
    session: &mut TaskSession,
    order: &LaunchOrder,
) -> Result<Option<(LaunchedRun, Gate)>, Error> {
    let prepared = order.prepare()?;
    let request = run_request(&prepared);
    match session.ask_first(&request).await {
        Ok(Some(Response::Launched(run))) => {
            let gate = prepared.hand_over(&run.pane_id);
            Ok(Some((run, gate)))
        }
        // The session has another name now, or does not exist.
        Ok(Some(Response::Unattached) | None) => Ok(None),
        Ok(Some(_)) => Err(unexpected()),
        Err(error) if error.kind == ErrorKind::DaemonEnded => {
            let (_, run) = after_loss(session, prepared).await?;
            session.resolve_name().await?;
            Ok(run)
        }
        Err(error) => Err(error),
    }
}

/// Starts a task in its slot.
pub(super) async fn launch(
    session: TaskSession,
    mut daemon: Option<DaemonClient>,
    order: LaunchOrder,
) -> Result<LaunchedTask, Error> {
    for _ in 0..DAEMONS {
        let Some(mut client) = daemon else { break };
        let prepared = order.prepare()?;
        let request = run_request(&prepared);
        match client.ask(&request).await {
            Ok(Response::Launched(run)) => {
                let gate = prepared.hand_over(&run.pane_id);
                return Ok(LaunchedTask {
                    session,
                    daemon: Some(client),
                    run,
                    gate: waiting(&order, gate),
                });
            }
            Ok(Response::Unattached) => {
                drop(prepared);
                return start_directly(session, Some(client), order).await;
            }
            Ok(_) => return Err(unexpected()),
            Err(error) if error.kind == ErrorKind::DaemonEnded => {
                let (next, run) = after_loss(&session, prepared).await?;
                if let Some((run, gate)) = run {
                    return Ok(LaunchedTask {
                        session,
                        daemon: next,
                        run,
                        gate: waiting(&order, gate),
                    });
                }
                daemon = next;
            }
            Err(error) => return Err(error),
        }
    }
    start_directly(session, daemon, order).await
}

/// Opens the gate, unless the launch waits.
fn waiting(order: &LaunchOrder, gate: Gate) -> Option<Gate> {
    Some(gate).filter(|_| order.waits)
}

/// A daemon ended before it answered. Returns the next one, and what the first one has started: the
/// next one reports it. A launch that started nothing is given to the next one, since tmux cannot
/// serve many launches that each start processes of their own.
async fn after_loss(
    session: &TaskSession,
    prepared: PreparedLaunch,
) -> Result<(Option<DaemonClient>, Option<(LaunchedRun, Gate)>), Error> {
    let daemon = session.daemon_or_start().await;
    let found = tmux::find_launched(&mut session.connection(), &prepared.launch).await?;
    match found {
        Some(found) => {
            let gate = prepared.hand_over(&found.pane.to_string());
            Ok((daemon.ok().flatten(), Some((launched_run(&found), gate))))
        }
        None => Ok((daemon?, None)),
    }
}

/// Returns the error that no daemon runs that could wait for a launch; nothing was started.
pub(crate) fn no_daemon_to_wait() -> Error {
    Error::missing("no daemon runs to wait with").with_hint(START_DAEMON)
}

/// Refuses a launch without a daemon whose caller will wait for the run, or whose settings need one.
pub(super) fn check_daemon(has_daemon: bool, launch: &Launch) -> Result<(), Error> {
    match launch.spec.settings.unwatched() {
        _ if has_daemon => Ok(()),
        _ if launch.will_wait => Err(no_daemon_to_wait()),
        Some(why) => Err(Error::missing(why).with_hint(START_DAEMON)),
        None => Ok(()),
    }
}

/// Launches directly with tmux. The daemon, if one runs, looks before and after.
async fn start_directly(
    mut session: TaskSession,
    mut daemon: Option<DaemonClient>,
    mut order: LaunchOrder,
) -> Result<LaunchedTask, Error> {
    // One launch at a time: the next one begins when this run was observed.
    let launching = session.paths.lock_launches().await;
    // Before: the run that this one may replace is observed. A first look is the baseline, so that
    // the new run is never part of it.
    let before = Request::Look {
        launching: Some(order.launch.name.clone()),
        will_wait: order.launch.will_wait,
        owner: order.launch.owner.clone(),
        launched: None,
        wants_last_run: true,
    };
    let mut last_run = look(daemon.as_mut(), &before).await;
    if last_run.is_err() {
        // It has ended since it was found.
        daemon = session.daemon_or_start().await?;
        last_run = look(daemon.as_mut(), &before).await;
    }
    let last_run = last_run?;
    // The one that was there when the launch began may be gone, and starting one forbidden.
    check_daemon(daemon.is_some(), &order.launch)?;
    // After its look it knows every rename.
    if let Some(daemon) = &mut daemon {
        session.ask_status(daemon).await;
    }
    order.session.clone_from(&session.name);
    // It may have other files than those of the name that was given.
    order.kept = session.paths.kept_environments();
    order.launch.last_run =
        last_run.unwrap_or_else(|| stored_run_numbers(&session.paths).last(&order.launch.name));
    let launched = launch_alone(&session, &order).await;
    let launched = launched.map(|(run, gate)| (run, waiting(&order, gate)));
    // After: the run is reported at once, however short it is, also if no look contains it: the first task
    // of a session can end the session before the daemon has attached to it.
    let direct = |run: &NewRun| Box::new((order.launch.clone(), launched_run(run)));
    let after = Request::Look {
        launching: None,
        will_wait: false,
        owner: None,
        launched: launched.as_ref().ok().map(|(run, _)| direct(run)),
        wants_last_run: false,
    };
    let look_result = look(daemon.as_mut(), &after).await;
    drop(launching);
    let (launched, gate) = launched?;
    if look_result.is_err() {
        // It ended, and the next one reports the run.
        daemon = session.daemon_or_start().await.ok().flatten();
    }
    Ok(LaunchedTask {
        session,
        daemon,
        run: launched_run(&launched),
        gate,
    })
}

/// Launches, and ends the live run of the slot before. tmux says which it is: nothing is ended for a
/// launch that is refused.
async fn launch_alone(session: &TaskSession, order: &LaunchOrder) -> Result<(NewRun, Gate), Error> {
    let mut ended = Vec::new();
    loop {
        let lock = session.lock_server().await?;
        let mut connection = session.connection();
        let answer = tmux::launch(&mut connection, &session.server, order, &ended).await;
        let answer = answer.map_err(TmuxError::of_launch)?;
        drop(lock);
        let live = match answer {
            LaunchAnswer::Started(started) => return Ok(started),
            LaunchAnswer::Live(live) => live,
        };
        let look = session.look().await?;
        let task = look.tasks.get(&live.window);
        let Some(task) = task.filter(|task| task.pid == Some(live.pid)) else {
            continue;
        };
        let task = [Arc::clone(task)];
        let choice = StopChoice::default();
        let failed = EndWatch::default().end_alone(&task, &choice).await;
        if !failed.is_empty() {
            return Err(not_ended(&task, &failed));
        }
        ended.push(live.pid);
    }
}

/// Makes the daemon look. Returns the last number of the task's runs if it was asked for it, and knows
/// it.
async fn look(daemon: Option<&mut DaemonClient>, request: &Request) -> Result<Option<u32>, Error> {
    let Some(daemon) = daemon else {
        return Ok(None);
    };
    match daemon.ask(request).await {
        Ok(Response::LastRun { run }) => Ok(Some(run)),
        Ok(Response::Done) => Ok(None),
        Ok(_) => Err(unexpected()),
        Err(error) => Err(error),
    }
}

fn run_request(prepared: &PreparedLaunch) -> Request {
    Request::Run(Box::new(prepared.launch.clone()))
}
