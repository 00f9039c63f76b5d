//! All task sessions of this user: those that have a daemon, on any tmux server, and those of the
//! present server that have none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::OpsError;
use super::list;
#[cfg(feature = "panel")]
use super::lookup;
use super::session::{Session, SessionChoice};
use crate::client::Client;
#[cfg(feature = "panel")]
use crate::paths::Paths;
pub(crate) use crate::tmux::Server;
use crate::tmux::{self, Connection, ListedSession, TmuxError};
use crate::wire::{LsView, Request, Response};

/// How long a daemon may take to answer: one that is stopped must not hold up the others.
const PATIENCE: Duration = Duration::from_secs(2);

/// A task session on a tmux server.
#[derive(Debug)]
pub(crate) struct ListedElsewhere {
    /// The server's socket.
    pub(crate) server: String,
    /// Whether it is the present server.
    pub(crate) is_here: bool,
    /// Its tasks.
    pub(crate) view: LsView,
}

/// All task sessions.
#[derive(Debug)]
pub(crate) struct Everywhere {
    /// Those of the present server first, by name.
    pub(crate) sessions: Vec<ListedElsewhere>,
    /// The sockets of daemons that do not answer.
    pub(crate) silent: Vec<PathBuf>,
}

/// Lists all task sessions. `choice` says which server is the present one.
pub(crate) async fn list_everywhere(choice: &SessionChoice) -> Result<Everywhere, OpsError> {
    let session = Session::named(choice)?;
    let here = session.server.socket().display().to_string();
    let mut sessions = Vec::new();
    let mut silent = Vec::new();
    for socket in session.paths.sockets() {
        match tokio::time::timeout(PATIENCE, ask(&socket)).await {
            Ok(Some((server, view))) => sessions.push(ListedElsewhere {
                is_here: server == here,
                server,
                view,
            }),
            // It has left its socket behind, or leaves now.
            Ok(None) => {}
            Err(_) => silent.push(socket),
        }
    }
    for found in task_sessions(&session.server).await? {
        let is_known =
            |known: &ListedElsewhere| known.is_here && known.view.session_name == found.name;
        if sessions.iter().any(is_known) {
            continue;
        }
        let choice = SessionChoice {
            session: Some(found.name.clone()),
            server: choice.server.clone(),
        };
        sessions.push(ListedElsewhere {
            server: here.clone(),
            is_here: true,
            view: list::look(&Session::named(&choice)?).await?,
        });
    }
    sessions.retain(|listed| listed.view.exists);
    sessions.sort_by(|one, other| {
        let place = |listed: &ListedElsewhere| {
            (
                !listed.is_here,
                listed.server.clone(),
                listed.view.session_name.clone(),
            )
        };
        place(one).cmp(&place(other))
    });
    Ok(Everywhere { sessions, silent })
}

/// Returns the task sessions of a tmux server, with and without a daemon.
async fn task_sessions(server: &Server) -> Result<Vec<ListedSession>, OpsError> {
    let mut listed = match tmux::list_sessions(&mut Connection::OneShot(server)).await {
        Err(TmuxError::NoServer { .. }) => Vec::new(),
        listed => listed?,
    };
    listed.retain(|session| session.root.is_some());
    Ok(listed)
}

/// A task session of a tmux server.
#[cfg(feature = "panel")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundSession {
    pub(crate) name: String,
    /// Where its daemon listens, if it has one.
    pub(crate) daemon: PathBuf,
}

/// Returns the task sessions of a tmux server.
#[cfg(feature = "panel")]
pub(crate) async fn sessions_of(server: &Server) -> Result<Vec<FoundSession>, OpsError> {
    let of = |session: ListedSession| {
        let asked = session.supervised_as.as_ref().unwrap_or(&session.name);
        Ok(FoundSession {
            daemon: Paths::locate(server.socket(), asked, &lookup)?.socket(),
            name: session.name,
        })
    };
    task_sessions(server).await?.into_iter().map(of).collect()
}

/// Returns the sockets of the user's daemons, which may have left them behind.
#[cfg(feature = "panel")]
pub(crate) fn daemon_sockets(server: &Server) -> Result<Vec<PathBuf>, OpsError> {
    // The runtime folder is the same for all sessions.
    Ok(Paths::locate(server.socket(), "", &lookup)?.sockets())
}

/// Returns a daemon's server and tasks; `None` when no daemon listens.
async fn ask(socket: &Path) -> Option<(String, LsView)> {
    let mut daemon = Client::connect(socket).await.ok()?;
    let Response::Status(status) = daemon.ask(&Request::Status).await.ok()? else {
        return None;
    };
    let Response::List(view) = daemon.ask(&Request::List).await.ok()? else {
        return None;
    };
    Some((status.server.clone(), view))
}
