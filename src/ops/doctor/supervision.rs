//! A session: its daemon, its hooks and the readers of its feed; and what happens to them when the
//! login ends.

use super::time_limit::{LIMIT, within};
use super::{Check, Finding, Subject, login, readers};
use crate::client::{Client, ClientError};
use crate::config::{self, PendingSetting};
use crate::daemon;
use crate::model::{SessionId, with_causes};
use crate::ops::error::OpsError;
use crate::ops::lookup;
use crate::ops::session::{Session, is_autostart_forbidden};
use crate::ops::state_folders::{FolderUse, StateFolder, state_folders};
use crate::process;
use crate::tmux::{Connection, Probe, check_hooks, list_sessions};
use crate::wire::{
    DaemonConfig, DaemonStatus, RefusalKind, Request, Response, SinkStatus, is_older,
};

/// State folders of sessions that are gone are worth a word from this size on, in bytes.
const MUCH: u64 = 1 << 30;

/// What is known of a session's daemon.
struct Supervisor {
    findings: Vec<Finding>,
    /// The pid of a daemon that listens.
    pid: Option<u32>,
    answers: bool,
    /// The sinks that it runs.
    sinks: Vec<SinkStatus>,
}

/// Checks the session, if it can be said which one is meant.
pub(super) async fn examine(session: Result<Session, OpsError>) -> Vec<Check> {
    let mut session = match session {
        Ok(session) => session,
        Err(error) => {
            let why = with_causes(&error);
            let mut checks = vec![Finding::SessionUnknown { why }.of(Subject::Session)];
            let survives = login::examine(None, None).await;
            checks.extend(survives.into_iter().map(|f| f.of(Subject::Logout)));
            return checks;
        }
    };
    // What it fails with is found again below.
    drop(within(LIMIT, session.resolve_name()).await);
    let id = session_id(&session).await;
    let (supervisor, hooks) = tokio::join!(
        examine_daemon(&session, id.is_some()),
        examine_hooks(&session, id)
    );
    let name = session.name.clone();
    let exists = match id {
        Some(_) => Finding::Session { name },
        None => Finding::NoSession { name },
    };
    let mut checks = vec![exists.of(Subject::Session)];
    checks.extend(
        supervisor
            .findings
            .into_iter()
            .map(|f| f.of(Subject::Daemon)),
    );
    if supervisor.answers && id.is_some() {
        checks.extend(hooks.into_iter().map(|f| f.of(Subject::Hooks)));
    }
    if supervisor.answers || supervisor.pid.is_none() {
        checks.extend(readers::examine(&session, supervisor.sinks).await);
    }
    let leftovers = examine_leftovers(&session).await;
    checks.extend(leftovers.map(|finding| finding.of(Subject::Leftovers)));
    let survives = login::examine(session.server.pid(), supervisor.pid).await;
    checks.extend(survives.into_iter().map(|f| f.of(Subject::Logout)));
    checks
}

/// Returns the id of the session; `None` where it does not exist or tmux does not answer.
async fn session_id(session: &Session) -> Option<SessionId> {
    let mut connection = Connection::OneShot(&session.server);
    let listens = matches!(session.server.probe(), Probe::Listening);
    // Its pid is known on Linux only.
    if !listens || session.server.pid().is_some_and(process::is_stopped) {
        return None;
    }
    let listed = within(LIMIT, list_sessions(&mut connection)).await.ok()?;
    let found = listed
        .ok()?
        .into_iter()
        .find(|found| found.name == session.name);
    found.map(|found| found.id)
}

async fn examine_daemon(session: &Session, exists: bool) -> Supervisor {
    let path = session.paths.socket();
    let absent = |finding| Supervisor {
        findings: vec![finding],
        pid: None,
        answers: false,
        sinks: Vec::new(),
    };
    let mut client = match within(LIMIT, Client::connect(&path)).await {
        Ok(Ok(client)) => client,
        Ok(Err(ClientError::NoDaemon)) => return absent(without_daemon(session, exists)),
        Ok(Err(error)) => {
            return absent(Finding::DaemonRefuses {
                why: with_causes(&error),
            });
        }
        Err(_) => {
            return absent(Finding::DaemonSilent {
                pid: None,
                is_stopped: false,
            });
        }
    };
    let pid = client.pid();
    let is_stopped = pid.is_some_and(process::is_stopped);
    let silent = Finding::DaemonSilent { pid, is_stopped };
    let other = Finding::DaemonOfOtherVersion {
        version: None,
        is_newer: false,
    };
    let mut sinks = Vec::new();
    let (findings, answers) = if is_stopped {
        (vec![silent], false)
    } else {
        match within(LIMIT, client.ask(&Request::Status)).await {
            Err(_) => (vec![silent], false),
            Ok(Ok(Response::Status(status))) => {
                let mut findings = judge_status(&status);
                findings.extend(judge_config(status.config).await);
                sinks = status.sinks;
                (findings, true)
            }
            Ok(Err(ClientError::Refused(refusal))) if refusal.kind == RefusalKind::Version => {
                (vec![other], false)
            }
            Ok(Ok(_) | Err(ClientError::Answer { .. } | ClientError::Unexpected)) => {
                (vec![other], false)
            }
            // It ended when it was asked.
            Ok(Err(ClientError::Left)) => (vec![without_daemon(session, exists)], false),
            Ok(Err(error)) => (
                vec![Finding::DaemonRefuses {
                    why: with_causes(&error),
                }],
                false,
            ),
        }
    };
    Supervisor {
        findings,
        pid,
        answers,
        sinks,
    }
}

/// Compares the configuration that the daemon has with the present one. That this one cannot be read
/// is another check's finding.
async fn judge_config(of_daemon: Option<DaemonConfig>) -> Vec<Finding> {
    let Some(of_daemon) = of_daemon else {
        return Vec::new();
    };
    let show = tokio::task::spawn_blocking(|| config::show(&lookup));
    let Ok(Ok(Ok(here))) = within(LIMIT, show).await else {
        return Vec::new();
    };
    let pending = config::pending_settings(&here.comparables(), &of_daemon.settings);
    let (changed, removed): (Vec<_>, Vec<_>) = pending.into_iter().partition(|one| one.is_set);
    let keys = |settings: Vec<PendingSetting>| settings.into_iter().map(|one| one.key).collect();
    let mut findings = Vec::new();
    if here.path() != of_daemon.file {
        findings.push(Finding::OtherConfigurationFile {
            of_daemon: of_daemon.file,
            here: here.path(),
        });
    }
    if !(changed.is_empty() && removed.is_empty()) {
        findings.push(Finding::OtherConfiguration {
            changed: keys(changed),
            removed: keys(removed),
        });
    }
    findings
}

fn judge_status(status: &DaemonStatus) -> Vec<Finding> {
    let mut findings = vec![if status.version == env!("CARGO_PKG_VERSION") {
        Finding::Daemon { pid: status.pid }
    } else {
        Finding::DaemonOfOtherVersion {
            version: Some(status.version.clone()),
            is_newer: is_older(env!("CARGO_PKG_VERSION"), &status.version),
        }
    }];
    let problems = status.problems.iter().cloned();
    findings.extend(problems.map(Finding::DaemonProblem));
    findings
}

fn without_daemon(session: &Session, exists: bool) -> Finding {
    let socket = session.paths.socket();
    if daemon::is_held(&session.paths.lock()) || daemon::is_held(&session.paths.state_lock()) {
        return Finding::DaemonUnreachable { socket };
    }
    if socket.symlink_metadata().is_ok() {
        return Finding::StaleSocket {
            path: socket,
            is_needed: exists,
        };
    }
    if !exists {
        return Finding::NoDaemonNeeded;
    }
    Finding::NoDaemon {
        is_forbidden: is_autostart_forbidden(),
    }
}

/// Without a daemon no hooks are expected.
async fn examine_hooks(session: &Session, id: Option<SessionId>) -> Vec<Finding> {
    let Some(id) = id else { return Vec::new() };
    let mut connection = Connection::OneShot(&session.server);
    match within(LIMIT, check_hooks(&mut connection, id)).await {
        Err(finding) => vec![finding],
        Ok(Ok(faults)) if faults.is_empty() => vec![Finding::Hooks],
        Ok(Ok(faults)) => faults.into_iter().map(Finding::HookFault).collect(),
        // The server is checked by itself.
        Ok(Err(_)) => Vec::new(),
    }
}

/// What cannot be found out is another check's finding.
async fn examine_leftovers(session: &Session) -> Option<Finding> {
    if session.server.pid().is_some_and(process::is_stopped) {
        return None;
    }
    let all = within(LIMIT, state_folders(session)).await.ok()?.ok()?;
    let gone = |folder: &&StateFolder| match folder.use_of_it {
        FolderUse::None | FolderUse::Unread => true,
        FolderUse::Daemon
        | FolderUse::Session
        | FolderUse::OtherServer(_)
        | FolderUse::Unknown(_) => false,
    };
    let gone: Vec<&StateFolder> = all.iter().filter(gone).collect();
    let bytes = gone.iter().map(|folder| folder.bytes).sum();
    let folders = gone.len();
    Some(if bytes >= MUCH {
        Finding::LargeLeftovers { folders, bytes }
    } else {
        Finding::Leftovers { folders }
    })
}
