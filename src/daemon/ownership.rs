//! Which daemon has a session that goes by more than one name.
//!
//! A daemon is found by the name that it was asked for, and follows its session through renames.
//! So a session can be asked for by its present name while it is supervised by an earlier one: the
//! mark that the daemon left on it says which.

use super::lock;
use crate::feed::load_saved;
use crate::model::SessionLife;
use crate::paths::{Env, Paths};
use crate::tmux::{self, Connection, Mark, Marked, Probe, Server, TmuxError};

/// What a name stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meant {
    /// The name that the session has now; `None` when there is no such session.
    pub name: Option<String>,
    /// Which life of it.
    pub life: Option<SessionLife>,
    /// The daemon that supervises it under another name than this.
    pub supervisor: Option<Mark>,
    /// Whether the session was renamed and another one, which no daemon supervises, has the name that
    /// was given.
    pub is_ambiguous: bool,
}

/// Asks tmux once what the name stands for: the session that the last daemon of this name left in
/// its `paths`, through renames, else the one that has the name.
///
/// # Errors
///
/// When tmux fails. A server that is not there has no sessions.
pub async fn meant(server: &Server, paths: Option<&Paths>, name: &str) -> Result<Meant, TmuxError> {
    if server.probe() == Probe::Absent {
        return Ok(Meant::default());
    }
    let sessions = tmux::list_marks(&mut Connection::OneShot(server)).await?;
    let saved = paths.and_then(|paths| load_saved(&paths.saved()));
    let saved = saved.and_then(|saved| saved.to_snapshot().ok());
    let life = saved.and_then(|snapshot| snapshot.life);
    Ok(choose(&sessions, life.as_ref(), name, |mark| {
        is_living(server, mark)
    }))
}

fn choose(
    sessions: &[Marked],
    life: Option<&SessionLife>,
    name: &str,
    is_living: impl Fn(&Mark) -> bool,
) -> Meant {
    let named = sessions.iter().find(|session| session.name == name);
    let mut left = sessions.iter().find(|session| Some(&session.life) == life);
    if is_supervised(named, &is_living) && left.is_some_and(|left| left.name != name) {
        // Of two sessions that are supervised, a name means the one that has it now.
        left = None;
    }
    let Some(found) = left.or(named) else {
        return Meant::default();
    };
    let elsewhere = |mark: &&Mark| mark.name != name && is_living(mark);
    Meant {
        name: Some(found.name.clone()),
        life: Some(found.life.clone()),
        supervisor: found.mark.as_ref().filter(elsewhere).cloned(),
        is_ambiguous: named.is_some_and(|named| named.life != found.life),
    }
}

/// Whether a living daemon has marked the session, by whatever name it was asked for.
fn is_supervised(session: Option<&Marked>, is_living: impl Fn(&Mark) -> bool) -> bool {
    let mark = session.and_then(|session| session.mark.as_ref());
    mark.is_some_and(is_living)
}

/// Returns the name by which another daemon than ours supervises the session that has this name,
/// where there is one: of all `sessions` it is not the one with our `life`.
pub(super) fn supervised_elsewhere(
    server: &Server,
    sessions: &[Marked],
    life: &SessionLife,
    name: &str,
) -> Option<String> {
    let mut others = sessions.iter().filter(|session| session.life != *life);
    let mark = others.find(|session| session.name == name)?.mark.as_ref()?;
    is_living(server, mark).then(|| mark.name.clone())
}

/// Whose a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    /// It bears our mark.
    Ours,
    /// It bears that of another daemon, which lives.
    Theirs(Mark),
}

/// Marks the session as ours, as the one that was asked for by this name, unless another daemon
/// follows it by a name that it had. Of two that try, one has it.
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
    let mut bears = tmux::claim(&mut connection, life.id, None, &ours).await?;
    if bears != ours && (bears.name == name || !is_living(server, &bears)) {
        // A daemon that was killed left it.
        bears = tmux::claim(&mut connection, life.id, Some(&bears), &ours).await?;
    }
    Ok(if bears == ours {
        Claim::Ours
    } else {
        Claim::Theirs(bears)
    })
}

/// Whether the daemon that left this mark still runs.
fn is_living(server: &Server, mark: &Mark) -> bool {
    let env: Env<'_> = &|name| std::env::var_os(name);
    Paths::locate(server.socket(), &mark.name, env)
        .is_ok_and(|paths| lock::is_held_by(&paths.lock(), mark.pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    fn session(id: u32, name: &str, mark: Option<(u32, &str)>) -> Marked {
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
        Marked {
            life,
            name: name.to_owned(),
            mark,
        }
    }

    /// Daemons with odd numbers live. Tells the present name, who supervises it, and whether the
    /// name is another session's as well.
    #[track_caller]
    fn check(sessions: &[Marked], left: Option<u32>, told: (Option<&str>, Option<&str>, bool)) {
        let life = left.map(|id| session(id, "", None).life);
        let meant = choose(sessions, life.as_ref(), "work", |mark| mark.pid % 2 == 1);
        let supervisor = meant.supervisor.map(|mark| mark.name);
        assert_eq!(
            (
                meant.name.as_deref(),
                supervisor.as_deref(),
                meant.is_ambiguous
            ),
            told
        );
    }

    #[test]
    fn a_name_stands_for_what_its_daemon_left_or_for_what_has_it() {
        check(&[], None, (None, None, false));
        check(&[session(1, "other", None)], Some(2), (None, None, false));
        let plain = [session(1, "other", None), session(2, "work", None)];
        check(&plain, None, (Some("work"), None, false));
        check(&plain, Some(2), (Some("work"), None, false));
        check(&plain, Some(1), (Some("other"), None, true));
        check(&plain[..1], Some(1), (Some("other"), None, false));
    }

    #[test]
    fn of_two_supervised_sessions_that_swapped_names_each_is_found_by_the_one_it_has() {
        // The first was asked for as `work` and is `other` now.
        let swapped = |pids: [u32; 2]| {
            [
                session(1, "other", Some((pids[0], "work"))),
                session(2, "work", Some((pids[1], "other"))),
            ]
        };
        for left in [None, Some(1)] {
            check(&swapped([3, 5]), left, (Some("work"), Some("other"), false));
            check(&swapped([4, 5]), left, (Some("work"), Some("other"), false));
        }
        // Nobody supervises the one that has the name.
        check(&swapped([3, 4]), Some(1), (Some("other"), None, true));
    }

    #[test]
    fn only_a_living_daemon_of_another_name_supervises_it_elsewhere() {
        let told = |mark| [session(1, "work", Some(mark))];
        check(
            &told((3, "first")),
            None,
            (Some("work"), Some("first"), false),
        );
        check(&told((4, "first")), None, (Some("work"), None, false));
        check(&told((3, "work")), None, (Some("work"), None, false));
        let renamed = [session(1, "now", Some((3, "now")))];
        check(&renamed, Some(1), (Some("now"), Some("now"), false));
    }
}
