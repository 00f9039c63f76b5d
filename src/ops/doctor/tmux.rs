//! The tmux program and its server.

use tokio::time::timeout;

use super::check::{LIMIT, fail, no_answer, ok, silent, warn};
use crate::model::with_causes;
use crate::process;
use crate::tmux::{Connection, Probe, Server, TmuxError, server_version};
use crate::wire::DoctorCheck;

/// A server that has this share of its descriptors open, in percent, is near its limit: each window
/// takes one or two.
const NEARLY_ALL: u64 = 80;

const INSTALL: &str = "install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX";

/// A check, and the version of tmux that it has found.
type Versioned = (DoctorCheck, Option<String>);

/// Checks program and server.
pub(super) async fn examine(server: Result<Server, TmuxError>) -> Vec<DoctorCheck> {
    let server = match server {
        Ok(server) => server,
        Err(error) => return vec![unusable(&with_causes(&error))],
    };
    let ((program, of_program), (running, of_server)) =
        tokio::join!(examine_program(&server), examine_server(&server));
    let mut checks = vec![program, running];
    if let (Some(program), Some(server)) = (of_program, of_server)
        && program != server
    {
        checks.push(warn(
            "server",
            format!("the server is tmux {server}, the program is tmux {program}"),
            "end the server when its sessions are done (`tmux kill-server`), or name the older \
             program with --tmux",
        ));
    }
    checks.extend(server.pid().and_then(scarce_descriptors));
    checks
}

async fn examine_program(server: &Server) -> Versioned {
    let program = server.program().display();
    let version = match timeout(LIMIT, server.version()).await {
        Ok(Ok(version)) => version,
        Ok(Err(error)) => {
            let message = format!("cannot run `{program}`: {}", with_causes(&error));
            return (fail("tmux", message, INSTALL), None);
        }
        Err(_elapsed) => return (no_answer("tmux"), None),
    };
    if !version.is_known() {
        let message = format!("`{program}` is not tmux: it prints no version");
        let hint = "name tmux 3.2 or newer with --tmux or $TMUX_TASK_TMUX";
        return (fail("tmux", message, hint), None);
    }
    if !version.is_supported() {
        let message = format!("tmux {version} is too old");
        return (fail("tmux", message, INSTALL), None);
    }
    (
        ok("tmux", format!("tmux {version}")),
        Some(version.to_string()),
    )
}

async fn examine_server(server: &Server) -> Versioned {
    let socket = server.socket().display();
    let absent = || {
        ok(
            "server",
            format!("none runs on {socket}; the first task starts one"),
        )
    };
    let does_not_answer = |pid| {
        let hint = "the cause is unknown; ask again when the machine is less busy";
        silent("server", "the tmux server", pid, |_| hint.to_owned())
    };
    let pid = server.pid();
    match server.probe() {
        Probe::Absent => return (absent(), None),
        Probe::Stuck => return (does_not_answer(None), None),
        Probe::Unknown(errno) => {
            return (
                unusable(&format!("{socket}: {}", with_causes(&errno))),
                None,
            );
        }
        Probe::Listening if pid.is_some_and(process::is_stopped) => {
            return (does_not_answer(pid), None);
        }
        Probe::Listening => {}
    }
    let mut connection = Connection::OneShot(server);
    match timeout(LIMIT, server_version(&mut connection)).await {
        Err(_) | Ok(Err(TmuxError::TimedOut)) => (does_not_answer(pid), None),
        Ok(Ok(version)) => {
            let pid = pid.map_or_else(|| "running".to_owned(), |pid| format!("pid {pid}"));
            let message = match &version {
                Some(version) => format!("{pid}, version {version}"),
                None => pid,
            };
            (ok("server", message), version)
        }
        // It has ended since.
        Ok(Err(error)) if error.is_missing() => (absent(), None),
        Ok(Err(error)) => (unusable(&with_causes(&error)), None),
    }
}

fn unusable(why: &str) -> DoctorCheck {
    let hint = "-L and -S name a server, as in tmux";
    fail("server", format!("cannot be used: {why}"), hint)
}

fn scarce_descriptors(pid: u32) -> Option<DoctorCheck> {
    let used = process::descriptors_of(pid)?;
    let (open, limit) = (used.open, used.limit?);
    let is_scarce = open.saturating_mul(100) >= limit.saturating_mul(NEARLY_ALL);
    is_scarce.then(|| {
        warn(
            "descriptors",
            format!("the tmux server has {open} of {limit} in use"),
            "close windows, or start the server with a higher limit (`ulimit -n`)",
        )
    })
}
