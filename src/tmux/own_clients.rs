//! The control clients of a session's daemon, also those of one that was killed.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::client::Connection;
use super::error::TmuxError;
use super::hooks::{CLIENTS, is_alive};
use super::nudge::process;
use super::server::Server;
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

/// Ends the control clients that a daemon of the session has left behind, except `ours`, and waits
/// until they are gone, at most for [`LEAVING`]. To be called before a control client attaches:
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
        Command::new("list-clients").args(["-F", "#{client_pid}"]),
    ];
    let deadline = Instant::now() + LEAVING;
    let mut ended = BTreeSet::new();
    loop {
        // The processes first: when one is gone, the server has its end before our commands. One
        // that leaves is not listed any more.
        let mut leaving = running_clients(server, session);
        leaving.retain(|pid| !ours.contains(pid));
        let frames = connection.run(&commands).await?;
        if let [stored, listed] = &frames[..] {
            leaving.extend(listed_clients(
                &stored.text(),
                &listed.text(),
                ours,
                is_alive,
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
            if ended.insert(pid) && is_control_client(pid) {
                end_client(pid);
            }
        }
        sleep(LEAVING_PAUSE).await;
    }
}

/// Returns the running control clients of our user that were started as a daemon of this session
/// starts them, as far as the system lists processes (Linux). A daemon that was killed while it
/// attached has not stored them.
pub(crate) fn running_clients(server: &Server, session: SessionId) -> BTreeSet<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return BTreeSet::new();
    };
    let uid = rustix::process::geteuid().as_raw();
    let is_running_client = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let is_client = server.is_control_client(&line, session);
        (is_client && entry.metadata().ok()?.uid() == uid).then_some(pid)
    };
    processes
        .filter_map(|entry| is_running_client(entry.ok()?))
        .collect()
}

/// Returns the clients among `listed` that were stored by a daemon, or that have no process any
/// more. `ours` are not included.
fn listed_clients(
    stored: &str,
    listed: &str,
    ours: &[u32],
    is_alive: impl Fn(u32) -> bool,
) -> Vec<u32> {
    let pids = |text: &str| -> Vec<u32> {
        let words = text.split_whitespace();
        words.filter_map(|pid| pid.parse().ok()).collect()
    };
    let stored = pids(stored);
    let mut listed = pids(listed);
    listed.retain(|pid| !ours.contains(pid) && (stored.contains(pid) || !is_alive(*pid)));
    listed
}

fn end_client(pid: u32) {
    tracing::info!(pid, "ending a control client that was left behind");
    if let Some(process) = process(pid)
        && let Err(error) = kill_process(process, Signal::TERM)
    {
        tracing::debug!(%error, "could not end the control client");
    }
}

/// Whether this process is one of our control clients, as far as the system reports (Linux): its
/// pid may have been reused.
fn is_control_client(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == b"-C") && words.any(|word| word == b"attach-session")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_daemon_that_was_killed_and_dead_ones_are_leaving() {
        let is_alive = |pid| pid != 4;
        let left = |stored, listed| listed_clients(stored, listed, &[7], is_alive);
        assert_eq!(left("2 3", "1\n2\n3\n4\n7\n"), [2, 3, 4]);
        // Those of the daemon that asks, and those that have left.
        assert!(left("7 8", "1\n7\n").is_empty());
        assert!(left("", "").is_empty());
    }
}
