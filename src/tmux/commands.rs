//! Further tmux commands: listing, ending, channels, and options.

use std::collections::{BTreeMap, BTreeSet};

use super::client::Connection;
use super::error::TmuxError;
use super::inherited::{print_inherited, read_own};
use super::rows::{IS_FLOATING, PaneOrder};
use super::server::Server;
use crate::model::{Ordered as _, PaneId, SessionId, WindowId, text};
use crate::protocol::{Command, Frame};

/// A session of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedSession {
    pub id: SessionId,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// The pid of the daemon that marked it.
    pub daemon: Option<u32>,
    /// The key of the folder with its files.
    pub folder: Option<String>,
    /// Its name, sanitised text.
    pub name: String,
    /// Whether deaths were ever recorded in it, which means that it has had a daemon.
    pub has_record: bool,
    /// `@tmux_task_root`.
    pub root: Option<String>,
    /// `@tmux_task_title`.
    pub title: Option<String>,
}

/// Ends a window. Returns whether it existed.
///
/// # Errors
///
/// When tmux refuses.
pub(crate) async fn kill_window(
    connection: &mut Connection<'_>,
    window: WindowId,
) -> Result<bool, TmuxError> {
    let kill = Command::new("kill-window").args(["-t", &window.to_string()]);
    match connection.run(&[kill]).await {
        // Ending the last window ends the session, which may end the server; either ends the
        // connection.
        Ok(_) | Err(TmuxError::Closed) => Ok(true),
        Err(TmuxError::Rejected { reply, .. }) if reply.starts_with("can't find") => Ok(false),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits on a channel with a client of its own, which sleeps inside the server. Dropping the future
/// terminates that client, which is safe because it is not in control mode. Returns whether the
/// channel was signalled; `false` when the server ended first.
///
/// # Errors
///
/// When there is no server.
pub(crate) async fn wait_for(server: &Server, channel: &str) -> Result<bool, TmuxError> {
    let wait = Command::new("wait-for").args(["--", channel]);
    server.run_until_done(wait).await
}

/// Wakes all clients that wait on a channel.
///
/// # Errors
///
/// When there is no server.
pub(crate) async fn signal_channel(
    connection: &mut Connection<'_>,
    channel: &str,
) -> Result<(), TmuxError> {
    let signal = Command::new("wait-for").args(["-S", "--", channel]);
    connection.run(&[signal]).await.map(drop)
}

/// Ends the session. A session that is gone is not an error.
///
/// # Errors
///
/// When tmux refuses.
pub(crate) async fn kill_session(
    connection: &mut Connection<'_>,
    session: SessionId,
) -> Result<(), TmuxError> {
    let kill = Command::new("kill-session").args(["-t", &session.to_string()]);
    match connection.run(&[kill]).await {
        Ok(_) | Err(TmuxError::Closed) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Lists the server's sessions. Returns none when there is no server.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn list_sessions(
    connection: &mut Connection<'_>,
) -> Result<Vec<ListedSession>, TmuxError> {
    // `=` removes control characters, so that no text can form rows or fields.
    let list = Command::new("list-sessions").args([
        "-F",
        "#{session_id} #{session_created} #{?@tmux_task_death_count,1,0} #{=200:session_name}\t\
         #{=4096:@tmux_task_root}\t#{=4096:@tmux_task_title}\t#{=200:@tmux_task_folder}\t\
         #{=200:@tmux_task_daemon}",
    ]);
    // A root that is set for all sessions marks none of them as ours.
    let inherited = print_inherited("#{=4096:@tmux_task_root}");
    let frames = match connection.run(&[inherited, list]).await {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        answer => answer?,
    };
    let inherited = frames.first().map(Frame::text).unwrap_or_default();
    let inherited = some_line(&inherited);
    let listed = last_text(&frames);
    let listed = listed.lines().filter_map(read_session);
    let own_root = |mut session: ListedSession| {
        session.root = session.root.filter(|root| Some(root) != inherited.as_ref());
        session
    };
    Ok(listed.map(own_root).collect())
}

/// A task in a list of all tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTask {
    pub name: String,
    pub is_alive: bool,
}

/// Lists the tasks of all sessions, each by its primary pane, in the order of their windows' ids.
/// Returns none when there is no server.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn list_tasks(
    connection: &mut Connection<'_>,
) -> Result<BTreeMap<SessionId, Vec<ListedTask>>, TmuxError> {
    let format = format!(
        "#{{session_id}} #{{window_id}} {} #{{pane_id}} #{{pane_dead}} #{{=200:window_name}}",
        *IS_FLOATING
    );
    let list = Command::new("list-panes").args(["-a", "-F", &format]);
    let frames = match connection.run(&[list]).await {
        Err(error) if error.is_missing() => return Ok(BTreeMap::new()),
        answer => answer?,
    };
    Ok(primary_panes(&last_text(&frames)))
}

fn primary_panes(listed: &str) -> BTreeMap<SessionId, Vec<ListedTask>> {
    let mut primary: BTreeMap<(SessionId, WindowId), (PaneOrder, ListedTask)> = BTreeMap::new();
    for (session, window, pane, task) in listed.lines().filter_map(read_task) {
        let (first, known) = primary
            .entry((session, window))
            .or_insert_with(|| (pane, task.clone()));
        if pane < *first {
            (*first, *known) = (pane, task);
        }
    }
    let mut tasks: BTreeMap<SessionId, Vec<ListedTask>> = BTreeMap::new();
    for ((session, _), (_, task)) in primary {
        tasks.entry(session).or_default().push(task);
    }
    tasks
}

fn read_task(line: &str) -> Option<(SessionId, WindowId, PaneOrder, ListedTask)> {
    let mut fields = line.splitn(6, ' ');
    let session = fields.next()?.parse().ok()?;
    let window = fields.next()?.parse().ok()?;
    let pane = (fields.next()? == "1", fields.next()?.parse().ok()?);
    let task = ListedTask {
        is_alive: fields.next()? != "1",
        name: text::one_line(fields.next()?.as_bytes(), 200),
    };
    Some((session, window, pane, task))
}

fn some_line(text: &str) -> Option<String> {
    let line = text::one_line(text.as_bytes(), 4096);
    (!line.is_empty()).then_some(line)
}

fn read_session(line: &str) -> Option<ListedSession> {
    let mut numbers = line.splitn(4, ' ');
    let id = numbers.next()?.parse().ok()?;
    let created = numbers.next()?.parse().ok()?;
    let has_record = numbers.next()? == "1";
    let mut texts = numbers.next()?.split('\t');
    let name = texts.next()?;
    let mut some = || some_line(texts.next().unwrap_or_default());
    let (root, title) = (some(), some());
    let mut own = || some().and_then(|value| Some(read_own(id, &value)?.to_owned()));
    Some(ListedSession {
        id,
        created,
        has_record,
        name: text::one_line(name.as_bytes(), 200),
        root,
        title,
        folder: own(),
        daemon: own().and_then(|pid| pid.parse().ok()),
    })
}

/// Returns the session of each of these windows that exist on the server.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn where_is(
    connection: &mut Connection<'_>,
    windows: &[WindowId],
) -> Result<BTreeMap<WindowId, SessionId>, TmuxError> {
    if windows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let list = Command::new("list-windows").args(["-a", "-F", "#{window_id} #{session_id}"]);
    let frames = match connection.run(&[list]).await {
        Err(error) if error.is_missing() => return Ok(BTreeMap::new()),
        answer => answer?,
    };
    Ok(last_text(&frames)
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(window, session)| Some((window.parse().ok()?, session.parse().ok()?)))
        .filter(|(window, _)| windows.contains(window))
        .into_map())
}

/// Returns those of these windows that are also linked into another session than this one.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn shared_windows(
    connection: &mut Connection<'_>,
    session: SessionId,
    windows: &[WindowId],
) -> Result<BTreeSet<WindowId>, TmuxError> {
    let list = Command::new("list-windows").args(["-a", "-F", "#{window_id} #{session_id}"]);
    let frames = match connection.run(&[list]).await {
        Err(error) if error.is_missing() => return Ok(BTreeSet::new()),
        answer => answer?,
    };
    Ok(last_text(&frames)
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(window, of)| Some((window.parse().ok()?, of.parse().ok()?)))
        .filter(|(window, of): &(WindowId, SessionId)| *of != session && windows.contains(window))
        .map(|(window, _)| window)
        .into_set())
}

/// Returns those of these panes that exist on the server, dead or alive.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn existing_panes(
    connection: &mut Connection<'_>,
    panes: &BTreeSet<PaneId>,
) -> Result<BTreeSet<PaneId>, TmuxError> {
    let list = Command::new("list-panes").args(["-a", "-F", "#{pane_id}"]);
    let frames = match connection.run(&[list]).await {
        Err(error) if error.is_missing() => return Ok(BTreeSet::new()),
        answer => answer?,
    };
    Ok(last_text(&frames)
        .lines()
        .filter_map(|pane| pane.parse().ok())
        .filter(|pane| panes.contains(pane))
        .into_set())
}

/// Sets a session option to a text; `None` unsets the option.
///
/// # Errors
///
/// When the session is missing or tmux fails.
pub(crate) async fn set_session_option(
    connection: &mut Connection<'_>,
    session: SessionId,
    name: &str,
    value: Option<&str>,
) -> Result<(), TmuxError> {
    let target = format!("{session}:");
    let set = match value {
        // In a status line the text's `#` would start a style.
        Some(value) => {
            // Drawing turns every `##` into `#`, before `[` too.
            let value = text::one_line(value.as_bytes(), 500).replace('#', "##");
            Command::new("set-option").args(["-t", &target, name, &value])
        }
        None => Command::new("set-option").args(["-uq", "-t", &target, name]),
    };
    connection.run(&[set]).await.map(drop)
}

pub(super) fn last_text(frames: &[Frame]) -> String {
    frames.last().map(Frame::text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_task_is_its_windows_oldest_pane() {
        let listed = "$1 @3 0 %7 0 a b\n$1 @3 0 %5 1 a b\n$1 @3 1 %4 0 a b\n$1 @2 0 %9 0 c\nodd\n\
                      $2 @12 0 %8 1 d\n";
        let task = |name: &str, is_alive| ListedTask {
            name: name.to_owned(),
            is_alive,
        };
        let expected = [
            (SessionId(1), vec![task("c", true), task("a b", false)]),
            (SessionId(2), vec![task("d", false)]),
        ];
        assert_eq!(primary_panes(listed), BTreeMap::from(expected));
    }
}
