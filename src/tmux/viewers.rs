//! The clients that are attached to the server: which windows terminals show, notices on their status
//! lines, showing a window to the user; and the control clients of daemons.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::Connection;
use super::client_processes::{end_client, has_daemon, is_control_client, running_clients};
use super::commands::{last_text, set_session_option};
use super::error::TmuxError;
use super::hooks::{CLIENTS, is_alive};
use super::server::Server;
use crate::model::{SessionId, WindowId};
use crate::protocol::Command;

/// The session option with the last notice, for status lines that display it.
pub(crate) const NOTICE_OPTION: &str = "@tmux_task_notice";

/// A terminal that is attached to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Viewer {
    /// Its name in tmux, usually a terminal's path.
    pub(crate) name: String,
    pub(crate) session: SessionId,
    /// The window that it shows.
    pub(crate) window: WindowId,
    /// When it was last used, in seconds since 1970.
    pub(crate) last_used: i64,
    /// Whether it has the user's focus. Terminals that do not report it always have it.
    pub(crate) is_focused: bool,
    /// The terminal's path.
    pub(crate) tty: String,
    /// Its `TERM` and, where it says that, what it is.
    pub(crate) terminal: String,
    pub(crate) is_utf8: bool,
    /// Whether its session shows the notices of all task sessions: `@tmux_task_notices on`.
    pub(crate) wants_notices: bool,
}

/// Lists the terminals that are attached to the server. Control clients are none.
///
/// # Errors
///
/// When there is no server or tmux fails.
pub(crate) async fn list_viewers(
    connection: &mut Connection<'_>,
) -> Result<Vec<Viewer>, TmuxError> {
    let list = Command::new("list-clients").args([
        "-F",
        "#{client_control_mode} #{session_id} #{window_id} #{client_activity} \
         #{?#{m:*focused*,#{client_flags}},1,0} \
         #{?#{==:#{@tmux_task_notices},on},1,0} #{client_utf8} #{client_tty} #{client_name} \
         #{client_termname} #{client_termtype}",
    ]);
    let frames = connection.run(&[list]).await?;
    Ok(last_text(&frames).lines().filter_map(read).collect())
}

/// Reads a row; `None` for a control client.
fn read(row: &str) -> Option<Viewer> {
    let mut fields = row.splitn(10, ' ');
    if fields.next()? != "0" {
        return None;
    }
    Some(Viewer {
        session: fields.next()?.parse().ok()?,
        window: fields.next()?.parse().ok()?,
        last_used: fields.next()?.parse().ok()?,
        is_focused: fields.next()? == "1",
        wants_notices: fields.next()? == "1",
        is_utf8: fields.next()? == "1",
        tty: fields.next()?.to_owned(),
        name: fields.next()?.to_owned(),
        terminal: fields.next()?.to_owned(),
    })
}

/// Shows a text on the status line of the viewers that are attached to the task session or want
/// notices of all of them, and stores it in the task session's `@tmux_task_notice`.
///
/// # Errors
///
/// When the session is missing or tmux fails.
pub(crate) async fn show_notice(
    connection: &mut Connection<'_>,
    session: SessionId,
    viewers: &[Viewer],
    notice: &str,
) -> Result<(), TmuxError> {
    set_session_option(connection, session, NOTICE_OPTION, Some(notice)).await?;
    let show: Vec<Command> = viewers
        .iter()
        .filter(|viewer| viewer.session == session || viewer.wants_notices)
        .map(|viewer| {
            Command::new("display-message")
                .args(["-c", &viewer.name, "-t", &format!("{session}:")])
                .arg("#{@tmux_task_notice}")
        })
        .collect();
    if !show.is_empty() {
        connection.run(&show).await?;
    }
    Ok(())
}

/// Makes a window the current one of its session, and the viewer that was used last show it.
///
/// # Errors
///
/// When the window is missing or tmux fails.
pub(crate) async fn show_window(
    connection: &mut Connection<'_>,
    session: SessionId,
    window: WindowId,
) -> Result<(), TmuxError> {
    let viewers = list_viewers(connection).await?;
    let select = Command::new("select-window").args(["-t", &format!("{session}:{window}")]);
    let switch = viewers.iter().max_by_key(|viewer| viewer.last_used);
    let switch = switch.map(|viewer| {
        Command::new("switch-client").args(["-c", &viewer.name, "-t", &session.to_string()])
    });
    let commands: Vec<Command> = [select].into_iter().chain(switch).collect();
    connection.run(&commands).await.map(drop)
}

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
    fn a_row_is_a_viewer_unless_it_is_a_control_client() {
        let row = "0 $1 @12 1795344824 1 0 1 /dev/pts/10 /dev/pts/10 xterm-256color iTerm2 3.5";
        let viewer = read(row).unwrap();
        assert_eq!(
            (viewer.session, viewer.window),
            (SessionId(1), WindowId(12))
        );
        assert_eq!((viewer.is_focused, viewer.wants_notices), (true, false));
        assert_eq!(
            (&*viewer.name, &*viewer.tty),
            ("/dev/pts/10", "/dev/pts/10")
        );
        assert_eq!(viewer.terminal, "xterm-256color iTerm2 3.5");
        assert_eq!(read("1 $1 @12 1795344824 1 0 1  client-7 xterm "), None);
        assert_eq!(read(""), None);
    }

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
