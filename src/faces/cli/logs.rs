//! `logs`: a task's output: present, from a cursor on, or live.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::args::Logs;
use super::context::{self, Context};
use super::failure::{Failure, Kind, OrFail};
use super::{output, runs};
use crate::ops::{self, TaskSession};
use crate::terminal::columns_of;
use crate::wire::{LogRequest, TaskLog};

pub(super) async fn run(context: &Context, args: Logs) -> Result<(), Failure> {
    if args.runs {
        return runs::list(context, &args).await;
    }
    match print_or_follow(context, &args).await {
        Err(failure) if failure.kind == Kind::Missing && args.run.is_none() => {
            Err(failure.with_optional_hint(stored_hint(context, &args.names).await))
        }
        result => result,
    }
}

/// Returns that runs of one of these tasks are stored, though the task is gone.
async fn stored_hint(context: &Context, names: &[String]) -> Option<String> {
    let mut session = context.session("logs").await.ok()?;
    for name in names {
        let is_gone = ops::find(&mut session, name).await.is_err();
        let names = std::slice::from_ref(name);
        if is_gone && ops::stored_runs(&mut session, names).await.is_ok() {
            return Some(format!(
                "`tmux-task logs {name} --runs` lists its stored runs"
            ));
        }
    }
    None
}

async fn print_or_follow(context: &Context, args: &Logs) -> Result<(), Failure> {
    if let [_, _, ..] = &args.names[..] {
        return several(context, args).await;
    }
    let name = args.names.first().map_or("", String::as_str);
    let request = request(name, args);
    if let Some(run) = args.run {
        // It may be on the disk, in the session's files.
        let mut session = context.session("logs").await?;
        let log = ops::earlier_log(&mut session, request, run).await;
        return print(&last_lines(log.or_fail("logs")?, args), args);
    }
    let mut session = context.given("logs")?;
    if args.follow {
        let task = ops::find(&mut session, name).await.or_fail("logs")?;
        return follow(context, &session, &task.window_id, args, None).await;
    }
    let log = ops::present_log(&mut session, request).await;
    print(&last_lines(log.or_fail("logs")?, args), args)
}

fn request(name: &str, args: &Logs) -> LogRequest {
    LogRequest {
        task: name.to_owned(),
        raw: args.raw,
        since: args.since.clone(),
        lines: args.lines,
        history_rows: None,
    }
}

/// Prints the output of several tasks: one after the other, or as it comes, with the name before
/// each line.
async fn several(context: &Context, args: &Logs) -> Result<(), Failure> {
    let one = [
        (args.run.is_some(), "--run"),
        (args.since.is_some(), "--since"),
        (args.raw && args.follow, "--raw with --follow"),
    ];
    if let Some((_, option)) = one.iter().find(|(is_given, _)| *is_given) {
        let why = format!("{option} is for one task: give one name");
        return Err(Failure::new(Kind::Usage, "logs", why));
    }
    let mut session = context.given("logs")?;
    let mut tasks = Vec::new();
    for name in &args.names {
        tasks.push(ops::find(&mut session, name).await.or_fail("logs")?);
    }
    let session = &session;
    if args.follow {
        let width = tasks.iter().map(|task| columns_of(&task.window_name)).max();
        let tasks = tasks.iter().map(|task| async move {
            let name = &task.window_name;
            let pad = width.unwrap_or_default() - columns_of(name);
            let prefix = format!("{name}{} | ", " ".repeat(pad));
            follow(context, session, &task.window_id, args, Some(&prefix)).await
        });
        let mut followed: FuturesUnordered<_> = tasks.collect();
        while let Some(ended) = followed.next().await {
            ended?;
        }
        return Ok(());
    }
    for (index, task) in tasks.iter().enumerate() {
        let log = present(session, &task.window_id, args).await?;
        if !args.json.json {
            let space = if index == 0 { "" } else { "\n" };
            output::line(&format!("{space}==> {} <==", task.window_name))?;
        }
        print(&log, args)?;
    }
    Ok(())
}

/// Returns the requested part of the present run's output.
async fn present(session: &TaskSession, window: &str, args: &Logs) -> Result<TaskLog, Failure> {
    let log = ops::further_log(session, request(window, args)).await;
    Ok(last_lines(log.or_fail("logs")?, args))
}

fn last_lines(mut log: TaskLog, args: &Logs) -> TaskLog {
    if let Some(most) = args.lines {
        log.lines.drain(..log.lines.len().saturating_sub(most));
    }
    log
}

fn print(log: &TaskLog, args: &Logs) -> Result<(), Failure> {
    if args.json.json {
        return output::json(log);
    }
    output::lines(log.lines.iter().map(String::as_str))
}

/// Prints the present output and follows the run until it ends. Each line has this prefix.
async fn follow(
    context: &Context,
    session: &TaskSession,
    window: &str,
    args: &Logs,
    prefix: Option<&str>,
) -> Result<(), Failure> {
    // Following begins before the output is read: a line may come twice, but none is missed.
    let daemon = ops::follow_log(session, window, args.raw).await;
    let mut daemon = daemon.or_fail("logs")?;
    let log = present(session, window, args).await?;
    print_lines(log.lines.iter().map(String::as_str), prefix)?;
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
            print_lines(text.split('\n'), prefix)?
        }
    }
    // The daemon has ended, lost its connection to tmux, or disconnected a reader that was too far behind.
    let why = "the daemon stopped sending the task's output; the rest is not shown";
    Err(Failure::new(Kind::Failed, "logs", why)
        .with_hint("`tmux-task logs` prints what the task's pane holds now"))
}

/// Prints lines, each behind the prefix.
fn print_lines<'a>(
    lines: impl IntoIterator<Item = &'a str>,
    prefix: Option<&str>,
) -> Result<(), Failure> {
    let Some(prefix) = prefix else {
        return output::lines(lines);
    };
    let lines: Vec<String> = lines
        .into_iter()
        .map(|line| format!("{prefix}{line}"))
        .collect();
    output::lines(lines.iter().map(String::as_str))
}
