//! Which daemon supervises a session that has, or had, more than one name.
//!
//! A daemon is found by its session's start name, and follows the session through renames. So a
//! session can be asked for by its present name while it is supervised under an earlier one: the
//! mark that the daemon left on it shows which.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep};

use super::lock;
use crate::feed::load_saved;
use crate::model::SessionLife;
use crate::paths::{Env, Paths, PathsError, name_in, start_name_by_id};
use crate::process::{is_our_program, parent};
use crate::tmux::{self, Connection, Mark, MarkedSession, Probe, Server, TmuxError};
use crate::wire::SavedSession;

/// How far the clock may have been set back since a session was created. State that was saved
/// longer ago does not belong to this session and need not be read.
const CLOCK_SET_BACK: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a daemon that has just marked a session may take until it has control clients on it,
/// and the time between two checks.
const ATTACHES_WITHIN: Duration = Duration::from_secs(2);
const ATTACHES_PAUSE: Duration = Duration::from_millis(50);

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedName {
    /// The session's present name; `None` when there is no such session.
    pub name: Option<String>,
    /// Its start name, by which its daemon is found, whether one runs or not.
    pub start_name: String,
}

/// Asks tmux once what the name means: the session with that name; if there is none, the session
/// that the last daemon of this name supervised, through renames.
///
/// # Errors
///
/// When tmux fails. A missing server has no sessions.
pub(crate) async fn resolve_name(server: &Server, name: &str) -> Result<ResolvedName, TmuxError> {
    Ok(resolve_among(server, &list_sessions(server).await?, name))
}

/// The same, given the server's sessions.
pub(super) fn resolve_among(
    server: &Server,
    sessions: &[MarkedSession],
    name: &str,
) -> ResolvedName {
    // The caller reports a folder that cannot be used.
    let paths = paths_of(server, name).ok();
    let life = paths.as_ref().and_then(saved_life);
    let kept = |life: &SessionLife| kept_as(server, paths.as_ref()?, life);
    let is_living = |mark: &Mark| is_living(server, mark);
    choose(sessions, life.as_ref(), name, kept, is_living)
}

/// Lists the server's sessions with their marks. A missing server has none.
///
/// # Errors
///
/// When tmux fails.
pub(super) async fn list_sessions(server: &Server) -> Result<Vec<MarkedSession>, TmuxError> {
    if server.probe() == Probe::Absent {
        return Ok(Vec::new());
    }
    tmux::list_marks(&mut Connection::OneShot(server)).await
}

fn choose(
    sessions: &[MarkedSession],
    life: Option<&SessionLife>,
    name: &str,
    kept: impl Fn(&SessionLife) -> Option<String>,
    is_living: impl Fn(&Mark) -> bool,
) -> ResolvedName {
    let named = sessions.iter().find(|session| session.name == name);
    let left = sessions.iter().find(|session| Some(&session.life) == life);
    let Some(found) = named.or(left) else {
        return ResolvedName {
            name: None,
            start_name: name.to_owned(),
        };
    };
    let owner = match left {
        None => FolderOwner::None,
        Some(left) if left.life == found.life => FolderOwner::SameSession,
        Some(_) => FolderOwner::OtherSession,
    };
    ResolvedName {
        name: Some(found.name.clone()),
        start_name: start_name(found, name, owner, kept, is_living),
    }
}

/// To which session the state in the folder of a session's name belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderOwner {
    SameSession,
    /// Another session, which exists under another name.
    OtherSession,
    /// There is no state, or that of a session that is gone.
    None,
}

/// Returns the start name of the session `found`, which `name` means.
fn start_name(
    found: &MarkedSession,
    name: &str,
    owner: FolderOwner,
    kept: impl Fn(&SessionLife) -> Option<String>,
    is_living: impl Fn(&Mark) -> bool,
) -> String {
    if let Some(mark) = found.mark.as_ref().filter(|mark| is_living(mark)) {
        return mark.name.clone();
    }
    match owner {
        FolderOwner::SameSession => name.to_owned(),
        // The feed of another session is not continued while that session exists.
        FolderOwner::OtherSession => {
            kept(&found.life).unwrap_or_else(|| start_name_by_id(name, found.life.id))
        }
        FolderOwner::None => kept(&found.life).unwrap_or_else(|| name.to_owned()),
    }
}

/// Returns the start name of the session, given that the folder of its name belongs to another
/// existing session.
pub(super) fn start_name_of(server: &Server, paths: &Paths, session: &MarkedSession) -> String {
    let kept = |life: &SessionLife| kept_as(server, paths, life);
    let is_living = |mark: &Mark| is_living(server, mark);
    let owner = FolderOwner::OtherSession;
    start_name(session, &session.name, owner, kept, is_living)
}

/// Returns the session that a daemon of these `paths` supervises: the one whose state is there,
/// whatever its name is, else the one of its name, unless its state is elsewhere.
///
/// # Errors
///
/// When tmux fails. A missing server has no sessions.
pub(super) async fn occupant(
    server: &Server,
    paths: &Paths,
) -> Result<Option<MarkedSession>, TmuxError> {
    let mut sessions = list_sessions(server).await?;
    let life = saved_life(paths);
    let left = sessions
        .iter()
        .position(|session| Some(&session.life) == life.as_ref());
    let is_free = |life: &SessionLife| {
        kept_as(server, paths, life).is_none_or(|start_name| start_name == paths.start_name)
    };
    let named = || {
        sessions.iter().position(|session| {
            session.name == name_in(&paths.start_name) && is_free(&session.life)
        })
    };
    Ok(left.or_else(named).map(|index| sessions.swap_remove(index)))
}

fn saved_life(paths: &Paths) -> Option<SessionLife> {
    load(&paths.saved())?.life
}

/// Returns the snapshot saved in this file; `None` where there is none or it cannot be used.
fn load(file: &Path) -> Option<SavedSession> {
    load_saved(file).unwrap_or_else(|damaged| {
        tracing::debug!(%damaged, "ignored a damaged snapshot of another name");
        None
    })
}

/// Searches the states of all task sessions, of which `paths` is one, for this life of a session.
/// Returns its start name; of several, the one saved last.
pub(super) fn kept_as(server: &Server, paths: &Paths, life: &SessionLife) -> Option<String> {
    let created = Duration::from_secs(u64::try_from(life.created).unwrap_or_default());
    let earliest = UNIX_EPOCH.checked_add(created.saturating_sub(CLOCK_SET_BACK))?;
    let files = paths.all_saved().into_iter();
    let recent = files.filter(|file| changed_at(file).is_some_and(|at| at >= earliest));
    let found = recent.filter_map(|file| {
        let saved = load(&file).filter(|saved| saved.life.as_ref() == Some(life))?;
        let start_name = saved.start_name().to_owned();
        // Neither a copy of another folder nor one created by an earlier version for another name.
        let is_at_home = paths_of(server, &start_name).is_ok_and(|paths| paths.saved() == file);
        is_at_home.then_some((saved.snapshot.captured_at, start_name))
    });
    found.max().map(|(_, start_name)| start_name)
}

fn changed_at(file: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(file).ok()?.modified().ok()
}

/// Returns the files of the session with this start name.
pub(super) fn paths_of(server: &Server, start_name: &str) -> Result<Paths, PathsError> {
    let env: Env<'_> = &|name| std::env::var_os(name);
    Paths::locate(server.socket(), start_name, env)
}

/// Which daemon supervises a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// Ours: it has our mark.
    Ours,
    /// Another one that is running.
    Theirs(Mark),
}

/// Marks the session as ours, under its start name, unless another daemon follows
/// it under a former name. Of two daemons that try, one succeeds.
///
/// # Errors
///
/// When tmux fails, and when another daemon has control clients on the session although its lock is
/// not in our folders. Two daemons on one session would keep ending each
/// other's control clients.
pub(super) async fn claim(
    server: &Server,
    life: &SessionLife,
    name: &str,
) -> Result<Claim, TmuxError> {
    let ours = Mark {
        pid: std::process::id(),
        name: name.to_owned(),
    };
    let mut connection = Connection::OneShot(server);
    let mut mark = tmux::claim(&mut connection, life.id, None, &ours).await?;
    if mark != ours && (mark.name == name || !is_living(server, &mark)) {
        if is_supervised(server, life, mark.pid).await {
            return Err(TmuxError::OtherDaemon { pid: mark.pid });
        }
        // Left by a daemon that was killed.
        mark = tmux::claim(&mut connection, life.id, Some(&mark), &ours).await?;
    }
    Ok(if mark == ours {
        Claim::Ours
    } else {
        Claim::Theirs(mark)
    })
}

/// Whether the daemon with this mark still runs.
fn is_living(server: &Server, mark: &Mark) -> bool {
    paths_of(server, &mark.name).is_ok_and(|paths| lock::is_held_by(&paths.lock(), mark.pid))
}

/// Whether the daemon with this pid, whose lock is not in our folders, has control clients on the
/// session, or gets some within [`ATTACHES_WITHIN`].
async fn is_supervised(server: &Server, life: &SessionLife, daemon: u32) -> bool {
    let deadline = Instant::now() + ATTACHES_WITHIN;
    loop {
        if is_attached(server, life, daemon) {
            return true;
        }
        if !is_our_program(daemon) || Instant::now() >= deadline {
            return false;
        }
        sleep(ATTACHES_PAUSE).await;
    }
}

/// Whether this process has control clients on the session, as far as the system reports (Linux).
/// The clients of a daemon that was killed have another parent.
fn is_attached(server: &Server, life: &SessionLife, daemon: u32) -> bool {
    let clients = tmux::running_clients(server, life.id);
    clients.into_iter().any(|pid| parent(pid) == Some(daemon))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    fn session(id: u32, name: &str, mark: Option<(u32, &str)>) -> MarkedSession {
        let life = SessionLife {
            server_pid: 1,
            server_started: 1,
            id: SessionId(id),
            created: 1,
        };
        let mark = mark.map(|(pid, name)| Mark {
            pid,
            name: name.to_owned(),
        });
        MarkedSession {
            life,
            name: name.to_owned(),
            mark,
        }
    }

    /// Daemons with odd pids are running. `left` is the session whose state is in the folder of the
    /// name `work`, `kept` one whose state is in the folder of `first`. Returns which session is
    /// meant and its start name.
    #[track_caller]
    fn check(
        sessions: &[MarkedSession],
        (left, kept): (Option<u32>, Option<u32>),
        expected: (Option<&str>, &str),
    ) {
        let life = |id| session(id, "", None).life;
        let left = left.map(life);
        let kept = |life: &SessionLife| (Some(life.id.0) == kept).then(|| "first".to_owned());
        let resolved = choose(sessions, left.as_ref(), "work", kept, |mark| {
            mark.pid % 2 == 1
        });
        assert_eq!(
            (resolved.name.as_deref(), resolved.start_name.as_str()),
            expected
        );
    }

    #[test]
    fn a_name_stands_for_the_session_that_has_it_else_for_the_one_that_had_it() {
        check(&[], (None, None), (None, "work"));
        check(
            &[session(1, "other", None)],
            (Some(2), None),
            (None, "work"),
        );
        let plain = [session(1, "other", None), session(2, "work", None)];
        check(&plain, (None, None), (Some("work"), "work"));
        check(&plain, (Some(2), None), (Some("work"), "work"));
        check(&plain[..1], (Some(1), None), (Some("other"), "work"));
    }

    #[test]
    fn without_a_daemon_each_session_has_the_state_that_was_saved_of_it() {
        let swapped = [session(1, "other", None), session(2, "work", None)];
        check(&swapped, (Some(1), Some(2)), (Some("work"), "first"));
        check(&swapped, (None, Some(2)), (Some("work"), "first"));
        // A session without state gets a separate folder while the one that had the name first exists.
        check(&swapped, (Some(1), None), (Some("work"), "work:$2"));
        check(&swapped, (Some(3), None), (Some("work"), "work"));
        // The mark of a killed daemon is ignored.
        let left = [session(1, "work", Some((4, "second")))];
        check(&left, (Some(1), None), (Some("work"), "work"));
        check(&left, (None, Some(1)), (Some("work"), "first"));
    }

    #[test]
    fn a_session_that_is_supervised_is_asked_for_as_its_daemon_was() {
        // The first one was started as `work` and is `other` now.
        let swapped = |pids: [u32; 2]| {
            [
                session(1, "other", Some((pids[0], "work"))),
                session(2, "work", Some((pids[1], "other"))),
            ]
        };
        for left in [None, Some(1)] {
            check(&swapped([3, 5]), (left, None), (Some("work"), "other"));
            check(&swapped([4, 5]), (left, None), (Some("work"), "other"));
        }
        // The session with the name has no daemon.
        check(
            &swapped([3, 4]),
            (Some(1), Some(2)),
            (Some("work"), "first"),
        );
        let renamed = [session(1, "now", Some((3, "now")))];
        check(&renamed, (Some(1), None), (Some("now"), "now"));
    }
}
