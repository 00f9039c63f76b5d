//! The output of tasks: of the present run, of an earlier one, or live.

use super::error::OpsError;
use super::session::Session;
use crate::archive;
use crate::client::Client;
use crate::model::Task;
use crate::tmux::{self, History, Style};
use crate::wait::{Anchor, AnchorPosition, Cursor, locate};

/// A part of a run's output.
#[derive(Debug)]
pub(crate) struct Log {
    /// The window's id.
    pub(crate) window: String,
    /// The task's name.
    pub(crate) name: String,
    pub(crate) run: Option<u32>,
    pub(crate) lines: Vec<String>,
    /// Its end as a cursor; `None` for an earlier run.
    pub(crate) cursor: Option<Cursor>,
}

/// Returns the output of a task's present run, optionally from a cursor on. Raw output includes
/// escape sequences.
pub(crate) async fn present_log(
    session: &Session,
    task: &Task,
    is_raw: bool,
    since: Option<&str>,
) -> Result<Log, OpsError> {
    let pane = task.pane;
    let pane = pane.ok_or_else(|| OpsError::NoPane(task.name.clone()))?;
    let life = session.look().await?.life;
    let life = life.ok_or_else(|| session.missing())?;
    let run = task.run.unwrap_or(1);
    let mut connection = session.connection();
    let (lines, end) = match since {
        None => {
            let style = if is_raw { Style::Raw } else { Style::Plain };
            let log = tmux::read_log(&mut connection, pane, style).await?;
            (log.lines, log.end)
        }
        Some(text) => {
            let cursor: Cursor = text
                .parse()
                .map_err(|error| OpsError::Usage(format!("{error}")))?;
            if cursor.window != task.window || cursor.life != Cursor::life_of(&life) {
                let why = "the cursor is of another task or of another life of the session";
                return Err(OpsError::Cursor(why.to_owned()));
            }
            if cursor.run != run {
                let why = format!(
                    "the cursor is of run {}, the task is at run {run}",
                    cursor.run
                );
                return Err(OpsError::Cursor(why));
            }
            let output = tmux::read_output(&mut connection, pane, History::Whole).await?;
            let located = locate(&cursor.anchor, &output.rows, output.history, output.limit);
            let AnchorPosition::At(row) = located else {
                return Err(OpsError::CursorLost);
            };
            (output.lines_from(row, cursor.anchor.column), output)
        }
    };
    let (column, _) = end.cursor;
    let anchor = Anchor::at(&end.rows, end.first_row(), end.cursor_row(), column);
    Ok(Log {
        window: task.window.to_string(),
        name: task.name.clone(),
        run: task.run,
        lines,
        cursor: Some(Cursor {
            life: Cursor::life_of(&life),
            window: task.window,
            run,
            anchor,
        }),
    })
}

/// Returns the stored output of an ended run.
pub(crate) async fn earlier_log(
    session: &Session,
    name: &str,
    run: u32,
    is_raw: bool,
) -> Result<Log, OpsError> {
    let kept = archive::find(&session.paths.runs(), name, run).map_err(OpsError::Archive)?;
    if let Some(kept) = kept {
        return Ok(Log {
            window: kept.about.window_id,
            name: kept.about.window_name,
            run: Some(run),
            lines: kept.lines,
            cursor: None,
        });
    }
    // The present run is not stored yet.
    let present = session.task(name).await.ok();
    match present.filter(|task| task.run == Some(run) && task.pane.is_some()) {
        Some(task) => {
            let log = present_log(session, &task, is_raw, None).await?;
            Ok(Log {
                cursor: None,
                ..log
            })
        }
        None => Err(OpsError::NotKept {
            run,
            name: name.to_owned(),
        }),
    }
}

/// Begins to follow a task's output. [`Client::line`] returns it, one JSON string per line.
pub(crate) async fn follow_log(
    session: &Session,
    task: &Task,
    is_raw: bool,
) -> Result<Client, OpsError> {
    let daemon = session.daemon_or_start().await?;
    let mut daemon = daemon.ok_or_else(|| session.no_daemon())?;
    daemon.follow(task.window.to_string(), is_raw).await?;
    Ok(daemon)
}
