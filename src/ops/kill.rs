//! Ends tasks and sessions, through the daemon if one runs, so that it knows why tasks disappear.

use super::caller::Caller;
use super::ending::EndWatch;
use super::session::TaskSession;
use super::without_daemon::{SessionToKill, answer, kill_session};
use crate::client::unexpected;
use crate::model::{Error, StopChoice};
use crate::wire::{EndedTask, Request, Response};

/// What became of the tasks of a command.
#[derive(Debug)]
pub(crate) struct KilledSession {
    pub(crate) ended: Vec<EndedTask>,
    /// Those that live on in another session, to which their windows belong as well.
    pub(crate) moved: Vec<EndedTask>,
}

/// Ends these tasks, given by name or window id; none of them when one does not exist.
pub(crate) async fn kill(
    session: &mut TaskSession,
    caller: Caller,
    names: Vec<String>,
    choice: &StopChoice,
    watch: &EndWatch,
) -> Result<Vec<EndedTask>, Error> {
    let is_by_agent = caller.is_agent || caller.owner.is_some();
    let request = Request::Kill {
        tasks: names,
        asked_by: caller.remote_name(),
        owner: caller.owner,
        by_agent: caller.is_agent,
        choice: choice.clone(),
    };
    let answered = match ask_daemon(session, &request, is_by_agent).await? {
        Some(answered) => answered,
        None => answer(session, &request, watch).await?,
    };
    Ok(killed(answered)?.ended)
}

/// Ends the session: `target`, where the caller has looked at it before; otherwise the one that has
/// the given name now. A name that a session had before is not enough: another session may have had it
/// since.
pub(crate) async fn kill_all(
    session: &mut TaskSession,
    target: Option<SessionToKill>,
    choice: &StopChoice,
    watch: &EndWatch,
) -> Result<KilledSession, Error> {
    let caller = Caller::of_environment();
    let is_by_agent = caller.is_agent;
    let given = session.name.clone();
    let request = Request::KillAll {
        asked_by: caller.remote_name(),
        owner: caller.owner,
        choice: choice.clone(),
    };
    let answered = ask_daemon(session, &request, is_by_agent).await?;
    killed(match (answered, target) {
        (Some(answered), _) => answered,
        (None, Some(target)) => kill_session(session, target, choice, watch).await?,
        (None, None) if session.name != given => {
            let name = &session.name;
            return Err(Error::missing(format!(
                "no session `{given}`: the one that had this name is called `{name}` now"
            ))
            .with_hint(format!("`tmux-task -s '{name}' kill-all` ends it")));
        }
        (None, None) => answer(session, &request, watch).await?,
    })
}

/// Removes ended tasks.
pub(crate) async fn prune(session: &mut TaskSession) -> Result<Vec<EndedTask>, Error> {
    Ok(killed(session.ask_by_name(&Request::Prune).await?)?.ended)
}

/// Sends a request to end tasks to the daemon; `None` when none runs.
///
/// For an agent a daemon is started where one has run before: a later one would report the tasks as
/// lost, which wakes the agent.
async fn ask_daemon(
    session: &mut TaskSession,
    request: &Request,
    is_by_agent: bool,
) -> Result<Option<Response>, Error> {
    let answer = session.ask_daemon_by_name(request).await?;
    if answer.is_some() || !is_by_agent || !session.paths.feed().exists() {
        return Ok(answer);
    }
    if let Err(error) = session.daemon_or_start().await {
        tracing::debug!(%error, "no daemon to note why tasks disappear");
    }
    session.ask_daemon(request).await
}

fn killed(answer: Response) -> Result<KilledSession, Error> {
    let Response::Ended { tasks, moved } = answer else {
        return Err(unexpected());
    };
    Ok(KilledSession {
        ended: tasks,
        moved,
    })
}
