//! Waits for conditions of a task, and on tmux's channels.

use std::time::{Duration, Instant};

use super::list::find;
use super::session::TaskSession;
use crate::client::{DaemonClient, unexpected};
use crate::model::{Condition, Error, ErrorKind, PortHolder, WaitOutcome, whole_millis};
use crate::process;
use crate::terminal::Pattern;
use crate::tmux;
use crate::wire::{LaunchedRun, Request, Response, WaitRequest, WaitResult};

pub(crate) const CHANNEL: &str = "channel";

/// Returns a daemon to wait with, and the window of the task of this name. If the task does not
/// exist, no daemon is started.
pub(crate) async fn find_to_wait(
    session: &mut TaskSession,
    name: &str,
) -> Result<(DaemonClient, String), Error> {
    let window = find(session, name).await?.window_id;
    let daemon = session.daemon_or_start().await?;
    Ok((daemon.ok_or_else(|| session.no_daemon())?, window))
}

/// Refuses texts that no line of a run can match or that every line matches, before the run is started.
pub(crate) fn check_texts<'a>(
    texts: impl IntoIterator<Item = &'a String>,
    regex: bool,
    ignore_case: bool,
) -> Result<(), Error> {
    for text in texts {
        Pattern::parse(text, regex, ignore_case)
            .map_err(|error| Error::usage(error.to_string()))?;
    }
    Ok(())
}

/// Returns the request to wait for a run that was launched, from its start on: for one of these
/// conditions, or its end if there are none. `is_held` says that the command waits until the wait has begun.
pub(crate) fn wait_of_launch(
    run: &LaunchedRun,
    conditions: Vec<Condition>,
    owner: Option<String>,
    is_held: bool,
) -> WaitRequest {
    WaitRequest {
        task: run.window_id.clone(),
        run: Some(run.run),
        since: (conditions.iter().any(Condition::needs_output)).then(|| run.cursor.clone()),
        conditions,
        owner,
        says_when_it_begins: is_held,
        ..WaitRequest::default()
    }
}

/// Waits for the task that the request names, on behalf of its owner: one request if a daemon runs.
/// Otherwise one is started if there is such a task. Dropping the future ends the wait.
pub(crate) async fn wait_for_task(
    session: &mut TaskSession,
    request: WaitRequest,
) -> Result<WaitResult, Error> {
    // One that has not begun can be repeated.
    let named = Request::Wait(WaitRequest {
        says_when_it_begins: true,
        ..request.clone()
    });
    let answer = session.ask_first(&named).await;
    match answer {
        Ok(Some(Response::Waited(result))) => return Ok(with_holders(result, &request)),
        Ok(Some(_)) => return Err(unexpected()),
        Ok(None) => {}
        Err(error) if error.kind == ErrorKind::DaemonEndedInWait => {
            let name = request.task;
            let hint =
                format!("the task goes on; `tmux-task wait {name}` waits with another daemon");
            return Err(error.with_hint(hint));
        }
        Err(error) => return Err(error),
    }
    let (mut daemon, window) = find_to_wait(session, &request.task).await?;
    let request = WaitRequest {
        task: window,
        ..request
    };
    wait(&mut daemon, request, || {}).await
}

/// Waits until the daemon has the outcome, on behalf of the request's owner. `begun` is called when
/// the wait has begun, if the request asks for that. Dropping the future ends the wait.
pub(crate) async fn wait(
    daemon: &mut DaemonClient,
    request: WaitRequest,
    begun: impl FnOnce(),
) -> Result<WaitResult, Error> {
    let answer = match daemon.ask(&Request::Wait(request.clone())).await {
        Ok(Response::Waiting) => {
            begun();
            daemon.answer().await
        }
        answer => answer,
    };
    match answer {
        Ok(Response::Waited(result)) => Ok(with_holders(result, &request)),
        Ok(_) => Err(unexpected()),
        Err(error) => Err(error),
    }
}

/// Adds who has the ports that were waited for and that the task does not listen on.
fn with_holders(mut result: WaitResult, request: &WaitRequest) -> WaitResult {
    if result.outcome != WaitOutcome::Listening {
        result.port_holders = holders(&request.conditions, result.pane_pid);
    }
    result
}

/// Returns who has the ports that are waited for, besides the run with this first process.
pub(crate) fn holders(conditions: &[Condition], leader: Option<u32>) -> Vec<PortHolder> {
    let ports = conditions.iter().filter_map(Condition::port);
    let holders = ports.map(|port| process::port_holders(port, leader));
    holders.flatten().collect()
}

/// Runs tmux's own `wait-for` with a time limit: one process waits, however long it takes. Dropping
/// the future ends that process.
pub(crate) async fn wait_for_channel(
    session: &TaskSession,
    channel: &str,
    timeout: Option<Duration>,
) -> Result<WaitResult, Error> {
    let began = Instant::now();
    let limit = timeout.unwrap_or(Duration::MAX);
    let outcome = tokio::select! {
        waited = tmux::wait_for(&session.server, channel) => match waited? {
            true => WaitOutcome::Signalled,
            false => WaitOutcome::Disappeared,
        },
        // The time limit that the user has set.
        () = tokio::time::sleep(limit) => WaitOutcome::Timeout,
    };
    let mut result = WaitResult::new(outcome);
    // Also when the server has ended.
    result.condition = (outcome != WaitOutcome::Timeout).then(|| CHANNEL.to_owned());
    result.elapsed_ms = whole_millis(began.elapsed());
    Ok(result)
}

/// Wakes all clients that wait on a channel.
pub(crate) async fn signal_channel(session: &TaskSession, channel: &str) -> Result<(), Error> {
    tmux::signal_channel(&mut session.connection(), channel).await?;
    Ok(())
}
