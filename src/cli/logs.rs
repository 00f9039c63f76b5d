//! `logs`: a task's output: present, from a cursor on, or live.

use serde_json::json;

use super::args::Logs;
use super::context::{self, Context};
use super::failure::{Failure, Kind, OrFail};
use super::output;
use crate::model::Task;
use crate::ops::{self, Log, Session};

pub(super) async fn run(context: &Context, args: Logs) -> Result<(), Failure> {
    let session = context.session("logs").await?;
    if let Some(run) = args.run {
        let log = ops::earlier_log(&session, &args.name, run, args.raw).await;
        return print(&last_lines(log.or_fail("logs")?, &args), &args);
    }
    let task = session.task(&args.name).await.or_fail("logs")?;
    if args.follow {
        return follow(context, &session, &task, &args).await;
    }
    print(&present(&session, &task, &args).await?, &args)
}

/// Returns the requested part of the present run's output.
async fn present(session: &Session, task: &Task, args: &Logs) -> Result<Log, Failure> {
    let log = ops::present_log(session, task, args.raw, args.since.as_deref()).await;
    Ok(last_lines(log.or_fail("logs")?, args))
}

fn last_lines(mut log: Log, args: &Logs) -> Log {
    if let Some(most) = args.lines {
        log.lines.drain(..log.lines.len().saturating_sub(most));
    }
    log
}

fn print(log: &Log, args: &Logs) -> Result<(), Failure> {
    if args.json.json {
        return output::json(&json!({
            "windowId": log.window,
            "windowName": log.name,
            "run": log.run,
            "lines": log.lines,
            "cursor": log.cursor.as_ref().map(ToString::to_string),
        }));
    }
    output::lines(log.lines.iter().map(String::as_str))
}

/// Prints the present output and follows the run until it ends.
async fn follow(
    context: &Context,
    session: &Session,
    task: &Task,
    args: &Logs,
) -> Result<(), Failure> {
    // Following begins before the output is read: a line may come twice, but none is missed.
    let daemon = ops::follow_log(session, task, args.raw).await;
    let mut daemon = daemon.or_fail("logs")?;
    let log = present(session, task, args).await?;
    output::lines(log.lines.iter().map(String::as_str))?;
    context.limit.lift();
    // Also while output arrives without a pause.
    let mut interrupts = context::interrupts("logs")?;
    loop {
        let piece = tokio::select! {
            piece = daemon.line() => piece.or_fail("logs")?,
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
    // The daemon has ended, lost its connection to tmux, or disconnected a reader that was too far behind.
    let why = "the daemon stopped sending the task's output; the rest is not shown";
    Err(Failure::new(Kind::Failed, "logs", why)
        .with_hint("`tmux-task logs` prints what the task's pane holds now"))
}
