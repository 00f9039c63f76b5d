//! The tasks of a session as the daemon pushes them.

#[cfg(feature = "panel")]
use std::path::Path;

#[cfg(feature = "panel")]
use super::session::SessionChoice;
use super::session::{LostDaemons, TaskSession};
use crate::client::{DaemonClient, Hello};
#[cfg(feature = "panel")]
use crate::model::ErrorKind;
use crate::model::{Error, Kind};
#[cfg(feature = "panel")]
use crate::tmux::ServerChoice;
#[cfg(feature = "panel")]
use crate::wire::DaemonStatus;
use crate::wire::{Filter, ReaderStart, Request};

/// Subscribes to the session's tasks. Starts a daemon if none runs. Returns the stream, whose lines
/// [`DaemonClient::line`] returns, and the session's present name.
pub(crate) async fn task_stream(session: &TaskSession) -> Result<(DaemonClient, String), Error> {
    let mut lost = LostDaemons::default();
    loop {
        let mut daemon = session.daemon_or_start().await?;
        match subscribe(&mut daemon).await {
            // It may have been stopping when it was found.
            Err(error) if lost.goes_on_after(&error) => {}
            Err(error) => return Err(error),
            Ok(name) => return Ok((daemon, name)),
        }
    }
}

/// Subscribes to the tasks of the daemon that listens at a socket. Returns the stream and the
/// daemon's session, on any tmux server; `None` when no daemon listens. `choice` says which tmux to
/// use.
#[cfg(feature = "panel")]
pub(crate) async fn task_stream_at(
    socket: &Path,
    choice: &SessionChoice,
) -> Result<Option<(DaemonClient, TaskSession)>, Error> {
    let mut daemon = match DaemonClient::connect(socket).await {
        Err(error) if error.kind == ErrorKind::NoDaemon => return Ok(None),
        connected => connected?,
    };
    let status: DaemonStatus = match daemon.ask(&Request::Status).await {
        Err(error) if error.kind == ErrorKind::DaemonEnded => return Ok(None),
        status => status?,
    };
    let mut session = TaskSession::named(&SessionChoice {
        session: Some(status.session_name),
        server: ServerChoice {
            socket_name: None,
            socket_path: Some(status.server.into()),
            program: choice.server.program.clone(),
        },
    })?;
    // The session may have been renamed since its daemon started.
    if session.paths.socket() != socket {
        session.resolve_name().await?;
    }
    if session.paths.socket() != socket {
        return Ok(None);
    }
    // It is not known which project the session belongs to.
    session.project = None;
    match subscribe(&mut daemon).await {
        Err(error) if error.kind == ErrorKind::DaemonEnded => Ok(None),
        Err(error) => Err(error),
        Ok(name) => {
            session.name = name;
            Ok(Some((daemon, session)))
        }
    }
}

/// Turns a connection into a stream of tasks. Returns the session's present name.
async fn subscribe(daemon: &mut DaemonClient) -> Result<String, Error> {
    // No record of the feed is wanted, and a reader cannot say so: these are the fewest.
    let filter = Filter::new(vec![Kind::Notice], Vec::new(), Vec::new());
    let request = Request::Subscribe {
        start: ReaderStart::Now,
        filter,
        tasks: true,
        stored: None,
    };
    let hello = daemon.stream(&request).await?;
    Ok(Hello::parse(&hello)?.session_name)
}
