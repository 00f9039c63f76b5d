//! All task sessions of this user: those that have a daemon, on any tmux server, and those of the
//! present server that have none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;

use super::list::look;
#[cfg(feature = "panel")]
use super::lookup;
use super::session::{SessionChoice, TaskSession};
use crate::client::DaemonClient;
use crate::model::{Error, Snapshot};
#[cfg(feature = "panel")]
use crate::paths::{Paths, is_key};
pub(crate) use crate::tmux::Server;
use crate::tmux::{self, Connection, ListedSession};
use crate::wire::{LsTask, LsView, Request, Response};

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
    let mut supervised = Vec::new();
    let mut silent = Vec::new();
    let asked = session.paths.sockets().into_iter().map(|socket| async {
        let answer = timeout(PATIENCE, ask(&socket)).await;
        (socket, answer)
    });
    for (socket, answer) in join_all(asked).await {
        match answer {
            Ok(Some(answer)) => supervised.push(answer),
            // It has left its socket behind, or leaves now.
            Ok(None) => {}
            Err(_) => silent.push(socket),
        }
    }
    let of_here = supervised.iter_mut().filter(|one| one.server == here);
    let others = without_daemon(of_here, task_sessions(&session.server).await?);
    let listed = |DaemonAnswer { server, view, .. }| ListedElsewhere {
        is_here: server == here,
        server,
        view,
    };
    let mut sessions: Vec<_> = supervised.into_iter().map(listed).collect();
    for found in others {
        let choice = SessionChoice {
            session: Some(found.shown_name()),
            server: choice.server.clone(),
        };
        sessions.push(ListedElsewhere {
            server: here.clone(),
            is_here: true,
            view: view_of(&look(&TaskSession::named(&choice)?).await?),
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

/// Returns what tmux shows of the tasks of a session without a daemon.
fn view_of(look: &Snapshot) -> LsView {
    LsView::new(look, false, |task| LsTask::new(Arc::clone(task), None))
}

/// The answer of a daemon.
#[derive(Debug)]
struct DaemonAnswer {
    /// The daemon's pid.
    daemon: u32,
    /// The server's socket.
    server: String,
    /// Its tasks. The session may have another name by now.
    view: LsView,
}

/// Gives the sessions of a server's daemons their present names, and returns the sessions without a
/// daemon. A session has the pid of its daemon, whatever it is called.
fn without_daemon<'a>(
    supervised: impl Iterator<Item = &'a mut DaemonAnswer>,
    mut sessions: Vec<ListedSession>,
) -> Vec<ListedSession> {
    let mut of_unmarked = Vec::new();
    for one in supervised {
        let is_its = |found: &ListedSession| found.daemon == Some(one.daemon);
        match sessions.iter().position(is_its) {
            Some(place) => one.view.session_name = sessions.remove(place).shown_name(),
            None => of_unmarked.push(&one.view.session_name),
        }
    }
    // A daemon that has just started may not have marked its session yet.
    sessions.retain(|found| !of_unmarked.contains(&&found.shown_name()));
    sessions
}

/// Returns the task sessions of a tmux server, with and without a daemon.
async fn task_sessions(server: &Server) -> Result<Vec<ListedSession>, Error> {
    let mut listed = tmux::list_sessions(&mut Connection::OneShot(server)).await?;
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
pub(crate) async fn sessions_of(server: &Server) -> Result<Vec<FoundSession>, Error> {
    let of = |session: ListedSession| {
        let mut paths = Paths::locate(server.socket(), &session.name, &lookup)?;
        if let Some(folder) = session.folder.as_ref().filter(|folder| is_key(folder)) {
            paths = paths.with_key(folder);
        }
        Ok(FoundSession {
            daemon: paths.socket(),
            name: session.shown_name(),
        })
    };
    task_sessions(server).await?.into_iter().map(of).collect()
}

/// Returns the sockets of the user's daemons, which may have left them behind.
#[cfg(feature = "panel")]
pub(crate) fn daemon_sockets(server: &Server) -> Result<Vec<PathBuf>, Error> {
    // The runtime folder is the same for all sessions.
    Ok(Paths::locate(server.socket(), "", &lookup)?.sockets())
}

/// Returns a daemon's server and tasks; `None` when no daemon listens.
async fn ask(socket: &Path) -> Option<DaemonAnswer> {
    let mut daemon = DaemonClient::connect(socket).await.ok()?;
    let Response::Status(status) = daemon.ask(&Request::Status).await.ok()? else {
        return None;
    };
    let Response::List(view) = daemon.ask(&Request::List).await.ok()? else {
        return None;
    };
    Some(DaemonAnswer {
        daemon: status.pid,
        server: status.server.clone(),
        view,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SessionId, SessionLife};

    fn session(name: &str, daemon: Option<u32>) -> ListedSession {
        ListedSession {
            life: SessionLife {
                server_pid: 1,
                server_started: 1,
                id: SessionId(1),
                created: 0,
            },
            daemon,
            folder: None,
            name: name.to_owned(),
            has_record: false,
            root: Some("/".to_owned()),
            title: None,
        }
    }

    fn answer(name: &str, daemon: u32) -> DaemonAnswer {
        DaemonAnswer {
            daemon,
            server: String::new(),
            view: LsView {
                session_name: name.to_owned(),
                exists: true,
                supervised: true,
                captured_at: 0,
                tasks: Vec::new(),
            },
        }
    }

    /// The names of the supervised sessions, and of the others.
    fn names(mut daemons: Vec<DaemonAnswer>, sessions: Vec<ListedSession>) -> [Vec<String>; 2] {
        let others = without_daemon(daemons.iter_mut(), sessions);
        [
            daemons
                .into_iter()
                .map(|one| one.view.session_name)
                .collect(),
            others.into_iter().map(|found| found.name).collect(),
        ]
    }

    #[test]
    fn a_session_is_listed_once_by_its_present_name() {
        assert_eq!(
            names(
                vec![answer("shop", 7), answer("web", 8)],
                vec![
                    session("web", Some(8)),
                    session("store", Some(7)),
                    session("x", None)
                ],
            ),
            [vec!["store", "web"], vec!["x"]]
        );
        // Another session has got the old name meanwhile.
        assert_eq!(
            names(
                vec![answer("shop", 7)],
                vec![session("shop", None), session("store", Some(7))],
            ),
            [["store"], ["shop"]]
        );
        // The mark is of a daemon that was killed.
        assert_eq!(
            names(vec![answer("shop", 7)], vec![session("shop", Some(6))]),
            [vec!["shop"], vec![]]
        );
    }
}
