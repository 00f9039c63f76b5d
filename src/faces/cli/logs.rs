//! `logs`: a task's output: present, from a cursor on, live, or of runs that have ended. `search`: searches
//! it, as `wait` does what is yet to come.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;

use super::context::{self, Context};
use super::output::{self, Json};
use super::table::{self, NARROW, NARROW_NAME, Narrowing, or_dash};
use crate::client::DaemonClient;
use crate::clock;
use crate::model::{Error, ErrorKind, RunEnd, Task, WindowId, age, took};
use crate::ops::{self, LINES, RunInfo, SearchArguments, TaskSession, number, task_names};
use crate::rules::terminal::columns_of;
use crate::rules::wire::{
    LiveRecord, LogRequest, LsTask, SearchMatch, SearchResult, StreamRecord, TaskLog,
};

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The tasks, by name or window id
    #[arg(required_unless_present = "all", value_name = "NAME", add = task_names::candidates())]
    names: Vec<String>,
    /// The end of the output of all tasks; with --follow also of those that are started later, until the
    /// session ends
    #[arg(long, conflicts_with_all = ["names", "since", "run"])]
    all: bool,
    /// Only the last N lines [default with --all: 10]
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<usize>(LINES), allow_negative_numbers = true)]
    lines: Option<usize>,
    /// Follow new output until the run ends
    #[arg(short, long, conflicts_with_all = ["json", "run"])]
    pub(super) follow: bool,
    /// Start at this cursor, from `run --json`, `logs --json` or `wait --json`
    #[arg(long, value_name = "CURSOR", conflicts_with = "run")]
    since: Option<String>,
    /// The stored output of an earlier run
    #[arg(long, value_name = "N", value_parser = number::<u32>("not the number of a run, like 3"), allow_negative_numbers = true, conflicts_with = "raw")]
    run: Option<u32>,
    /// List the ended runs whose output is stored, the last one last; -n N the last N of each task
    #[arg(long, conflicts_with_all = ["follow", "since", "run", "raw"])]
    runs: bool,
    /// Keep escape sequences, as the task wrote them or tmux has them
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    json: Json,
}

pub(super) async fn run(context: &Context, mut args: Logs) -> Result<(), Error> {
    if args.runs {
        return list_runs(context, &args).await;
    }
    if args.all {
        args.lines.get_or_insert(10);
    }
    let args = &args;
    if args.names.len() != 1 {
        return several(context, args).await;
    }
    let name = &args.names[0];
    let request = request(name, args);
    let log = if let Some(run) = args.run {
        // It may be on the disk, in the session's files.
        let mut session = context.session().await?;
        ops::earlier_log(&mut session, request, run).await?
    } else {
        let mut session = context.given()?;
        // What is gone has nothing to follow.
        if args.follow
            && let Ok(task) = ops::find(&mut session, name).await
        {
            let window = task.window.to_string();
            return follow(context, &session, window, args, args.lines, None).await;
        }
        ops::last_log(&mut session, request).await?
    };
    print(log, args)
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

/// Prints the output of several tasks: one after the other, or as it comes, behind their names.
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
        logs.push(ops::last_log(&mut session, request(&name, args)).await?);
    }
    for (index, log) in logs.into_iter().enumerate() {
        if !args.json.json {
            let space = if index == 0 { "" } else { "\n" };
            output::line(&format!("{space}==> {} <==", log.window_name))?;
        }
        print(log, args)?;
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

/// Follows the runs of these tasks; with `--all` also later ones, until the session ends.
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
                let prefix = prefix(&names, &task.name, output::viewer().is_coloured);
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

fn last_lines(log: TaskLog, lines: Option<usize>) -> TaskLog {
    match lines {
        Some(most) => log.last(most),
        None => log,
    }
}

fn print(log: TaskLog, args: &Logs) -> Result<(), Error> {
    let log = last_lines(log, args.lines);
    if let Some(gone) = log.gone_words() {
        output::note(&format!("tmux-task: logs: {gone}"));
    }
    note_missing(&log);
    if args.json.json {
        return output::json(&log);
    }
    output::lines(&log.lines)
}

fn note_missing(log: &TaskLog) {
    if let Some(missing) = log.missing() {
        output::note(&format!("tmux-task: logs: {missing}"));
    }
}

/// Prints the last lines and follows the run until it ends. Each line has this prefix.
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
    let daemon = ops::follow_log(session, &window, args.raw, n_sent).await?;
    // Following begins before the output is read, so that no line is missed.
    if !is_sent || lines.is_none() {
        let request = LogRequest {
            lines,
            ..request(&window, args)
        };
        let log = ops::present_log(&mut session.for_request(), request).await?;
        let log = last_lines(log, lines);
        note_missing(&log);
        if !is_sent {
            print_lines(&log.lines, prefix)?;
        }
    }
    context.limit.lift();
    let followed = context::unless_unread(print_followed(daemon, args.raw, prefix));
    context::unless_interrupted(followed).await??
}

/// Prints the output that a daemon sends, until the run ends.
pub(super) async fn print_followed(
    mut daemon: DaemonClient,
    is_raw: bool,
    prefix: Option<&str>,
) -> Result<(), Error> {
    loop {
        let piece = next_line(Some(&mut daemon)).await?;
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

/// The daemon has ended, lost its connection to tmux, or disconnected a reader that was too far behind.
fn stopped() -> Error {
    let why = "the daemon stopped sending the task's output; the rest is not shown";
    Error::failed(why).with_hint("`tmux-task logs` prints what the task's pane holds now")
}

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

pub(super) async fn search(context: &Context, args: SearchArguments) -> Result<(), Error> {
    let mut session = context.given()?;
    let is_json = args.json;
    let (found, gone) = ops::search(&mut session, args.request()).await?;
    let SearchResult {
        matches: found,
        incomplete,
    } = found;
    for note in gone.iter().chain(&incomplete) {
        output::note(&format!("tmux-task: search: {note}"));
    }
    if is_json {
        output::json(&found)?;
    } else {
        let line = |found: &SearchMatch| {
            let (window, name) = (&found.window_id, &found.window_name);
            format!("{window} {name}:{}: {}", found.line_number, found.line)
        };
        output::lines(found.iter().map(line))?;
    }
    // As with grep: no match is not a success. What is missing may have matched.
    match (found.is_empty(), incomplete.is_empty()) {
        (false, _) => Ok(()),
        (true, true) => Err(Error::silent(ErrorKind::Failed)),
        (true, false) => Err(Error::silent(ErrorKind::Impossible)),
    }
}

const RUNS: [&str; 6] = ["NAME", "RUN", "CODE", "ENDED", "TOOK", "COMMAND"];

/// The command of a task's runs is mostly the same.
const NARROW_RUNS: Narrowing<'_> = Narrowing {
    cuts: &[(5, NARROW), (0, NARROW_NAME)],
    dispensable: &[5, 4, 3],
};

async fn list_runs(context: &Context, args: &Logs) -> Result<(), Error> {
    let mut session = context.session().await?;
    let mut runs = ops::stored_runs(&mut session, &args.names).await?;
    if let Some(most) = args.lines {
        runs = ops::last_of_each(runs, &args.names, most);
    }
    if args.json.json {
        let with_duration = |run: &RunInfo| {
            let mut value = json!(run);
            value["durationMs"] = json!(run.duration());
            value
        };
        let runs: Vec<_> = runs.iter().map(with_duration).collect();
        return output::json(&runs);
    }
    let now = clock::now().wall;
    let ended = |run: &RunInfo| Some(format!("{} ago", age(now - run.ended_at?)));
    let mut rows = vec![RUNS.map(str::to_owned)];
    rows.extend(runs.iter().map(|run| {
        [
            run.window_name.clone(),
            run.run.to_string(),
            or_dash(end_of(run)),
            or_dash(ended(run)),
            or_dash(run.duration().map(took)),
            or_dash(run.current_command.clone()),
        ]
    }));
    let columns = output::viewer().stdout_columns;
    output::lines(table::lines(&rows, columns, &NARROW_RUNS, |_| None))
}

fn end_of(run: &RunInfo) -> Option<String> {
    if run.reason.as_deref() == Some("replaced") {
        return run.reason.clone();
    }
    match RunEnd::of(run.exit_signal.as_deref(), run.exit_code) {
        RunEnd::Signal(signal) => Some(signal.to_owned()),
        RunEnd::Code(code) => Some(code.to_string()),
        RunEnd::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::terminal::columns_of;

    #[test]
    fn tasks_that_follow_all_are_known_by_their_commands() {
        for (command, expected) in [
            ("tmux-task logs --all -f", true),
            ("NO_COLOR=1 exec /opt/tmux-task -s work logs -f --all", true),
            ("tmux-task logs api -f", false),
            ("npm logs --all", false),
            ("tmux-task ls --all", false),
        ] {
            assert_eq!(follows_all(command), expected, "{command}");
        }
    }

    #[test]
    fn names_stand_below_each_other_each_in_its_colour() {
        let names = ["web", "worker"].map(str::to_owned);
        assert_eq!(prefix(&names, "web", false), "web    | ");
        assert_eq!(prefix(&names, "web", true), "\x1b[36mweb    |\x1b[m ");
        assert_eq!(prefix(&names, "worker", true), "\x1b[33mworker |\x1b[m ");
    }

    #[test]
    fn the_table_of_runs_fits_the_terminal() {
        let run = [
            "integration-tests-postgres",
            "12",
            "SIGTERM",
            "59m ago",
            "1h12m",
            "cargo test --workspace --all-features",
        ];
        let rows = [RUNS, run].map(|row| row.map(str::to_owned));
        let at = |columns| table::lines(&rows, Some(columns), &NARROW_RUNS, |_| None);
        for columns in 33..=100 {
            for line in at(columns) {
                assert!(columns_of(&line) <= columns, "{columns}: {line}");
            }
        }
        let expected = [
            "NAME                  RUN  CODE     ENDED    TOOK   COMMAND",
            "integration-tests-p…  12   SIGTERM  59m ago  1h12m  cargo t…",
        ];
        assert_eq!(at(60), expected);
        let expected = [
            "NAME               RUN  CODE     ENDED",
            "integration-test…  12   SIGTERM  59m ago",
        ];
        assert_eq!(at(40), expected);
    }
}
