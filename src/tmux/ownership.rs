//! Which daemon supervises which session: a daemon marks its session.

use super::client::Connection;
use super::error::TmuxError;
use super::hooks::{FOLDER, MARK};
use super::inherited::{own_format, own_value, read_own};
use super::quoted::{quoted, read_rows, row_format};
use crate::model::{SessionId, SessionLife};
use crate::protocol::{Command, Frame, control_line};

/// A daemon's mark on its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub pid: u32,
    /// The key of its folder.
    pub folder: String,
}

/// A session with what its daemons have noted on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedSession {
    /// The life of the session.
    pub life: SessionLife,
    pub name: String,
    /// The key of the folder with its files, which also a daemon that has left has noted.
    pub folder: Option<String>,
}

/// Lists the server's sessions with their folders. Returns none when there is no server.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn list_marks(
    connection: &mut Connection<'_>,
) -> Result<Vec<MarkedSession>, TmuxError> {
    let format = row_format(&[
        "#{pid}",
        "#{start_time}",
        "#{session_id}",
        "#{session_created}",
        &quoted("session_name"),
        &quoted(FOLDER),
    ]);
    let list = Command::new("list-sessions").args(["-F", &format]);
    let frames = match connection.run(&[list]).await {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        answer => answer?,
    };
    let text = frames.last().map(Frame::text).unwrap_or_default();
    let rows = read_rows(&text, |fields| {
        let life = SessionLife {
            server_pid: fields.parse()?,
            server_started: fields.parse()?,
            id: fields.parse()?,
            created: fields.parse()?,
        };
        let name = fields.raw()?;
        let folder = fields.raw()?;
        Some(MarkedSession {
            name,
            folder: read_own(life.id, &folder).map(str::to_owned),
            life,
        })
    });
    rows.ok_or_else(|| TmuxError::Confused {
        detail: "a session's row cannot be read".to_owned(),
    })
}

/// Marks the session as ours if its mark is still `before`. Returns the folder that it had, and the mark
/// that it has afterwards. Compared and set in one line, so that of two daemons only one gets it.
///
/// # Errors
///
/// When tmux fails.
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
    let commands = [
        show(FOLDER),
        Command::new("if-shell").args([
            "-F",
            "-t",
            &target,
            &format!("#{{==:{},{before}}}", own_format(MARK)),
            &control_line(&[set(FOLDER, &ours.folder), set(MARK, &ours.pid.to_string())]),
        ]),
        show(MARK),
        show(FOLDER),
    ];
    let frames = connection.run(&commands).await?;
    let shown = |index: usize| {
        let text = frames.get(index).map(Frame::text).unwrap_or_default();
        read_own(session, text.trim())
            .unwrap_or_default()
            .to_owned()
    };
    let mark = Mark {
        pid: shown(2).parse().unwrap_or_default(),
        folder: shown(3),
    };
    Ok((shown(0), mark))
}
