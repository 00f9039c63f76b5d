//! `logs`: a task's output: present, from a cursor on, or live.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::args::Logs;
use super::context::{self, Context};
use super::failure::{Failure, Kind, OrFail};
use super::{output, runs};
use crate::ops::{self, TaskSession};
use crate::terminal::columns_of;
use crate::wire::{LiveRecord, LogRequest, LsTask, StreamRecord, TaskLog};

/// How many lines of each task are printed at first with `--all`.
const LAST_LINES: usize = 10;

pub(super) async fn run(context: &Context, mut args: Logs) -> Result<(), Failure> {
    if args.runs {
        return runs::list(context, &args).await;
    }
    if args.all {
        args.lines.get_or_insert(LAST_LINES);
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
    if args.names.len() != 1 {
        return several(context, args).await;
    }
    let name = args.names.first().map_or("", String::as_str);
    let request = request(name, args);
    if let Some(run) = args.run {
        // It may be on the disk, in the session's files.
        let mut session = context.session("logs").await?;
        let log = ops::earlier_log(&mut session, request, run).await;
        return print(&last_lines(log.or_fail("logs")?, args.lines), args);
    }
    let mut session = context.given("logs")?;
    if args.follow {
        let task = ops::find(&mut session, name).await.or_fail("logs")?;
        return follow(context, &session, &task.window_id, args, args.lines, None).await;
    }
    let log = ops::present_log(&mut session, request).await;
    print(&last_lines(log.or_fail("logs")?, args.lines), args)
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
    if args.all {
        let view = ops::list(&mut session).await.or_fail("logs")?;
        if !view.exists {
            return Err(session.missing()).or_fail("logs");
        }
        let own = ops::own_pane(&session);
        let listed = view
            .tasks
            .into_iter()
            .filter(|listed| is_meant(listed, own.as_deref()));
        tasks.extend(listed.map(|listed| listed.task));
    }
    for name in &args.names {
        tasks.push(ops::find(&mut session, name).await.or_fail("logs")?);
    }
    let session = &session;
    if args.follow {
        let mut prefixes = Prefixes::default();
        for task in &tasks {
            prefixes.add(&task.window_name);
        }
        if args.all {
            return follow_all(context, session, args, prefixes).await;
        }
        let prefixes = &prefixes;
        let tasks = tasks.iter().map(|task| async move {
            let prefix = prefixes.of(&task.window_name);
            follow(
                context,
                session,
                &task.window_id,
                args,
                args.lines,
                Some(&prefix),
            )
            .await
        });
        let mut followed: FuturesUnordered<_> = tasks.collect();
        while let Some(ended) = followed.next().await {
            ended?;
        }
        return Ok(());
    }
    for (index, task) in tasks.iter().enumerate() {
        let log = present(session, &task.window_id, args, args.lines).await?;
        if !args.json.json {
            let space = if index == 0 { "" } else { "\n" };
            output::line(&format!("{space}==> {} <==", task.window_name))?;
        }
        print(&log, args)?;
    }
    Ok(())
}

/// Whether `--all` means this one: not a shell, and not the one that runs this command, which would
/// follow what it prints itself.
fn is_meant(listed: &LsTask, own_pane: Option<&str>) -> bool {
    let is_own = own_pane.is_some() && listed.task.pane_id.as_deref() == own_pane;
    !listed.task.shell && !is_own
}

/// Follows the runs of all tasks, also those that begin later, until the session ends.
async fn follow_all(
    context: &Context,
    session: &TaskSession,
    args: &Logs,
    mut prefixes: Prefixes,
) -> Result<(), Failure> {
    let (mut stream, _) = ops::task_stream(session).await.or_fail("logs")?;
    context.limit.lift();
    let mut interrupts = context::interrupts("logs")?;
    let own = ops::own_pane(session);
    let mut runs: BTreeMap<String, Option<u32>> = BTreeMap::new();
    let mut followed = FuturesUnordered::new();
    let mut lines = args.lines;
    loop {
        // Losing an arm is safe: lines and interrupts are kept until they are received.
        let line = tokio::select! {
            line = stream.line() => line.or_fail("logs")?,
            Some(ended) = followed.next() => {
                let ended: Result<(), Failure> = ended;
                // It was gone before it could be followed.
                ended.or_else(|failure| match failure.kind {
                    Kind::Missing => Ok(()),
                    _ => Err(failure),
                })?;
                continue;
            }
            _ = interrupts.recv() => return Err(Failure::silent(Kind::Interrupted)),
        };
        let Some(line) = line else {
            return Err(stopped());
        };
        // Lines of later versions are passed over.
        let Ok(StreamRecord::Live(LiveRecord::Tasks { exists, tasks, .. })) =
            serde_json::from_str(&line)
        else {
            continue;
        };
        if !exists {
            // What was followed has ended with it.
            while followed.next().await.is_some() {}
            return Ok(());
        }
        for listed in tasks {
            if !is_meant(&listed, own.as_deref()) {
                continue;
            }
            let task = listed.task;
            if runs.insert(task.window_id.clone(), task.run) == Some(task.run) {
                continue;
            }
            prefixes.add(&task.window_name);
            let prefix = prefixes.of(&task.window_name);
            followed.push(async move {
                follow(
                    context,
                    session,
                    &task.window_id,
                    args,
                    lines,
                    Some(&prefix),
                )
                .await
            });
        }
        // Of what begins later, all is new.
        lines = None;
    }
}

/// What stands before the lines of several tasks: their names.
#[derive(Debug, Default)]
struct Prefixes {
    names: Vec<String>,
}

impl Prefixes {
    /// The parameters of the escape sequences for the names' colours.
    const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

    fn add(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// Returns the prefix of a name that was added, as wide as that of the others.
    fn of(&self, name: &str) -> String {
        self.with_colours(name, output::is_coloured())
    }

    fn with_colours(&self, name: &str, is_coloured: bool) -> String {
        let width = self.names.iter().map(|name| columns_of(name)).max();
        let pad = " ".repeat(width.unwrap_or_default().saturating_sub(columns_of(name)));
        let place = self.names.iter().position(|known| known == name);
        let colour = Self::COLOURS[place.unwrap_or_default() % Self::COLOURS.len()];
        if is_coloured {
            format!("\x1b[{colour}m{name}{pad} |\x1b[m ")
        } else {
            format!("{name}{pad} | ")
        }
    }
}

/// Returns the requested part of the present run's output, and of that the last lines.
async fn present(
    session: &TaskSession,
    window: &str,
    args: &Logs,
    lines: Option<usize>,
) -> Result<TaskLog, Failure> {
    let request = LogRequest {
        lines,
        ..request(window, args)
    };
    let log = ops::further_log(session, request).await;
    Ok(last_lines(log.or_fail("logs")?, lines))
}

fn last_lines(mut log: TaskLog, lines: Option<usize>) -> TaskLog {
    if let Some(most) = lines {
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

/// Prints the last lines of the present output and follows the run until it ends. Each line has this
/// prefix.
async fn follow(
    context: &Context,
    session: &TaskSession,
    window: &str,
    args: &Logs,
    lines: Option<usize>,
    prefix: Option<&str>,
) -> Result<(), Failure> {
    // Following begins before the output is read: a line may come twice, but none is missed.
    let daemon = ops::follow_log(session, window, args.raw).await;
    let mut daemon = daemon.or_fail("logs")?;
    let log = present(session, window, args, lines).await?;
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
    Err(stopped())
}

/// The daemon has ended, lost its connection to tmux, or disconnected a reader that was too far behind.
fn stopped() -> Failure {
    let why = "the daemon stopped sending the task's output; the rest is not shown";
    Failure::new(Kind::Failed, "logs", why)
        .with_hint("`tmux-task logs` prints what the task's pane holds now")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_below_each_other_each_in_its_colour() {
        let mut prefixes = Prefixes::default();
        for name in ["web", "worker", "web"] {
            prefixes.add(name);
        }
        assert_eq!(prefixes.with_colours("web", false), "web    | ");
        assert_eq!(
            prefixes.with_colours("web", true),
            "\x1b[36mweb    |\x1b[m "
        );
        assert_eq!(
            prefixes.with_colours("worker", true),
            "\x1b[33mworker |\x1b[m "
        );
    }
}
