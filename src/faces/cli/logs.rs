//! `logs`: a task's output: present, from a cursor on, or live.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt};

use super::args::Logs;
use super::context::{self, Context};
use super::{output, runs};
use crate::client::DaemonClient;
use crate::model::{Error, ErrorKind, Task, WindowId};
use crate::ops::{self, TaskSession};
use crate::terminal::columns_of;
use crate::wire::{LiveRecord, LogRequest, LsTask, StreamRecord, TaskLog};

/// The piece of a followed output that says that it was all.
const END: &str = "null";

/// How many lines of each task are printed at first with `--all`.
const LAST_LINES: usize = 10;

pub(super) async fn run(context: &Context, mut args: Logs) -> Result<(), Error> {
    if args.runs {
        return runs::list(context, &args).await;
    }
    if args.all {
        args.lines.get_or_insert(LAST_LINES);
    }
    print_or_follow(context, &args).await
}

async fn print_or_follow(context: &Context, args: &Logs) -> Result<(), Error> {
    if args.names.len() != 1 {
        return several(context, args).await;
    }
    let name = args.names.first().map_or("", String::as_str);
    let request = request(name, args);
    if let Some(run) = args.run {
        // It may be on the disk, in the session's files.
        let mut session = context.session().await?;
        let log = ops::earlier_log(&mut session, request, run).await;
        return print(&last_lines(log?, args.lines), args);
    }
    let mut session = context.given()?;
    // What is gone has nothing to follow.
    if args.follow
        && let Ok(task) = ops::find(&mut session, name).await
    {
        return follow(
            context,
            &session,
            task.window.to_string(),
            args,
            args.lines,
            None,
        )
        .await;
    }
    let log = ops::last_log(&mut session, request).await;
    print(&last_lines(log?, args.lines), args)
}

fn request(name: &str, args: &Logs) -> LogRequest {
    LogRequest {
        task: name.to_owned(),
        raw: args.raw,
        since: args.since.clone(),
        lines: args.lines,
        ..LogRequest::default()
    }
}

/// Prints the output of several tasks: one after the other, or as it comes, with the name before
/// each line.
async fn several(context: &Context, args: &Logs) -> Result<(), Error> {
    let one = [
        (args.run.is_some(), "--run"),
        (args.since.is_some(), "--since"),
        (args.raw && args.follow, "--raw with --follow"),
    ];
    if let Some((_, option)) = one.iter().find(|(is_given, _)| *is_given) {
        let why = format!("{option} is for one task: give one name");
        return Err(Error::usage(why));
    }
    let mut session = context.given()?;
    let mut tasks = Vec::new();
    if args.all {
        let view = ops::list(&mut session).await?;
        if !view.exists {
            return Err(session.missing());
        }
        tasks = all_of(view.tasks, ops::own_pane(&session).as_deref());
    }
    if args.follow {
        for name in &args.names {
            tasks.push(ops::find(&mut session, name).await?);
        }
        return follow_several(context, &session, args, tasks).await;
    }
    let windows = tasks.iter().map(|task| task.window.to_string());
    let mut logs = Vec::new();
    for name in windows.chain(args.names.iter().cloned()) {
        let log = ops::last_log(&mut session, request(&name, args)).await;
        logs.push(log?);
    }
    for (index, log) in logs.into_iter().enumerate() {
        let log = last_lines(log, args.lines);
        if !args.json.json {
            let space = if index == 0 { "" } else { "\n" };
            output::line(&format!("{space}==> {} <==", log.window_name))?;
        }
        print(&log, args)?;
    }
    Ok(())
}

/// Returns the tasks that `--all` means: not shells, not the one that runs this command, which would
/// follow what it prints itself, and none that does the same: they would follow each other without end.
fn all_of(listed: Vec<LsTask>, own_pane: Option<&str>) -> Vec<Arc<Task>> {
    let own_pane = own_pane.and_then(|pane| pane.parse().ok());
    let is_own = |task: &Task| own_pane.is_some() && task.pane == own_pane;
    let follows_all = |task: &Task| task.command.as_deref().is_some_and(follows_all);
    let tasks = listed.into_iter().map(|listed| listed.task);
    let tasks = tasks.filter(|task| !task.shell && !is_own(task) && !follows_all(task));
    tasks.collect()
}

/// Whether a task's command is `tmux-task logs --all`, with or without other options and paths. A command
/// that does more than that has output of its own.
fn follows_all(command: &str) -> bool {
    let words = command.split_ascii_whitespace();
    let mut words = words.skip_while(|word| word.contains('=') || *word == "exec");
    !command.contains([';', '&', '|', '\n'])
        && words
            .next()
            .is_some_and(|word| word.rsplit('/').next() == Some("tmux-task"))
        && words.any(|word| word == "logs")
        && words.any(|word| word == "--all")
}

/// Follows the runs of these tasks until they end; with `--all` also those that begin later, until the
/// session ends.
async fn follow_several(
    context: &Context,
    session: &TaskSession,
    args: &Logs,
    tasks: Vec<Arc<Task>>,
) -> Result<(), Error> {
    let mut stream = None;
    if args.all {
        stream = Some(ops::task_stream(session).await?.0);
        context.limit.lift();
    }
    let own = ops::own_pane(session);
    let mut interrupts = context::interrupts()?;
    let mut names = Vec::new();
    let mut runs: BTreeMap<WindowId, Option<u32>> = BTreeMap::new();
    let mut followed = FuturesUnordered::new();
    let mut next = (tasks, args.lines);
    loop {
        // Of runs that begin later, all lines are new.
        let (tasks, lines) = std::mem::take(&mut next);
        for task in &tasks {
            if !names.contains(&task.name) {
                names.push(task.name.clone());
            }
        }
        for task in tasks {
            if runs.insert(task.window, task.run) != Some(task.run) {
                let prefix = prefix(&names, &task.name, output::is_coloured());
                let window = task.window.to_string();
                followed.push(follow(context, session, window, args, lines, Some(prefix)));
            }
        }
        if !args.all && followed.is_empty() {
            return Ok(());
        }
        // Losing an arm is safe: lines and interrupts are kept until they are received.
        let line = tokio::select! {
            Some(ended) = followed.next() => {
                match ended {
                    // It was gone before it could be followed.
                    Err(failure) if args.all && failure.kind == ErrorKind::Missing => {}
                    ended => ended?,
                }
                continue;
            }
            line = next_line(stream.as_mut()), if args.all => line?,
            _ = interrupts.recv() => return Err(Error::silent(ErrorKind::Interrupted)),
        };
        // Lines of later versions are passed over.
        if let Ok(StreamRecord::Live(LiveRecord::Tasks { exists, tasks, .. })) =
            serde_json::from_str(&line)
        {
            if !exists {
                // What was followed has ended with it.
                while followed.next().await.is_some() {}
                return Ok(());
            }
            next.0 = all_of(tasks, own.as_deref());
        }
    }
}

async fn next_line(stream: Option<&mut DaemonClient>) -> Result<String, Error> {
    let line = match stream {
        Some(stream) => stream.line().await?,
        None => None,
    };
    line.ok_or_else(stopped)
}

/// The parameters of the escape sequences for the colours of names.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// Returns what stands before the lines of the task `name`, as wide as for the others of `names`.
fn prefix(names: &[String], name: &str, is_coloured: bool) -> String {
    let width = names.iter().map(|name| columns_of(name)).max();
    let pad = " ".repeat(width.unwrap_or_default().saturating_sub(columns_of(name)));
    let place = names.iter().position(|known| known == name);
    let colour = COLOURS[place.unwrap_or_default() % COLOURS.len()];
    if is_coloured {
        format!("\x1b[{colour}m{name}{pad} |\x1b[m ")
    } else {
        format!("{name}{pad} | ")
    }
}

/// Returns the requested part of the present run's output, and of that the last lines.
async fn present(
    session: &TaskSession,
    window: &str,
    args: &Logs,
    lines: Option<usize>,
) -> Result<TaskLog, Error> {
    let request = LogRequest {
        lines,
        ..request(window, args)
    };
    let log = ops::further_log(session, request).await;
    Ok(last_lines(log?, lines))
}

fn last_lines(log: TaskLog, lines: Option<usize>) -> TaskLog {
    match lines {
        Some(most) => log.last(most),
        None => log,
    }
}

fn print(log: &TaskLog, args: &Logs) -> Result<(), Error> {
    if let Some(gone) = log.gone_words() {
        output::note(&format!("tmux-task: logs: {gone}"));
    }
    note_missing(log);
    if args.json.json {
        return output::json(log);
    }
    output::lines(&log.lines)
}

/// Notes which part of the output is missing.
fn note_missing(log: &TaskLog) {
    if let Some(missing) = log.missing() {
        output::note(&format!("tmux-task: logs: {missing}"));
    }
}

/// Prints the last lines of the present output and follows the run until it ends. Each line has this
/// prefix.
async fn follow(
    context: &Context,
    session: &TaskSession,
    window: String,
    args: &Logs,
    lines: Option<usize>,
    prefix: Option<String>,
) -> Result<(), Error> {
    let prefix = prefix.as_deref();
    // The daemon sends the lines that are there, and what follows them in the pane.
    let is_sent = !args.raw && args.since.is_none();
    let n_sent = if is_sent {
        lines.unwrap_or(usize::MAX)
    } else {
        0
    };
    let daemon = ops::follow_log(session, &window, args.raw, n_sent).await;
    let mut daemon = daemon?;
    let mut early = VecDeque::new();
    if !is_sent {
        // Following begins before the output is read, so that no line is missed.
        let log = present(session, &window, args, lines).await?;
        while let Some(Ok(Some(piece))) = daemon.line().now_or_never() {
            early.push_back(piece);
        }
        if !early.is_empty() && is_unchanged(session, &window, &log).await {
            // All of it is in what was read.
            early.retain(|piece| piece == END);
        }
        note_missing(&log);
        print_lines(&log.lines, prefix)?;
    } else if lines.is_none() {
        note_missing(&present(session, &window, args, None).await?);
    }
    context.limit.lift();
    let followed = print_followed(daemon, early, args.raw, prefix);
    context::unless_interrupted(followed).await?
}

/// Prints the output that a daemon sends, after what has arrived `early`, until the run ends.
pub(super) async fn print_followed(
    mut daemon: DaemonClient,
    mut early: VecDeque<String>,
    is_raw: bool,
    prefix: Option<&str>,
) -> Result<(), Error> {
    loop {
        let piece = match early.pop_front() {
            Some(piece) => piece,
            None => match daemon.line().await? {
                Some(piece) => piece,
                None => return Err(stopped()),
            },
        };
        let text: Option<String> = serde_json::from_str(&piece).map_err(Error::of)?;
        // The run has ended, and this was all of it.
        let Some(text) = text else { return Ok(()) };
        if is_raw {
            output::text(&text)?;
        } else {
            print_lines(text.split('\n'), prefix)?;
        }
    }
}

/// Whether a task has written nothing since its output was read.
async fn is_unchanged(session: &TaskSession, window: &str, log: &TaskLog) -> bool {
    let request = LogRequest {
        task: window.to_owned(),
        since: log.cursor.clone(),
        ..LogRequest::default()
    };
    let later = ops::further_log(session, request).await;
    log.cursor.is_some() && later.is_ok_and(|later| later.lines.is_empty())
}

/// The daemon has ended, lost its connection to tmux, or disconnected a reader that was too far behind.
fn stopped() -> Error {
    let why = "the daemon stopped sending the task's output; the rest is not shown";
    Error::failed(why).with_hint("`tmux-task logs` prints what the task's pane holds now")
}

/// Prints lines, each behind the prefix.
fn print_lines(
    lines: impl IntoIterator<Item = impl AsRef<str>>,
    prefix: Option<&str>,
) -> Result<(), Error> {
    let Some(prefix) = prefix else {
        return output::lines(lines);
    };
    let lines = lines.into_iter();
    output::lines(lines.map(|line| format!("{prefix}{}", line.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_follow_all_are_known_by_their_commands() {
        for command in [
            "tmux-task logs --all -f",
            "NO_COLOR=1 exec /opt/tmux-task -s work logs -f --all",
        ] {
            assert!(follows_all(command), "{command}");
        }
        for command in [
            "tmux-task logs api -f",
            "npm logs --all",
            "npx tmux-task logs --all",
            "tmux-task logs api; make --all",
            "tmux-task ls --all",
        ] {
            assert!(!follows_all(command), "{command}");
        }
    }

    #[test]
    fn names_stand_below_each_other_each_in_its_colour() {
        let names = ["web", "worker"].map(str::to_owned);
        assert_eq!(prefix(&names, "web", false), "web    | ");
        assert_eq!(prefix(&names, "web", true), "\x1b[36mweb    |\x1b[m ");
        assert_eq!(prefix(&names, "worker", true), "\x1b[33mworker |\x1b[m ");
    }
}
