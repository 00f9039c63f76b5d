//! A session: its daemon, its hooks and the readers of its feed; and what happens to them when the
//! login ends.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::check::{LIMIT, fail, fail_without_hint, no_answer, ok, silent, warn};
use super::readers;
use crate::client::{DaemonClient, STOP_OLDER_DAEMON};
use crate::config;
use crate::daemon;
use crate::model::{Error, ErrorKind, Millis, SessionId, with_causes};
use crate::ops::session::TaskSession;
use crate::ops::{APPLY_CONFIG, lookup};
use crate::process;
use crate::rules::wire::{DaemonConfig, DaemonStatus, DoctorCheck, Request, SinkStatus};
use crate::tmux::{Connection, Probe, TmuxError, check_hooks, list_sessions};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is known of a session's daemon.
#[derive(Default)]
struct Supervisor {
    checks: Vec<DoctorCheck>,
    /// The pid of a daemon that listens.
    pid: Option<u32>,
    /// The sinks that it runs, if it answers.
    sinks: Option<Vec<SinkStatus>>,
}

/// Checks the session, if it can be said which one is meant.
pub(super) async fn examine(session: Result<TaskSession, Error>) -> Vec<DoctorCheck> {
    let mut session = match session {
        Ok(session) => session,
        Err(error) => {
            let hint = "only the machine was checked; the checks above may say why";
            let mut checks = vec![fail("session", with_causes(&error), hint)];
            checks.extend(examine_login(None, None).await);
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
    if supervisor.sinks.is_some() {
        checks.extend(hooks);
    }
    if supervisor.sinks.is_some() || supervisor.pid.is_none() {
        let sinks = supervisor.sinks.unwrap_or_default();
        checks.extend(readers::examine(&session, sinks).await);
    }
    checks.extend(examine_login(session.server.pid(), supervisor.pid).await);
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
    found.map(|found| found.life.id)
}

async fn examine_daemon(session: &TaskSession, exists: bool) -> Supervisor {
    let mut supervisor = Supervisor::default();
    let asked = timeout(LIMIT, async {
        let mut client = DaemonClient::connect(&session.paths.socket()).await?;
        supervisor.pid = client.pid();
        client.ask::<DaemonStatus>(&Request::Status).await
    });
    let check = match asked.await {
        Ok(Ok(status)) => {
            supervisor.checks.push(match &status.version {
                version if version == VERSION => {
                    ok("daemon", format!("pid {}, of this version", status.pid))
                }
                version => other_version(version),
            });
            let hint = "`tmux-task daemon status` shows when it is over, and the path of the log";
            let problems = status.problems.iter();
            let problems = problems.map(|problem| fail("daemon", problem, hint));
            supervisor.checks.extend(problems);
            let configuration = judge_config(status.config, status.started_at).await;
            supervisor.checks.extend(configuration);
            supervisor.sinks = Some(status.sinks);
            return supervisor;
        }
        Err(_elapsed) => silent("daemon", "the daemon", supervisor.pid, |pid| {
            format!(
                "`kill {pid}` ends it, and the next command starts another; nothing that was \
                 recorded is lost"
            )
        }),
        Ok(Err(error)) if matches!(error.kind, ErrorKind::NoDaemon | ErrorKind::DaemonEnded) => {
            without_daemon(session, exists)
        }
        Ok(Err(error)) if error.kind != ErrorKind::Version => {
            let hint = "`tmux-task daemon` in the foreground shows what keeps it from starting";
            fail("daemon", error.to_string(), hint)
        }
        Ok(Err(_)) => other_version("another version"),
    };
    supervisor.checks.push(check);
    supervisor
}

fn other_version(version: &str) -> DoctorCheck {
    let message = format!("is {version}, this program is {VERSION}");
    warn("daemon", message, STOP_OLDER_DAEMON)
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
    let message = match socket.symlink_metadata() {
        Ok(_) => format!("none runs; one that was killed left {shown}"),
        Err(_) if exists => "none runs: nothing is recorded".to_owned(),
        Err(_) => "none runs; the first task starts one".to_owned(),
    };
    match exists {
        true => warn(
            "daemon",
            message,
            "start one with `tmux-task daemon --detach`",
        ),
        false => ok("daemon", message),
    }
}

/// Without a daemon no hooks are expected.
async fn examine_hooks(session: &TaskSession, id: Option<SessionId>) -> Vec<DoctorCheck> {
    let Some(id) = id else { return Vec::new() };
    let mut connection = Connection::OneShot(&session.server);
    match timeout(LIMIT, check_hooks(&mut connection, id)).await {
        Ok(Ok(faults)) if faults.is_empty() => vec![ok("hooks", "in place")],
        Ok(Ok(faults)) => faults
            .into_iter()
            .map(|fault| warn("hooks", fault.message, fault.hint.unwrap_or_default()))
            .collect(),
        // The server is checked by itself.
        Ok(Err(_)) => Vec::new(),
        Err(_elapsed) => vec![no_answer("hooks")],
    }
}

/// It exists where systemd is the first process.
const SYSTEMD: &str = "/run/systemd/system";

/// The documentation of what survives a login.
const SERVICE: &str = "docs/service.md says how to run tmux-task as a service";

/// How long `loginctl` may take.
const LOGINCTL_LIMIT: Duration = Duration::from_secs(1);

/// What the system does when a login ends.
#[derive(Clone, Copy)]
struct Policy {
    /// `KillUserProcesses` of logind.
    kills_processes: bool,
    /// Whether the user's systemd stays when the last login ends.
    lingers: bool,
}

/// Checks the given processes, or what would be started from here.
async fn examine_login(server: Option<u32>, daemon: Option<u32>) -> Vec<DoctorCheck> {
    let here = server.or(daemon).is_none().then(std::process::id);
    let processes = [
        ("the tmux server, with all tasks,", server),
        ("the daemon", daemon),
        ("what is started here", here),
    ];
    let mut ends = Vec::new();
    if let Some(policy) = policy_of_logins().await {
        let judge = |(who, pid): (&str, Option<u32>)| {
            judge_logout(who, &process::control_group_of(pid?)?, policy)
        };
        ends.extend(processes.into_iter().filter_map(judge));
    }
    if ends.is_empty() {
        ends.push(ok("logout", "tasks survive the end of the login"));
    }
    ends
}

/// Returns whether a process of this control group ends with the login. Those of a login are in
/// `/user.slice/user-1000.slice/session-3.scope`, those of the user's own systemd in
/// `/user.slice/user-1000.slice/user@1000.service/...`, and others are services or containers.
fn judge_logout(who: &str, group: &str, policy: Policy) -> Option<DoctorCheck> {
    let has = |is_part: fn(&str) -> bool| group.split('/').any(is_part);
    if has(|part| part.starts_with("user@")) {
        return (!policy.lingers).then(|| {
            warn(
                "logout",
                format!("{who} ends with your last login"),
                format!("`loginctl enable-linger` keeps it; {SERVICE}"),
            )
        });
    }
    let is_of_login = has(|part| part.starts_with("session-") && part.ends_with(".scope"));
    (is_of_login && policy.kills_processes).then(|| {
        warn(
            "logout",
            format!("{who} ends with this login: systemd ends its processes (KillUserProcesses)"),
            format!("start tmux in a scope of its own; {SERVICE}"),
        )
    })
}

async fn policy_of_logins() -> Option<Policy> {
    if !Path::new(SYSTEMD).exists() {
        return None;
    }
    let uid = rustix::process::getuid().as_raw().to_string();
    // Without an argument: the properties of logind itself.
    let of_manager = ["show-user", "--property=KillUserProcesses"];
    let of_user = ["show-user", &uid, "--property=Linger"];
    let (manager, user) = tokio::join!(show_login(&of_manager), show_login(&of_user));
    Some(Policy {
        kills_processes: manager?.contains("KillUserProcesses=yes"),
        lingers: user?.contains("Linger=yes"),
    })
}

async fn show_login(args: &[&str]) -> Option<String> {
    let asked = tokio::process::Command::new("loginctl")
        .args(args)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(LOGINCTL_LIMIT, asked).await.ok()?.ok()?;
    let is_success = output.status.success();
    is_success.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_with_the_login_is_reported() {
        let of_login = "/user.slice/user-1000.slice/session-3.scope";
        let of_manager = "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope";
        let with_this_login = "the daemon ends with this login";
        for (group, kills_processes, lingers, expected) in [
            (of_login, false, false, None),
            // Lingering keeps the user's systemd only.
            (of_login, true, true, Some(with_this_login)),
            (of_manager, true, true, None),
            (of_manager, false, false, Some("with your last login")),
            ("/system.slice/cron.service", true, false, None),
            ("/", true, false, None),
        ] {
            let policy = Policy {
                kills_processes,
                lingers,
            };
            let found = judge_logout("the daemon", group, policy);
            let message = found.map(|found| found.message);
            assert_eq!(message.is_some(), expected.is_some(), "{group}");
            let message = message.unwrap_or_default();
            assert!(message.contains(expected.unwrap_or_default()), "{message}");
        }
    }
}
