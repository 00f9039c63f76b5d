//! Further tmux commands: listing, marking, ending, channels, and options.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use super::client::{Connection, if_true};
use super::error::TmuxError;
use super::hooks::{FOLDER, MARK};
use super::launch_lines::{go_on_if, unless_contended};
use super::pane_origin::IS_OF_LAUNCHER;
use super::quoted::{Fields, quoted, read_rows, row_format};
use super::rows::IS_LINKED;
use super::window_options::{RUN, own_format, own_value, print_inherited, read_own};
use crate::model::{PaneId, SessionId, SessionLife, WindowId, text};
use crate::rules::protocol::{Command, Frame};

/// A session of the server, with what its daemons have noted on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedSession {
    pub life: SessionLife,
    /// Its name as tmux has it.
    pub name: String,
    /// `@tmux_task_root`.
    pub root: Option<String>,
    /// `@tmux_task_title`.
    pub title: Option<String>,
    /// Whether deaths were ever recorded in it, which means that it has had a daemon.
    pub has_record: bool,
    /// The pid of the daemon that marked it.
    pub daemon: Option<u32>,
    /// The key of the folder with its files, which also a daemon that has left has noted.
    pub folder: Option<String>,
}

impl ListedSession {
    /// Returns its name as sanitised text.
    pub(crate) fn shown_name(&self) -> String {
        text::session_name(self.name.as_bytes(), 4096)
    }
}

/// Ends a window, unless it has a later run than this one by now. Returns whether it was there.
pub(crate) async fn kill_window(
    connection: &mut Connection<'_>,
    window: WindowId,
    run: Option<u32>,
) -> Result<bool, TmuxError> {
    let window = window.to_string();
    let is_over = |run| go_on_if(&window, &format!("#{{e|<=:0#{{{RUN}}},{run}}}"));
    let kill = Command::new("kill-window").args(["-t", &window]);
    let line: Vec<Command> = run.map(is_over).into_iter().chain([kill]).collect();
    match connection.run(&line).await {
        // Ending the last window ends the session, which may end the server; either ends the
        // connection.
        Err(TmuxError::Closed) => Ok(true),
        Err(error) if error.is_target_missing() => Ok(false),
        answer => unless_contended(answer).map(|_| true),
    }
}

/// Ends the session. A session that is gone is not an error.
pub(crate) async fn kill_session(
    connection: &mut Connection<'_>,
    session: SessionId,
) -> Result<(), TmuxError> {
    let kill = Command::new("kill-session").args(["-t", &session.to_string()]);
    match TmuxError::if_there(connection.run(&[kill]).await) {
        Err(TmuxError::Closed) => Ok(()),
        answer => answer.map(drop),
    }
}

/// Lists the server's sessions. Returns none when there is no server.
pub(crate) async fn list_sessions(
    connection: &mut Connection<'_>,
) -> Result<Vec<ListedSession>, TmuxError> {
    let [root, title] = ["@tmux_task_root", "@tmux_task_title"].map(quoted);
    list(connection, &root, &title).await
}

/// The same without their roots and titles.
pub(crate) async fn list_marks(
    connection: &mut Connection<'_>,
) -> Result<Vec<ListedSession>, TmuxError> {
    list(connection, "", "").await
}

async fn list(
    connection: &mut Connection<'_>,
    root: &str,
    title: &str,
) -> Result<Vec<ListedSession>, TmuxError> {
    let format = row_format(&[
        "#{pid}",
        "#{start_time}",
        "#{session_id}",
        "#{session_created}",
        &quoted("session_name"),
        root,
        title,
        "#{?@tmux_task_death_count,1,0}",
        &quoted(MARK),
        &quoted(FOLDER),
    ]);
    // A root that is set for all sessions marks none of them as ours.
    let inherited = print_inherited(&row_format(&[root]));
    let list = Command::new("list-sessions").args(["-F", &format]);
    let answer = connection.each(&[inherited, list]).await;
    let Some([inherited, sessions]) = TmuxError::if_there(answer)? else {
        return Ok(Vec::new());
    };
    let read = || {
        let inherited = read_rows(&inherited.text(), Fields::some_text)?.pop()?;
        let mut sessions = read_rows(&sessions.text(), read_session)?;
        for session in &mut sessions {
            session
                .root
                .take_if(|root| inherited.as_ref() == Some(root));
        }
        Some(sessions)
    };
    read().ok_or_else(|| TmuxError::confused("a session's row cannot be read"))
}

fn read_session(fields: &mut Fields) -> Option<ListedSession> {
    let life = SessionLife {
        server_pid: fields.parse()?,
        server_started: fields.parse()?,
        id: fields.parse()?,
        created: fields.parse()?,
    };
    Some(ListedSession {
        name: fields.raw()?,
        root: fields.some_text()?,
        title: fields.some_text()?,
        has_record: fields.flag()?,
        daemon: read_own(life.id, &fields.raw()?).and_then(|pid| pid.parse().ok()),
        folder: read_own(life.id, &fields.raw()?).map(str::to_owned),
        life,
    })
}

/// A task in a list of all tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTask {
    pub name: String,
    pub is_alive: bool,
}

/// Lists the tasks of all sessions. Returns none when there is no server.
pub(crate) async fn list_tasks(
    connection: &mut Connection<'_>,
) -> Result<BTreeMap<SessionId, Vec<ListedTask>>, TmuxError> {
    let format = format!("#{{session_id}} {WINDOW_IS_DEAD} #{{=200:window_name}}");
    let list = Command::new("list-windows").args(["-a", "-F", &format]);
    let mut tasks: BTreeMap<SessionId, Vec<ListedTask>> = BTreeMap::new();
    for line in list_all(connection, list).await?.lines() {
        let mut fields = line.splitn(3, ' ');
        let session = fields.next().and_then(|id| id.parse().ok());
        if let (Some(session), Some(is_dead), Some(name)) = (session, fields.next(), fields.next())
        {
            tasks.entry(session).or_default().push(ListedTask {
                is_alive: is_dead != "1",
                name: text::one_line(name.as_bytes(), 200),
            });
        }
    }
    Ok(tasks)
}

/// Returns those of these windows that are in a session of the server, or in another one than this.
pub(crate) async fn existing_windows(
    connection: &mut Connection<'_>,
    windows: &[WindowId],
    except: Option<SessionId>,
) -> Result<BTreeSet<WindowId>, TmuxError> {
    if windows.is_empty() {
        return Ok(BTreeSet::new());
    }
    let format = match except {
        Some(session) => format!("#{{?#{{==:#{{session_id}},{session}}},,#{{window_id}}}}"),
        None => "#{window_id}".to_owned(),
    };
    let list = Command::new("list-windows").args(["-a", "-F", &format]);
    let mut found = listed_ids(connection, list).await?;
    found.retain(|window| windows.contains(window));
    Ok(found)
}

/// Returns those of these panes that exist on the server, dead or alive.
pub(crate) async fn existing_panes(
    connection: &mut Connection<'_>,
    panes: &BTreeSet<PaneId>,
) -> Result<BTreeSet<PaneId>, TmuxError> {
    let list = Command::new("list-panes").args(["-a", "-F", "#{pane_id}"]);
    let mut found = listed_ids(connection, list).await?;
    found.retain(|pane| panes.contains(pane));
    Ok(found)
}

/// Returns the windows of the session that have tmux's bell flag.
pub(crate) async fn ringing_windows(
    connection: &mut Connection<'_>,
    session: SessionId,
) -> Result<BTreeSet<WindowId>, TmuxError> {
    let list = Command::new("list-panes").args(["-s", "-t", &format!("{session}:")]);
    let list = list.args(["-F", "#{?window_bell_flag,#{window_id},}"]);
    listed_ids(connection, list).await
}

/// Returns the ids that a command lists.
async fn listed_ids<T: FromStr + Ord>(
    connection: &mut Connection<'_>,
    list: Command,
) -> Result<BTreeSet<T>, TmuxError> {
    let listed = list_all(connection, list).await?;
    Ok(listed.lines().filter_map(|id| id.parse().ok()).collect())
}

/// Sets a session option to a text; `None` unsets the option.
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

/// Returns what a command prints that lists what the server has; nothing when there is no server.
async fn list_all(connection: &mut Connection<'_>, list: Command) -> Result<String, TmuxError> {
    let listed = TmuxError::if_there(connection.print(list).await)?;
    Ok(listed.unwrap_or_default())
}

// Ends idle windows and sessions. Whether they are idle is checked in the line that ends them,
// because anything can happen between a look and a line.

/// True if every process of a window's panes has ended, including those of panes that a user split
/// off.
const WINDOW_IS_DEAD: &str = "#{==:#{P:#{?pane_dead,,1}},}";

/// The same for all windows of a session.
const SESSION_IS_DEAD: &str = "#{==:#{W:#{P:#{?pane_dead,,1}}},}";

/// True if no terminal is attached to the session. Clients without a terminal, such as programs
/// like ours, have names without a slash.
const IS_UNSEEN: &str = "#{?#{m:*/*,#{session_attached_list}},0,1}";

/// True if a launcher of ours created the session.
const IS_OURS: &str = "#{?@tmux_task_root,1,0}";

/// The text that is printed when the session is ended.
const ENDED: &str = "tmux-task-ended";

/// The condition for ending a session, besides that nothing runs in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unless {
    /// None: the user has asked for it.
    Active,
    /// A launcher of ours created it, and no terminal is attached.
    ActiveOrSeen,
}

/// Ends this life of a session if nothing runs in any of its panes. Returns whether it did; fails with
/// [`TmuxError::Closed`] when the connection was attached to it. A session that is gone is not an error.
pub(crate) async fn end_idle_session(
    connection: &mut Connection<'_>,
    life: &SessionLife,
    unless: Unless,
) -> Result<bool, TmuxError> {
    let (pid, id, created) = (life.server_pid, life.id, life.created);
    let is_same =
        format!("#{{==:#{{pid}} #{{session_id}} #{{session_created}},{pid} {id} {created}}}");
    let conditions: &[&str] = match unless {
        Unless::Active => &[SESSION_IS_DEAD],
        Unless::ActiveOrSeen => &[SESSION_IS_DEAD, IS_UNSEEN, IS_OURS],
    };
    let both = |all, next: &&str| format!("#{{&&:{all},{next}}}");
    let condition = conditions.iter().fold(is_same, both);
    let end = [
        Command::new("display-message").args(["-p", ENDED]),
        Command::new("kill-session").args(["-t", &id.to_string()]),
    ];
    let end_if_idle = if_true(&format!("{id}:"), &condition, &end);
    match connection.run(&[end_if_idle]).await {
        Ok(frames) => Ok(frames.iter().any(|frame| frame.text().contains(ENDED))),
        Err(error) if error.is_target_missing() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends those windows in which nothing runs any more; each is given with its primary pane. A task
/// that was rerun just before stays, and so does a window in which the user has a pane, or that the
/// user has linked from another session.
pub(crate) async fn prune_windows(
    connection: &mut Connection<'_>,
    windows: &[(WindowId, PaneId)],
) -> Result<(), TmuxError> {
    let is_users = format!("#{{?{},0,{IS_LINKED}}}", *IS_OF_LAUNCHER);
    let condition = format!("#{{&&:{WINDOW_IS_DEAD},#{{?{is_users},0,1}}}}");
    for (window, pane) in windows {
        let kill = Command::new("kill-window").args(["-t", &window.to_string()]);
        // The windows keep dead panes anyway.
        let line = [go_on_if(&pane.to_string(), &condition), kill];
        match unless_contended(connection.run(&line).await) {
            Ok(_) | Err(TmuxError::Closed) => {}
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A daemon's mark on its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub pid: u32,
    /// The key of its folder.
    pub folder: String,
}

/// Marks the session as ours if its mark is still `before`. Returns the folder that it had, and the mark
/// that it has afterwards. Compared and set in one line, so that of two daemons only one gets it.
pub(crate) async fn claim(
    connection: &mut Connection<'_>,
    session: SessionId,
    before: Option<&Mark>,
    ours: &Mark,
) -> Result<(String, Mark), TmuxError> {
    let target = format!("{session}:");
    let set = |name: &str, value: &str| {
        Command::new("set-option").args(["-t", &target, name, &own_value(session, value)])
    };
    let show = |name: &str| Command::new("show-options").args(["-qv", "-t", &target, name]);
    let before = before.map(|mark| own_value(session, &mark.pid.to_string()));
    let before = before.unwrap_or_default();
    let is_before = format!("#{{==:{},{before}}}", own_format(MARK));
    let claim = [set(FOLDER, &ours.folder), set(MARK, &ours.pid.to_string())];
    let commands = [
        show(FOLDER),
        if_true(&target, &is_before, &claim),
        show(MARK),
        show(FOLDER),
    ];
    let frames = connection.run(&commands).await?;
    let shown = |index: usize| {
        let text = frames.get(index).map(Frame::text).unwrap_or_default();
        let own = read_own(session, text.trim());
        own.unwrap_or_default().to_owned()
    };
    let mark = Mark {
        pid: shown(2).parse().unwrap_or_default(),
        folder: shown(3),
    };
    Ok((shown(0), mark))
}
