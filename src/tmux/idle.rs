//! Ends idle windows and sessions. Whether they are idle is checked in the line that ends them,
//! because anything can happen between a look and a line.

use super::client::Connection;
use super::error::TmuxError;
use super::launch_lines::{go_on_if, is_contended};
use super::pane_origin::IS_OF_LAUNCHER;
use super::rows::IS_LINKED;
use crate::model::{PaneId, SessionLife, WindowId};
use crate::protocol::{Command, Frame, control_line};

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

/// Ends this life of a session if nothing runs in any of its panes. Returns whether it did.
///
/// # Errors
///
/// When tmux fails; also [`TmuxError::Closed`] when the connection was attached to the session that
/// ended. A session that is gone is not an error.
pub(crate) async fn end_idle_session(
    connection: &mut Connection<'_>,
    life: &SessionLife,
    unless: Unless,
) -> Result<bool, TmuxError> {
    let SessionLife {
        server_pid,
        server_started: _,
        id,
        created,
    } = life;
    let is_same = format!(
        "#{{==:#{{pid}} #{{session_id}} #{{session_created}},{server_pid} {id} {created}}}"
    );
    let conditions: &[&str] = match unless {
        Unless::Active => &[SESSION_IS_DEAD],
        Unless::ActiveOrSeen => &[SESSION_IS_DEAD, IS_UNSEEN, IS_OURS],
    };
    let condition = conditions
        .iter()
        .fold(is_same, |all, next| format!("#{{&&:{all},{next}}}"));
    let end = [
        Command::new("display-message").args(["-p", ENDED]),
        Command::new("kill-session").args(["-t", &id.to_string()]),
    ];
    let end_if_idle = Command::new("if-shell").args([
        "-F",
        "-t",
        &format!("{id}:"),
        &condition,
        &control_line(&end),
    ]);
    match connection.run(&[end_if_idle]).await {
        Ok(frames) => Ok(frames
            .iter()
            .map(Frame::text)
            .any(|said| said.contains(ENDED))),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends those windows in which nothing runs any more; each is given with its primary pane. A task
/// that was rerun just before stays, and so does a window in which the user has a pane, or that the
/// user has linked from another session.
///
/// # Errors
///
/// When tmux refuses.
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
        match connection.run(&line).await {
            Ok(_) | Err(TmuxError::Closed) => {}
            Err(error) if is_gone(&error) => {}
            Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_gone(error: &TmuxError) -> bool {
    let is_unknown_target =
        matches!(error, TmuxError::Rejected { reply, .. } if reply.starts_with("can't find"));
    error.is_missing() || is_unknown_target
}
