//! All task sessions of this user: those that have a daemon, on any tmux server, and those of the
//! present server that have none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;

use super::list::look;
use super::lookup;
use super::session::{SessionChoice, TaskSession};
use crate::client::DaemonClient;
use crate::daemon::resolve;
use crate::model::Error;
use crate::paths::{Paths, is_key};
pub(crate) use crate::tmux::Server;
use crate::tmux::{self, Connection, ListedSession};
use crate::wire::{DaemonStatus, LsTask, LsView, Request};

/// How long a daemon may take to answer: one that is stopped must not hold up the others.
const PATIENCE: Duration = Duration::from_secs(2);

/// A task session on a tmux server.
#[derive(Debug, Serialize)]
pub(crate) struct ListedElsewhere {
    /// Its tasks.
    #[serde(flatten)]
    pub(crate) view: LsView,
    /// The server's socket.
    pub(crate) server: String,
    /// Whether it is the present server.
    #[serde(skip)]
    pub(crate) is_here: bool,
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
pub(crate) async fn list_everywhere(choice: &SessionChoice) -> Result<Everywhere, Error> {
    let session = TaskSession::named(choice)?;
    let here = session.server.socket().display().to_string();
    let listed = |view, server: String| ListedElsewhere {
        view,
        is_here: server == here,
        server,
    };
    let mut supervised = BTreeMap::new();
    let mut silent = Vec::new();
    let asked = session.paths.sockets().into_iter().map(|socket| async {
        let answer = timeout(PATIENCE, ask(&socket)).await;
        (socket, answer)
    });
    for (socket, answer) in join_all(asked).await {
        match answer {
            Ok(Some((server, view))) => drop(supervised.insert(socket, listed(view, server))),
            // It has left its socket behind, or leaves now.
            Ok(None) => {}
            Err(_) => silent.push(socket),
        }
    }
    let mut sessions = Vec::new();
    for FoundSession { name, daemon } in sessions_of(&session.server).await? {
        if let Some(known) = supervised.get_mut(&daemon) {
            known.view.session_name = name;
            continue;
        }
        let choice = SessionChoice {
            session: Some(name),
            server: choice.server.clone(),
        };
        // What tmux shows of its tasks.
        let look = look(&TaskSession::named(&choice)?).await?;
        let view = LsView::new(&look, false, |task| LsTask::new(Arc::clone(task), None));
        sessions.push(listed(view, here.clone()));
    }
    sessions.extend(supervised.into_values());
    sessions.retain(|listed| listed.view.exists);
    sessions.sort_by_cached_key(|listed| {
        let (server, name) = (listed.server.clone(), listed.view.session_name.clone());
        (!listed.is_here, server, name)
    });
    Ok(Everywhere { sessions, silent })
}

/// A task session of a tmux server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundSession {
    pub(crate) name: String,
    /// Where its daemon listens, if it has one.
    pub(crate) daemon: PathBuf,
}

/// Returns the task sessions of a tmux server, with and without a daemon.
pub(crate) async fn sessions_of(server: &Server) -> Result<Vec<FoundSession>, Error> {
    let mut sessions = tmux::list_sessions(&mut Connection::OneShot(server)).await?;
    for session in &mut sessions {
        session.folder = session.folder.take().filter(|folder| is_key(folder));
    }
    let of = |session: &ListedSession| {
        let paths = Paths::locate(server.socket(), &session.name, &lookup)?;
        Ok(FoundSession {
            daemon: resolve(&sessions, &session.name, &paths).paths.socket(),
            name: session.shown_name(),
        })
    };
    let ours = sessions.iter().filter(|session| session.root.is_some());
    ours.map(of).collect()
}

/// Returns the sockets of the user's daemons, which may have left them behind.
#[cfg(feature = "panel")]
pub(crate) fn daemon_sockets(server: &Server) -> Result<Vec<PathBuf>, Error> {
    // The runtime folder is the same for all sessions.
    Ok(Paths::locate(server.socket(), "", &lookup)?.sockets())
}

/// Returns a daemon's server and tasks; `None` when no daemon listens.
async fn ask(socket: &Path) -> Option<(String, LsView)> {
    let mut daemon = DaemonClient::connect(socket).await.ok()?;
    let status: DaemonStatus = daemon.ask(&Request::Status).await.ok()?;
    let view = daemon.ask(&Request::List).await.ok()?;
    Some((status.server, view))
}
