//! The tmux program and its server.

use super::time_limit::{LIMIT, within};
use super::{Check, Finding, Subject};
use crate::model::with_causes;
use crate::process;
use crate::tmux::{Connection, Probe, Server, TmuxError, server_version};

/// A server that has this share of its descriptors open, in percent, is near its limit: each window
/// takes one or two.
const NEARLY_ALL: u64 = 80;

/// Checks program and server; the server is `None` where it is not known which one is meant.
pub(super) async fn examine(server: Option<&Server>) -> Vec<Check> {
    let Some(server) = server else {
        return Vec::new();
    };
    let (program, running) = tokio::join!(examine_program(server), examine_server(server));
    let differs = other_version(&running, &program);
    let scarce = server.pid().and_then(scarce_descriptors);
    let mut checks = vec![program.of(Subject::Tmux), running.of(Subject::Server)];
    checks.extend(differs.map(|finding| finding.of(Subject::Server)));
    checks.extend(scarce.map(|finding| finding.of(Subject::Descriptors)));
    checks
}

fn other_version(server: &Finding, program: &Finding) -> Option<Finding> {
    if let Finding::Server {
        version: Some(server),
        ..
    } = server
        && let Finding::Tmux { version: program } = program
        && server != program
    {
        return Some(Finding::ServerOfOtherVersion {
            server: server.clone(),
            program: program.clone(),
        });
    }
    None
}

async fn examine_program(server: &Server) -> Finding {
    let program = server.program().to_owned();
    match within(LIMIT, server.version()).await {
        Err(finding) => finding,
        Ok(Err(error)) => Finding::TmuxMissing {
            program,
            why: with_causes(&error),
        },
        Ok(Ok(version)) if !version.is_known() => Finding::NotTmux { program },
        Ok(Ok(version)) if !version.is_supported() => Finding::TmuxTooOld {
            version: version.to_string(),
        },
        Ok(Ok(version)) => Finding::Tmux {
            version: version.to_string(),
        },
    }
}

async fn examine_server(server: &Server) -> Finding {
    let silent = |pid: Option<u32>| Finding::ServerSilent {
        pid,
        is_stopped: pid.is_some_and(process::is_stopped),
    };
    match server.probe() {
        Probe::Absent => {
            return Finding::NoServer {
                socket: server.socket().to_owned(),
            };
        }
        Probe::Stuck => return silent(None),
        Probe::Unknown(errno) => {
            return Finding::ServerRefuses {
                why: format!("{}: {}", server.socket().display(), with_causes(&errno)),
            };
        }
        Probe::Listening => {}
    }
    let pid = server.pid();
    if pid.is_some_and(process::is_stopped) {
        return silent(pid);
    }
    let mut connection = Connection::OneShot(server);
    match within(LIMIT, server_version(&mut connection)).await {
        Err(_) | Ok(Err(TmuxError::TimedOut)) => silent(pid),
        Ok(Ok(version)) => Finding::Server { pid, version },
        // It has ended since.
        Ok(Err(error)) if error.is_missing() => Finding::NoServer {
            socket: server.socket().to_owned(),
        },
        Ok(Err(error)) => Finding::ServerRefuses {
            why: with_causes(&error),
        },
    }
}

fn scarce_descriptors(pid: u32) -> Option<Finding> {
    let used = process::descriptors_of(pid)?;
    let limit = used.limit?;
    let is_scarce = used.open.saturating_mul(100) >= limit.saturating_mul(NEARLY_ALL);
    is_scarce.then_some(Finding::ServerDescriptors {
        open: used.open,
        limit,
    })
}
