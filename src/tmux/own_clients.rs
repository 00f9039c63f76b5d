//! The control clients of a session's daemon, also those of one that was killed.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Connection;
use super::client_processes::{end_client, has_daemon, is_control_client, running_clients};
use super::error::TmuxError;
use super::hooks::{CLIENTS, is_alive};
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

/// Ends the control clients that a daemon of the session has left behind which does not run any more,
/// except `ours`, and waits until they are gone, at most for [`LEAVING`]. To be called before a control
/// client attaches: tmux up to 3.5a crashes when a client detaches while a control client connects. tmux
/// can also keep a client whose daemon was killed, and itself with it, for ever.
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
}
