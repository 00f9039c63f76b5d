//! The clients that are attached to the server: which windows terminals show, notices on their status
//! lines, and showing a window to the user.

use super::client::Connection;
use super::commands::set_session_option;
use super::error::TmuxError;
use crate::model::{SessionId, WindowId};
use crate::rules::protocol::Command;

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
    let listed = connection.print(list).await?;
    Ok(listed.lines().filter_map(read).collect())
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
pub(crate) async fn show_notice(
    connection: &mut Connection<'_>,
    session: SessionId,
    viewers: &[Viewer],
    notice: &str,
) -> Result<(), TmuxError> {
    set_session_option(connection, session, NOTICE_OPTION, Some(notice)).await?;
    let viewers = viewers.iter();
    let viewers = viewers.filter(|viewer| viewer.session == session || viewer.wants_notices);
    let target = format!("{session}:");
    let show = viewers.map(|viewer| {
        let show = Command::new("display-message").args(["-c", &viewer.name, "-t", &target]);
        show.arg("#{@tmux_task_notice}")
    });
    let show: Vec<Command> = show.collect();
    if !show.is_empty() {
        connection.run(&show).await?;
    }
    Ok(())
}

/// Makes a window the current one of its session, and the viewer that was used last show it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_viewer_unless_it_is_a_control_client() {
        let row = "0 $1 @12 1795344824 1 0 1 /dev/pts/10 /dev/pts/10 xterm-256color iTerm2 3.5";
        let viewer = read(row).unwrap();
        let place = (viewer.session, viewer.window);
        assert_eq!(place, (SessionId(1), WindowId(12)));
        assert_eq!((viewer.is_focused, viewer.wants_notices), (true, false));
        let names = [viewer.name, viewer.tty, viewer.terminal];
        let expected = ["/dev/pts/10", "/dev/pts/10", "xterm-256color iTerm2 3.5"];
        assert_eq!(names, expected);
        assert_eq!(read("1 $1 @12 1795344824 1 0 1  client-7 xterm "), None);
        assert_eq!(read(""), None);
    }
}
