//! The control clients of a session's daemon, also those of one that was killed.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::client::Connection;
use super::connected_client::daemon_of;
use super::error::TmuxError;
use super::hooks::{CLIENTS, is_alive};
use super::nudge::process;
use super::server::Server;
use crate::files::PROC;
use crate::model::SessionId;
use crate::protocol::Command;

/// How long to wait until clients that were left behind are gone, and between two looks.
const LEAVING: Duration = Duration::from_secs(2);
const LEAVING_PAUSE: Duration = Duration::from_millis(5);

/// Stores the control clients of the session's daemon, for a successor in case it is killed.
///
/// # Errors
///
/// When tmux refuses.
pub(crate) async fn own_clients(
    connection: &mut Connection<'_>,
    session: SessionId,
    pids: &[u32],
) -> Result<(), TmuxError> {
    let ours: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let target = format!("{session}:");
    let store = Command::new("set-option").args(["-t", &target, CLIENTS, &ours.join(" ")]);
    connection.run(&[store]).await.map(drop)
}

/// Ends the control clients that a daemon of the session has left behind which does not run any more,
/// except `ours`, and waits until they are gone, at most for [`LEAVING`]. To be called before a control client attaches:
/// tmux up to 3.5a crashes when a client detaches while a control client connects. tmux can also
/// keep a client whose daemon was killed, and itself with it, for ever.
///
/// # Errors
///
/// When tmux refuses.
pub(crate) async fn end_clients_left_behind(
    server: &Server,
    connection: &mut Connection<'_>,
    session: SessionId,
    ours: &[u32],
) -> Result<(), TmuxError> {
    let target = format!("{session}:");
    let commands = [
        Command::new("show-options").args(["-qv", "-t", &target, CLIENTS]),
        Command::new("list-clients").args(["-F", "#{pid} #{client_pid}"]),
    ];
    let deadline = Instant::now() + LEAVING;
    let mut ended = BTreeSet::new();
    loop {
        // The processes first: when one is gone, the server has its end before our commands. One
        // that leaves is not listed any more.
        let mut leaving = running_clients(server, Some(session));
        leaving.retain(|pid| !ours.contains(pid) && !has_daemon(*pid));
        let frames = connection.run(&commands).await?;
        if let [stored, listed] = &frames[..] {
            let listed = listed_pids(&listed.text(), server.pid());
            let is_gone = |pid| !is_alive(pid);
            leaving.extend(left_behind(
                &stored.text(),
                &listed,
                ours,
                is_gone,
                has_daemon,
            ));
        }
        if leaving.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            tracing::warn!(?leaving, "control clients do not leave tmux");
            return Ok(());
        }
        for pid in leaving {
            if ended.insert(pid) && is_control_client(server, pid) {
                end_client(pid);
            }
        }
        sleep(LEAVING_PAUSE).await;
    }
}

/// Ends the control clients of killed daemons of any session. To be called when a server listens and
/// serves nobody: one that ends waits for ever for a client whose daemon was killed before it had read
/// all that tmux had written to it.
pub(super) fn let_server_end(server: &Server) {
    for pid in running_clients(server, None) {
        if !has_daemon(pid) {
            end_client(pid);
        }
    }
}

/// Returns the running control clients of our user that were started as a daemon of this session, or of
/// any, starts them, as far as the system lists processes (Linux). A daemon that was killed while it
/// attached has not stored them.
pub(crate) fn running_clients(server: &Server, session: Option<SessionId>) -> BTreeSet<u32> {
    let Ok(processes) = std::fs::read_dir(PROC) else {
        return BTreeSet::new();
    };
    let uid = rustix::process::geteuid().as_raw();
    let is_running_client = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let is_client = server.is_control_client(&line, session);
        (is_client && entry.metadata().ok()?.uid() == uid && sees_socket(server, pid))
            .then_some(pid)
    };
    processes
        .filter_map(|entry| is_running_client(entry.ok()?))
        .collect()
}

/// Whether the path of the server's socket is the same file to this process as to us. In another mount
/// namespace (a container, `PrivateTmp=`) it can be the socket of another server.
fn sees_socket(server: &Server, pid: u32) -> bool {
    let socket = server.socket();
    let inside = socket.strip_prefix("/").unwrap_or(socket);
    let theirs = Path::new(PROC).join(pid.to_string()).join("root");
    let (Ok(ours), Ok(theirs)) = (socket.metadata(), theirs.join(inside).metadata()) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
}

/// Whether the daemon that has started this client still runs, as far as the system reports (Linux): it
/// is the client's parent. The pid in the client's command line is that of the daemon's own namespace.
fn has_daemon(pid: u32) -> bool {
    let line = std::fs::read(format!("{PROC}/{pid}/cmdline")).unwrap_or_default();
    let daemon = daemon_of(&line);
    let parent = status_field(pid, "PPid:").and_then(|field| field.parse().ok());
    let parent = parent.and_then(|parent: u32| innermost_pid(parent));
    daemon.is_some() && daemon == parent
}

/// Returns a process's pid in the innermost namespace that it is in.
fn innermost_pid(pid: u32) -> Option<u32> {
    let pids = status_field(pid, "NSpid:");
    let innermost = pids
        .as_deref()
        .and_then(|pids| pids.split_whitespace().last());
    innermost.map_or(Some(pid), |innermost| innermost.parse().ok())
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("{PROC}/{pid}/status")).ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(field.trim().to_owned())
}

/// Returns the pids of the clients that the server lists; none if it is in another namespace of pids
/// than we are, because they mean other processes then. `server` is its pid as the kernel says it to
/// us.
fn listed_pids(listed: &str, server: Option<u32>) -> Vec<u32> {
    let row = |line: &str| {
        let (own, client) = line.split_once(' ')?;
        let own: u32 = own.parse().ok()?;
        let is_same = server.is_none_or(|server| server == own);
        is_same.then_some(client.parse().ok()?)
    };
    listed.lines().filter_map(row).collect()
}

/// Returns the clients among `listed` that were stored by a daemon which does not run any more, or that
/// have no process any more. `ours` are not included.
fn left_behind(
    stored: &str,
    listed: &[u32],
    ours: &[u32],
    is_gone: impl Fn(u32) -> bool,
    has_daemon: impl Fn(u32) -> bool,
) -> Vec<u32> {
    let stored: Vec<u32> = stored
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let is_left = |pid: &u32| {
        !ours.contains(pid) && (is_gone(*pid) || (stored.contains(pid) && !has_daemon(*pid)))
    };
    listed.iter().copied().filter(is_left).collect()
}

fn end_client(pid: u32) {
    tracing::info!(pid, "ending a control client that was left behind");
    if let Some(process) = process(pid)
        && let Err(error) = kill_process(process, Signal::TERM)
    {
        tracing::debug!(%error, "could not end the control client");
    }
}

/// Whether this process is a control client that a daemon has started for this server, as far as the
/// system reports (Linux): its pid may have been reused.
fn is_control_client(server: &Server, pid: u32) -> bool {
    let line = std::fs::read(format!("{PROC}/{pid}/cmdline"));
    line.is_ok_and(|line| daemon_of(&line).is_some()) && sees_socket(server, pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_daemon_that_was_killed_and_dead_ones_are_leaving() {
        let has_daemon = |pid| pid == 3;
        let left =
            |stored, listed: &[u32]| left_behind(stored, listed, &[7], |pid| pid == 4, has_daemon);
        assert_eq!(left("2 3 5", &[1, 2, 3, 4, 5, 7]), [2, 4, 5]);
        // Those of the daemon that asks, and those that have left.
        assert!(left("7 8", &[1, 7]).is_empty());
        assert!(left("", &[]).is_empty());
    }

    #[test]
    fn pids_of_another_namespace_are_no_clients() {
        let listed = "41 2\n41 3\n";
        assert_eq!(listed_pids(listed, Some(41)), [2, 3]);
        assert!(listed_pids(listed, Some(1041)).is_empty());
        assert_eq!(listed_pids(listed, None), [2, 3]);
    }

    #[test]
    #[cfg(linux)]
    fn a_process_sees_the_socket_that_its_path_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let choice = crate::tmux::ServerChoice {
            socket_path: Some(dir.path().join("s")),
            ..crate::tmux::ServerChoice::default()
        };
        let server = Server::locate(&choice, &|_| None).unwrap();
        let pid = std::process::id();
        assert!(!sees_socket(&server, pid));
        let _listener = std::os::unix::net::UnixListener::bind(server.socket()).unwrap();
        assert!(sees_socket(&server, pid));
        assert_eq!(innermost_pid(pid), Some(pid));
    }
}
