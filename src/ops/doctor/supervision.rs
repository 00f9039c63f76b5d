//! A session: its daemon, its hooks and the readers of its feed; and what happens to them when the
//! login ends.

use tokio::time::timeout;

use super::check::{LIMIT, fail, fail_without_hint, no_answer, ok, silent, warn};
use super::{login, readers};
use crate::client::{DaemonClient, STOP_OLDER_DAEMON};
use crate::config;
use crate::daemon;
use crate::model::{Error, ErrorKind, Millis, SessionId, with_causes};
use crate::ops::APPLY_CONFIG;
use crate::ops::lookup;
use crate::ops::session::{TaskSession, is_autostart_forbidden};
use crate::process;
use crate::tmux::{Connection, Probe, TmuxError, check_hooks, list_sessions};
use crate::wire::{DaemonConfig, DaemonStatus, DoctorCheck, Request, Response, SinkStatus};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is known of a session's daemon.
#[derive(Default)]
struct Supervisor {
    checks: Vec<DoctorCheck>,
    /// The pid of a daemon that listens.
    pid: Option<u32>,
    answers: bool,
    /// The sinks that it runs.
    sinks: Vec<SinkStatus>,
}

/// Checks the session, if it can be said which one is meant.
pub(super) async fn examine(session: Result<TaskSession, Error>) -> Vec<DoctorCheck> {
    let mut session = match session {
        Ok(session) => session,
        Err(error) => {
            let hint = "only the machine was checked; the checks above may say why";
            let mut checks = vec![fail("session", with_causes(&error), hint)];
            checks.extend(login::examine(None, None).await);
            return checks;
        }
    };
    // What it fails with is found again below.
    drop(timeout(LIMIT, session.resolve_name()).await);
    let id = session_id(&session).await;
    let (supervisor, hooks) = tokio::join!(
        examine_daemon(&session, id.is_some()),
        examine_hooks(&session, id)
    );
    let name = &session.name;
    let mut checks = vec![match id {
        Some(_) => ok("session", format!("`{name}`")),
        None => ok(
            "session",
            format!("`{name}` does not exist; its first task creates it"),
        ),
    }];
    checks.extend(supervisor.checks);
    if supervisor.answers {
        checks.extend(hooks);
    }
    if supervisor.answers || supervisor.pid.is_none() {
        checks.extend(readers::examine(&session, supervisor.sinks).await);
    }
    checks.extend(login::examine(session.server.pid(), supervisor.pid).await);
    checks
}

/// Returns the id of the session; `None` where it does not exist or tmux does not answer.
async fn session_id(session: &TaskSession) -> Option<SessionId> {
    let mut connection = Connection::OneShot(&session.server);
    let listens = matches!(session.server.probe(), Probe::Listening);
    // Its pid is known on Linux only.
    if !listens || session.server.pid().is_some_and(process::is_stopped) {
        return None;
    }
    let listed = timeout(LIMIT, list_sessions(&mut connection)).await.ok()?;
    let found = listed
        .ok()?
        .into_iter()
        .find(|found| found.name == session.name);
    found.map(|found| found.id)
}

async fn examine_daemon(session: &TaskSession, exists: bool) -> Supervisor {
    let mut supervisor = Supervisor::default();
    let status = match timeout(LIMIT, DaemonClient::connect(&session.paths.socket())).await {
        Ok(Ok(mut client)) => {
            supervisor.pid = client.pid();
            ask_status(&mut client).await
        }
        Ok(Err(error)) if error.kind == ErrorKind::NoDaemon => Err(None),
        Ok(Err(error)) => Err(Some(refuses(&error))),
        Err(_elapsed) => Err(Some(does_not_answer(None))),
    };
    match status {
        Ok(status) => {
            supervisor.answers = true;
            supervisor.checks = judge_status(&status);
            supervisor
                .checks
                .extend(judge_config(status.config, status.started_at).await);
            supervisor.sinks = status.sinks;
        }
        Err(Some(check)) => supervisor.checks.push(check),
        Err(None) => supervisor.checks.push(without_daemon(session, exists)),
    }
    supervisor
}

/// Returns what the daemon reports of itself, else what keeps it from answering: `None` where it has
/// ended.
async fn ask_status(client: &mut DaemonClient) -> Result<Box<DaemonStatus>, Option<DoctorCheck>> {
    let pid = client.pid();
    if pid.is_some_and(process::is_stopped) {
        return Err(Some(does_not_answer(pid)));
    }
    let Ok(answer) = timeout(LIMIT, client.ask(&Request::Status)).await else {
        return Err(Some(does_not_answer(pid)));
    };
    Err(match answer {
        Ok(Response::Status(status)) => return Ok(status),
        Err(error) if error.kind == ErrorKind::DaemonEnded => None,
        Err(error) if error.kind != ErrorKind::Version => Some(refuses(&error)),
        Ok(_) | Err(_) => Some(other_version("another version", STOP_OLDER_DAEMON)),
    })
}

fn does_not_answer(pid: Option<u32>) -> DoctorCheck {
    silent("daemon", "the daemon", pid, |pid| {
        format!(
            "`kill {pid}` ends it, and the next command starts another; nothing that was recorded \
             is lost"
        )
    })
}

fn refuses(error: &Error) -> DoctorCheck {
    let hint = "`tmux-task daemon` in the foreground shows what keeps it from starting";
    fail("daemon", error.to_string(), hint)
}

fn other_version(version: &str, hint: &str) -> DoctorCheck {
    let message = format!("is {version}, this program is {VERSION}");
    warn("daemon", message, hint)
}

fn judge_status(status: &DaemonStatus) -> Vec<DoctorCheck> {
    let version = &status.version;
    let mut checks = vec![if version == VERSION {
        ok("daemon", format!("pid {}, of this version", status.pid))
    } else {
        other_version(version, STOP_OLDER_DAEMON)
    }];
    let hint = "`tmux-task daemon status` shows when it is over, and the path of the log";
    let problems = status.problems.iter();
    checks.extend(problems.map(|problem| fail("daemon", problem, hint)));
    checks
}

/// Checks whether the daemon, which has started at this time, has the present configuration. That this one
/// cannot be read is another check's finding.
async fn judge_config(of_daemon: DaemonConfig, started_at: Millis) -> Option<DoctorCheck> {
    let show = tokio::task::spawn_blocking(|| config::show(&lookup));
    let Ok(Ok(Ok(here))) = timeout(LIMIT, show).await else {
        return None;
    };
    if here.path() != of_daemon.file {
        let shown = |file: Option<String>| file.unwrap_or_else(|| "none".to_owned());
        return Some(warn(
            "daemon",
            format!(
                "the daemon has read the configuration {}, here it is {}",
                shown(of_daemon.file),
                shown(here.path())
            ),
            "compare $TMUX_TASK_CONFIG and $XDG_CONFIG_HOME; after `tmux-task daemon stop` the \
             next command starts a daemon with its own",
        ));
    }
    here.is_later_than(of_daemon.exists, started_at).then(|| {
        warn(
            "daemon",
            "the configuration was changed after the daemon had read it",
            APPLY_CONFIG,
        )
    })
}

fn without_daemon(session: &TaskSession, exists: bool) -> DoctorCheck {
    let socket = session.paths.socket();
    let shown = socket.display();
    if let Some(pid) = daemon::held_elsewhere(&session.paths) {
        // The error contains what to do.
        return fail_without_hint("daemon", TmuxError::OtherDaemon { pid }.to_string());
    }
    if daemon::is_held(&session.paths.lock()) || daemon::is_held(&session.paths.state_lock()) {
        return fail(
            "daemon",
            format!("one runs and does not listen on {shown}"),
            "it is starting or stopping, or its socket was deleted: then it makes another within \
             seconds; ask again",
        );
    }
    if socket.symlink_metadata().is_ok() {
        let message = format!("none runs; one that was killed left {shown}");
        if !exists {
            return ok("daemon", message);
        }
        let hint = "start one with `tmux-task daemon --detach`; it replaces the socket";
        return warn("daemon", message, hint);
    }
    if !exists {
        return ok("daemon", "none runs; the first task starts one");
    }
    let hint = if is_autostart_forbidden() {
        "start one with `tmux-task daemon --detach`: $TMUX_TASK_NO_AUTOSTART keeps commands from \
         doing so"
    } else {
        "start one with `tmux-task daemon --detach`; `run`, `wait` and `feed --follow` do so, too"
    };
    warn("daemon", "none runs: nothing is recorded", hint)
}

/// Without a daemon no hooks are expected.
async fn examine_hooks(session: &TaskSession, id: Option<SessionId>) -> Vec<DoctorCheck> {
    let Some(id) = id else { return Vec::new() };
    let mut connection = Connection::OneShot(&session.server);
    match timeout(LIMIT, check_hooks(&mut connection, id)).await {
        Ok(Ok(faults)) if faults.is_empty() => vec![ok("hooks", "in place")],
        Ok(Ok(faults)) => faults
            .into_iter()
            .map(|fault| warn("hooks", fault.message, fault.hint))
            .collect(),
        // The server is checked by itself.
        Ok(Err(_)) => Vec::new(),
        Err(_elapsed) => vec![no_answer("hooks")],
    }
}
