//! Which session has which files, and which daemon supervises it.
//!
//! A name leads to files ([`Paths::locate`]), and a session names its folder in an option, from the first
//! daemon on: so its files are found whatever its name is by now, also if no daemon has made a link for
//! it yet.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::endpoint;
use crate::config::paths::{Env, Paths, is_key, next_key};
use crate::model::SessionLife;
use crate::process::is_our_program;
use crate::tmux::{self, Connection, ListedSession, Mark, Probe, Server, TmuxError};

/// How long a daemon that has marked a session may take until it has control clients on it, and how often to check.
const ATTACHES_WITHIN: Duration = Duration::from_secs(2);
const ATTACHES_PAUSE: Duration = Duration::from_millis(50);

/// Lists the server's sessions with their folders. A missing server has none.
pub(crate) async fn list_sessions(server: &Server) -> Result<Vec<ListedSession>, TmuxError> {
    if server.probe() == Probe::Absent {
        return Ok(Vec::new());
    }
    let sessions = tmux::list_marks(&mut Connection::OneShot(server)).await?;
    Ok(with_keys(sessions))
}

pub(super) fn with_keys(mut sessions: Vec<ListedSession>) -> Vec<ListedSession> {
    for session in &mut sessions {
        session.folder.take_if(|folder| !is_key(folder));
    }
    sessions
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedName {
    /// The session's present name; `None` when there is no such session.
    pub name: Option<String>,
    /// Its files.
    pub paths: Paths,
}

/// Returns what a name means: the session with that name; if there is none, the session that had it.
/// `paths` are the files to which the name leads.
pub(crate) fn resolve(sessions: &[ListedSession], name: &str, paths: &Paths) -> ResolvedName {
    let owner = |key: &str| {
        let has_it = |session: &&ListedSession| session.folder.as_deref() == Some(key);
        sessions.iter().find(has_it)
    };
    let named = sessions.iter().find(|session| session.name == name);
    let mut key = paths.key.clone();
    let found = match (named, owner(&key)) {
        (Some(named), _) if let Some(folder) = &named.folder => {
            key.clone_from(folder);
            Some(named)
        }
        (None, Some(renamed)) => Some(renamed),
        (named, _) => {
            // The feed of another session is not continued while that session exists.
            while owner(&key).is_some() {
                key = next_key(&key);
            }
            named
        }
    };
    ResolvedName {
        name: found.map(|found| found.name.clone()),
        paths: paths.with_key(&key),
    }
}

/// Returns the session that a daemon with these files supervises: the one that has them, else one that
/// has none yet and has the name `name`, else one whose name leads to them.
pub(super) fn occupant<'a>(
    sessions: &'a [ListedSession],
    server_socket: &Path,
    paths: &Paths,
    name: &str,
) -> Option<&'a ListedSession> {
    let is_named = |one: &ListedSession| one.folder.is_none() && one.name == name;
    let is_its = |one: &&ListedSession| is_named(one) || has(one, server_socket, paths);
    let its = sessions.iter().filter(is_its);
    its.min_by_key(|one| (one.folder.is_none(), one.name != name))
}

pub(crate) fn has(session: &ListedSession, server_socket: &Path, paths: &Paths) -> bool {
    match &session.folder {
        Some(folder) => *folder == paths.key,
        None => {
            let env: Env<'_> = &|name| std::env::var_os(name);
            let named = Paths::locate(server_socket, &session.name, env);
            named.is_ok_and(|named| named.key == paths.key)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Ours {
        /// Whether it has these files from now on.
        is_new: bool,
    },
    Theirs(Mark),
}

/// Marks the session as ours, with the key of our files, unless another daemon has marked it. Of two daemons that
/// try, one succeeds. It fails when another daemon has control clients on the session although its lock is not in our
/// folders: two daemons on one session would keep ending each other's control clients.
pub(super) async fn claim(
    server: &Server,
    life: &SessionLife,
    paths: &Paths,
) -> Result<Claim, TmuxError> {
    let ours = Mark {
        pid: std::process::id(),
        folder: paths.key.clone(),
    };
    let is_living = |mark: &Mark| {
        is_key(&mark.folder) && endpoint::is_held_by(&paths.with_key(&mark.folder).lock(), mark.pid)
    };
    let mut connection = Connection::OneShot(server);
    let (folder, mut mark) = tmux::claim(&mut connection, life.id, None, &ours).await?;
    if mark != ours && (mark.folder == ours.folder || !is_living(&mark)) {
        if is_supervised(server, life, mark.pid).await {
            return Err(TmuxError::OtherDaemon { pid: mark.pid });
        }
        // Left by a daemon that was killed.
        (_, mark) = tmux::claim(&mut connection, life.id, Some(&mark), &ours).await?;
    }
    if mark != ours {
        return Ok(Claim::Theirs(mark));
    }
    Ok(Claim::Ours {
        is_new: folder != ours.folder,
    })
}

/// Makes a name of the session lead to its files. If the session has just got them, it is their only name.
pub(super) fn link_name(server: &Server, paths: &Paths, name: &str, is_new: bool) {
    let linked = if is_new {
        paths.begin_session(server.socket(), name)
    } else {
        paths.add_name(server.socket(), name)
    };
    if let Err(error) = linked {
        // Commands ask tmux then.
        tracing::warn!(%error, name, "could not link the session's name to its files");
    }
}

/// Whether the daemon with this pid, whose lock is not in our folders, has control clients on the
/// session, or gets some within [`ATTACHES_WITHIN`].
async fn is_supervised(server: &Server, life: &SessionLife, daemon: u32) -> bool {
    let deadline = Instant::now() + ATTACHES_WITHIN;
    loop {
        if tmux::has_clients(server, life.id, daemon) {
            return true;
        }
        if !is_our_program(daemon) || Instant::now() >= deadline {
            return false;
        }
        sleep(ATTACHES_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;
    use crate::model::test_notation::life;

    fn session(id: u32, name: &str, folder: Option<&str>) -> ListedSession {
        ListedSession {
            life: SessionLife {
                id: SessionId(id),
                ..life(1)
            },
            name: name.to_owned(),
            folder: folder.map(str::to_owned),
            root: None,
            title: None,
            has_record: false,
            daemon: None,
        }
    }

    fn paths() -> Paths {
        let env = |name: &str| (name == "HOME").then(|| "/h".into());
        Paths::locate(Path::new("/t"), "x", &env).unwrap()
    }

    /// The name `work` leads to the folder `first`.
    #[track_caller]
    fn check(sessions: &[ListedSession], expected: (Option<&str>, &str)) {
        let resolved = resolve(sessions, "work", &paths().with_key("first"));
        let found = (resolved.name.as_deref(), resolved.paths.key.as_str());
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_stands_for_the_session_that_has_it_else_for_the_one_that_had_it() {
        let (first, second) = (Some("first"), Some("second"));
        check(&[], (None, "first"));
        check(&[session(1, "other", None)], (None, "first"));
        check(&[session(1, "work", None)], (Some("work"), "first"));
        check(&[session(1, "work", first)], (Some("work"), "first"));
        check(&[session(1, "other", first)], (Some("other"), "first"));
        // No daemon has made a link for the name yet.
        check(&[session(1, "work", second)], (Some("work"), "second"));
    }

    #[test]
    fn no_session_has_the_files_of_another_one() {
        let swapped = [
            session(1, "other", Some("first")),
            session(2, "work", Some("second")),
        ];
        check(&swapped, (Some("work"), "second"));
        let (next, after) = (next_key("first"), next_key(&next_key("first")));
        let taken = |key: &str| {
            [
                session(1, "other", Some("first")),
                session(2, "third", Some(key)),
                session(3, "work", None),
            ]
        };
        check(&taken("second"), (Some("work"), &next));
        check(&taken(&next), (Some("work"), &after));
    }

    #[test]
    fn a_daemon_has_the_session_with_its_folder_else_one_of_its_name() {
        let ours = paths();
        let find = |sessions: &[ListedSession]| {
            occupant(sessions, Path::new("/t"), &ours, "x").map(|found| found.life.id.0)
        };
        let named = session(1, "x", None);
        let having = session(2, "other", Some(&ours.key));
        let elsewhere = session(3, "x", Some("second"));
        assert_eq!(find(&[named.clone(), session(4, "y", None)]), Some(1));
        assert_eq!(find(&[named, having.clone()]), Some(2));
        assert_eq!(find(&[elsewhere.clone(), having]), Some(2));
        assert_eq!(find(&[elsewhere]), None);
    }
}
