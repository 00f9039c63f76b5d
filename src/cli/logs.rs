//! `logs`: a task's output, as it stands there, from a cursor on, or as it comes.

use serde_json::json;

use super::args::Logs;
use super::context::{self, Context, Session};
use super::failure::{Failure, Kind};
use super::output;
use crate::archive;
use crate::files::is_refusal;
use crate::model::{PaneId, Task};
use crate::tmux::{self, History, Style};
use crate::wait::{Anchor, Cursor, Located, locate};

pub(super) async fn run(context: &Context, args: Logs) -> Result<(), Failure> {
    let session = context.session("logs").await?;
    if let Some(run) = args.run {
        return earlier(&session, &args, run).await;
    }
    let task = session.task("logs", &args.name).await?;
    let Some(pane) = task.pane else {
        return Err(Failure::new(
            Kind::Failed,
            "logs",
            format!("{} has no pane", args.name),
        ));
    };
    if args.follow {
        return follow(context, &session, &task, pane, &args).await;
    }
    let (mut lines, cursor) = present(&session, &task, pane, &args).await?;
    if let Some(most) = args.lines {
        lines.drain(..lines.len().saturating_sub(most));
    }
    if args.json.json {
        return output::json(&json!({
            "windowId": task.window.to_string(),
            "windowName": task.name,
            "run": task.run,
            "lines": lines,
            "cursor": cursor.to_string(),
        }));
    }
    output::lines(lines.iter().map(String::as_str))
}

/// Returns the lines of the present run, and the cursor at their end.
async fn present(
    session: &Session,
    task: &Task,
    pane: PaneId,
    args: &Logs,
) -> Result<(Vec<String>, Cursor), Failure> {
    let failed = |error| context::tmux("logs", &error);
    let life = session
        .look("logs")
        .await?
        .life
        .ok_or_else(|| session.missing("logs"))?;
    let run = task.run.unwrap_or(1);
    let mut connection = session.connection();
    let (lines, end) = match &args.since {
        None => {
            let style = if args.raw { Style::Raw } else { Style::Plain };
            let log = tmux::read_log(&mut connection, pane, style)
                .await
                .map_err(failed)?;
            (log.lines, log.end)
        }
        Some(text) => {
            let cursor: Cursor = text
                .parse()
                .map_err(|error| Failure::new(Kind::Usage, "logs", error))?;
            if cursor.window != task.window || cursor.life != Cursor::life_of(&life) {
                let why = "the cursor is of another task or of another life of the session";
                return Err(Failure::new(Kind::Failed, "logs", why));
            }
            if cursor.run != run {
                let why = format!(
                    "the cursor is of run {}, the task is at run {run}",
                    cursor.run
                );
                return Err(Failure::new(Kind::Failed, "logs", why));
            }
            let output = tmux::read_output(&mut connection, pane, History::Whole)
                .await
                .map_err(failed)?;
            let located = locate(&cursor.anchor, &output.rows, output.history, output.limit);
            let Located::At(row) = located else {
                let why = "the cursor's line is no longer in the task's history";
                return Err(Failure::new(Kind::Impossible, "logs", why)
                    .with_hint("without --since, `tmux-task logs` prints what is left"));
            };
            (output.lines_from(row, cursor.anchor.column), output)
        }
    };
    let (column, _) = end.cursor;
    let anchor = Anchor::at(&end.rows, end.first_row(), end.cursor_row(), column);
    let cursor = Cursor {
        life: Cursor::life_of(&life),
        window: task.window,
        run,
        anchor,
    };
    Ok((lines, cursor))
}

/// Prints what stands there and goes on with what is written, until the run ends.
async fn follow(
    context: &Context,
    session: &Session,
    task: &Task,
    pane: PaneId,
    args: &Logs,
) -> Result<(), Failure> {
    let failed = |error| context::client("logs", &error);
    let Some(mut daemon) = session.daemon_or_start("logs").await? else {
        let why = format!("no daemon runs for session `{}`", session.name);
        return Err(Failure::new(Kind::Missing, "logs", why)
            .with_hint("start one with `tmux-task daemon --detach`"));
    };
    // Begun before what stands there is read: a line may come twice, none is missed.
    daemon
        .follow(task.window.to_string(), args.raw)
        .await
        .map_err(failed)?;
    let (mut lines, _) = present(session, task, pane, args).await?;
    if let Some(most) = args.lines {
        lines.drain(..lines.len().saturating_sub(most));
    }
    output::lines(lines.iter().map(String::as_str))?;
    context.limit.lift();
    // Also while output comes without a pause.
    let mut interrupts = context::interrupts("logs")?;
    loop {
        let piece = tokio::select! {
            piece = daemon.line() => piece.map_err(failed)?,
            _ = interrupts.recv() => return Err(Failure::silent(Kind::Interrupted)),
        };
        let Some(piece) = piece else { break };
        let text: Option<String> = serde_json::from_str(&piece)
            .map_err(|error| Failure::of(Kind::Failed, "logs", &error))?;
        // The run has ended, and this was all of it.
        let Some(text) = text else { return Ok(()) };
        if args.raw {
            output::text(&text)?
        } else {
            output::line(&text)?
        }
    }
    // The daemon has left, it lost its connection to tmux, or it let go of a reader too far behind.
    let why = "the daemon stopped sending the task's output; the rest is not shown";
    Err(Failure::new(Kind::Failed, "logs", why)
        .with_hint("`tmux-task logs` prints what the task's pane holds now"))
}

/// Prints the output of an earlier run, as it was kept when that ended.
async fn earlier(session: &Session, args: &Logs, run: u32) -> Result<(), Failure> {
    let kept = archive::find(&session.paths.runs(), &args.name, run).map_err(|error| {
        let failure = Failure::of(Kind::Failed, "logs", &error);
        if is_refusal(&error) {
            failure.with_hint("earlier runs are read from a folder of your own only: put one there")
        } else {
            failure
        }
    })?;
    let Some(kept) = kept else {
        // The present run is not kept yet.
        if let Ok(task) = session.task("logs", &args.name).await
            && task.run == Some(run)
            && let Some(pane) = task.pane
        {
            let (lines, _) = present(session, &task, pane, args).await?;
            return print(&lines, args, &task.window.to_string(), &task.name, run);
        }
        let why = format!("no output of run {run} of task `{}` was kept", args.name);
        return Err(Failure::new(Kind::Missing, "logs", why));
    };
    let about = &kept.about;
    print(&kept.lines, args, &about.window_id, &about.window_name, run)
}

fn print(lines: &[String], args: &Logs, window: &str, name: &str, run: u32) -> Result<(), Failure> {
    let first = args
        .lines
        .map_or(0, |most| lines.len().saturating_sub(most));
    let lines = &lines[first..];
    if args.json.json {
        return output::json(&json!({
            "windowId": window,
            "windowName": name,
            "run": run,
            "lines": lines,
            "cursor": null,
        }));
    }
    output::lines(lines.iter().map(String::as_str))
}
