//! `ls`: the tasks as a table or as JSON. `status`: the status line. `explain`: why a task is or is not
//! judged to wait for input.

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::output::{self, Json};
use super::table::{self, NARROW, NARROW_NAME, Narrowing, or_dash};
use crate::clock;
use crate::model::{Error, ErrorKind, Millis, RunEnd, Task, age, port_words, text, took};
use crate::ops::{self, Everywhere, PendingArguments, task_names};
use crate::rules::terminal::fitted;
use crate::rules::wire::{LiveRecord, LsTask, LsView, TaskStateName};

#[derive(Debug, Args)]
pub(super) struct Ls {
    /// Only tasks whose name or command contains this text, in upper or lower case; or of this window id
    #[arg(add = task_names::candidates())]
    filter: Option<String>,
    /// Only tasks that have ended with another code than 0 or by a signal; --failed, --waiting and
    /// --running together select tasks of each of these states
    #[arg(long)]
    failed: bool,
    /// Only tasks that ask for input
    #[arg(long)]
    waiting: bool,
    /// Only tasks that run and do not ask for input
    #[arg(long)]
    running: bool,
    /// All task sessions: those of this tmux server, and those of others that have a daemon
    #[arg(short, long)]
    pub(super) all: bool,
    /// Do not cut commands and lines
    #[arg(short, long)]
    wide: bool,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The task, by name or window id
    #[arg(add = task_names::candidates())]
    name: String,
    #[command(flatten)]
    json: Json,
}

/// The maximum width of the command and of the last line in the table, in columns.
const COLUMN: usize = 52;

const COLUMNS: [&str; 10] = [
    "ID",
    "NAME",
    "STATE",
    "CODE",
    "RUN",
    "AGE",
    "USUALLY",
    "PORTS",
    "COMMAND",
    "LAST LINE",
];
const ID: usize = 0;
const NAME: usize = 1;
const STATE: usize = 2;
const CODE: usize = 3;
const RUN: usize = 4;
const AGE: usize = 5;
const USUALLY: usize = 6;
const PORTS: usize = 7;
const COMMAND: usize = 8;
const LAST_LINE: usize = 9;

/// From this width of a terminal on usual durations are shown, if any are known.
const WITH_USUALLY: usize = 80;

/// The columns that are left out on a narrow terminal, the first one first.
const DISPENSABLE: [usize; 8] = [USUALLY, RUN, ID, COMMAND, AGE, LAST_LINE, PORTS, CODE];

pub(super) async fn run(context: &Context, args: Ls) -> Result<(), Error> {
    if args.all {
        return all(context, &args).await;
    }
    let mut session = context.given()?;
    let mut view = ops::list(&mut session).await?;
    if !view.exists {
        return Err(session.missing());
    }
    view.tasks.retain(|task| is_selected(task, &args));
    ops::add_ports(&mut view);
    if args.json.json {
        return output::json(&view);
    }
    let table = table_of(&view, clock::now().wall, Style::of(args.wide));
    output::lines(&table)
}

async fn all(context: &Context, args: &Ls) -> Result<(), Error> {
    // From here on the server has to answer.
    context.given()?;
    let Everywhere {
        mut sessions,
        silent,
    } = ops::list_everywhere(&context.global.choice()).await?;
    for socket in silent {
        let socket = socket.display();
        context.say(&format!(
            "a daemon does not answer, its session is left out: {socket}"
        ));
    }
    let is_filtered = args.filter.is_some() || args.failed || args.waiting || args.running;
    sessions.retain_mut(|listed| {
        listed.view.tasks.retain(|task| is_selected(task, args));
        ops::add_ports(&mut listed.view);
        !is_filtered || !listed.view.tasks.is_empty()
    });
    if args.json.json {
        return output::json(&json!({ "sessions": sessions }));
    }
    let (now, style) = (clock::now().wall, Style::of(args.wide));
    let mut lines = Vec::new();
    for listed in &sessions {
        let view = &listed.view;
        let tasks = text::counted(view.tasks.len(), "task");
        let server = match listed.is_here {
            true => String::new(),
            false => format!(", server {}", listed.server),
        };
        let daemon = if view.supervised { "" } else { ", no daemon" };
        let heading = format!("{} ({tasks}{server}{daemon})", view.session_name);
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(fitted(&heading, style.columns.unwrap_or(usize::MAX)));
        if !view.tasks.is_empty() {
            lines.extend(table_of(view, now, style));
        }
    }
    output::lines(&lines)
}

fn is_selected(listed: &LsTask, args: &Ls) -> bool {
    let has_state = match listed.state {
        TaskStateName::Exited | TaskStateName::Killed => args.failed && listed.has_failed(),
        TaskStateName::Waiting => args.waiting,
        TaskStateName::Running => args.running,
        TaskStateName::Queued | TaskStateName::Restarting | TaskStateName::Shell => false,
    };
    let is_any_state = !(args.failed || args.waiting || args.running);
    let is_named = args.filter.as_deref().is_none_or(|filter| {
        let task = &listed.task;
        let filter = filter.to_lowercase();
        let contains = |text: &str| text.to_lowercase().contains(&filter);
        task.window.to_string() == filter
            || contains(&task.name)
            || task.command.as_deref().is_some_and(contains)
    });
    (is_any_state || has_state) && is_named
}

#[derive(Debug, Clone, Copy)]
struct Style {
    /// The width of the terminal, if the lines are to fit it.
    columns: Option<usize>,
    /// The maximum width of the command and of the last line.
    longest: usize,
    is_coloured: bool,
}

impl Style {
    fn of(is_wide: bool) -> Self {
        Self {
            columns: output::viewer().stdout_columns.filter(|_| !is_wide),
            longest: if is_wide { usize::MAX } else { COLUMN },
            is_coloured: output::viewer().is_coloured,
        }
    }
}

fn table_of(view: &LsView, now: Millis, style: Style) -> Vec<String> {
    let is_any_usual_known = view.tasks.iter().any(|task| task.usual_ms.is_some());
    let has_room = style.columns.is_none_or(|columns| columns >= WITH_USUALLY);
    let shows_usual = is_any_usual_known && has_room;
    let shows_ports = view
        .tasks
        .iter()
        .any(|listed| listens_on(&listed.task).is_some());
    let header = std::iter::once(COLUMNS.map(String::from));
    let mut rows: Vec<_> = header
        .chain(view.tasks.iter().map(|task| row(task, now)))
        .collect();
    for row in &mut rows {
        for (column, is_shown) in [(USUALLY, shows_usual), (PORTS, shows_ports)] {
            if !is_shown {
                row[column].clear();
            }
        }
        for column in [COMMAND, LAST_LINE] {
            row[column] = fitted(&row[column], style.longest);
        }
    }
    let third = (style.columns.unwrap_or_default() / 3).max(NARROW);
    let narrowing = Narrowing {
        cuts: &[
            (COMMAND, third),
            (LAST_LINE, third),
            (COMMAND, NARROW),
            (LAST_LINE, NARROW),
            (NAME, NARROW_NAME),
        ],
        dispensable: &DISPENSABLE,
    };
    table::lines(&rows, style.columns, &narrowing, |row| {
        let listed = view.tasks.get(row.checked_sub(1)?)?;
        Some((STATE, colour(listed).filter(|_| style.is_coloured)?))
    })
}

/// Returns the colour of a task's state, as a parameter of the escape sequence.
fn colour(listed: &LsTask) -> Option<&'static str> {
    let task = &listed.task;
    match listed.state {
        TaskStateName::Shell => Some("2"),
        TaskStateName::Waiting => Some("1;33"),
        _ if listed.has_failed() => Some("31"),
        TaskStateName::Restarting => Some("33"),
        TaskStateName::Running if task.stopped.is_some() => Some("33"),
        TaskStateName::Running => Some("32"),
        TaskStateName::Queued | TaskStateName::Exited | TaskStateName::Killed => None,
    }
}

fn listens_on(task: &Task) -> Option<&[u16]> {
    let ports = task.ports.as_deref();
    ports.filter(|ports| !ports.is_empty())
}

fn row(listed: &LsTask, now: Millis) -> [String; COLUMNS.len()] {
    let task = &listed.task;
    let code = match task.run_end() {
        _ if task.is_alive() => or_dash(None),
        RunEnd::Signal(signal) => signal.to_owned(),
        RunEnd::Code(code) => code.to_string(),
        RunEnd::Unknown => "?".to_owned(),
    };
    let restart = listed
        .next_restart
        .map(|next| ops::restart_words(next, now));
    let prevented = listed.cannot_restart.as_deref();
    let restart = restart.or_else(|| prevented.map(ops::cannot_restart_words));
    let last = restart.as_deref().or(listed.waiting_for.as_deref());
    let last = last.or(task.exit_hint()).map(str::to_owned);
    let last = last.unwrap_or_else(|| task.last_line());
    let trimmed = |text: &str| text.trim().to_owned();
    [
        task.window.to_string(),
        task.name.clone(),
        listed.state_word(),
        code,
        or_dash(task.run.map(|run| run.to_string())),
        or_dash(task.started_at.map(|at| age(now - at))),
        or_dash(listed.usual_ms.map(took)),
        or_dash(listens_on(task).map(port_words)),
        trimmed(task.command.as_deref().unwrap_or("-")),
        trimmed(&last),
    ]
}

pub(super) async fn status(context: &Context, args: Json) -> Result<(), Error> {
    let mut session = context.given()?;
    let counts = ops::count(&mut session).await?;
    if args.json {
        return output::json(&LiveRecord::from(counts));
    }
    let line = counts.line_with_details();
    line.map_or(Ok(()), |line| output::line(&line))
}

pub(super) async fn pending(context: &Context, args: PendingArguments) -> Result<(), Error> {
    let mut session = context.given()?;
    let pending = ops::pending(&mut session, &args).await?;
    match pending.line() {
        _ if args.json => output::json(&pending)?,
        Some(line) => output::line(&line)?,
        None => {}
    }
    match pending.tasks.is_empty() {
        true => Ok(()),
        false => Err(Error::silent(ErrorKind::Failed)),
    }
}

pub(super) async fn explain(context: &Context, args: Explain) -> Result<(), Error> {
    let mut session = context.given()?;
    let explanation = ops::explain(&mut session, &args.name).await?;
    if args.json.json {
        return output::json(&explanation);
    }
    let lines = ops::explanation_lines(&explanation, clock::now().wall);
    output::lines(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation;
    use crate::rules::terminal::columns_of;

    fn style(columns: Option<usize>) -> Style {
        Style {
            columns,
            longest: COLUMN,
            is_coloured: false,
        }
    }

    /// A task that runs a command since 1970.
    fn task(notation: &str, command: &str) -> Task {
        let mut task = test_notation::task(notation);
        task.command = Some(command.to_owned());
        task.started_at = Some(0);
        task
    }

    fn listed(notation: &str, command: &str) -> LsTask {
        LsTask::new(task(notation, command), None)
    }

    /// The table at this time.
    fn table(tasks: &[LsTask], now: i64, style: Style) -> Vec<String> {
        table_of(&test_notation::listed(tasks.to_vec()), now, style)
    }

    #[test]
    fn the_table_fits_the_terminal_and_shows_what_failed() {
        let last = "test result: FAILED. 617 passed; 1 failed; finished in 39.39s";
        let command = "cargo test --workspace --all-features";
        let tasks = [listed(&format!("@1#1 api dead 2 : {last}"), command)];
        let row = |style| table(&tasks, 0, style).remove(1);
        assert_eq!(
            row(style(Some(100))),
            "@1  api   exited  2     1    0s   cargo test --workspace --all-f…  \
             test result: FAILED. 617 passed;…"
        );
        for columns in [60, 80, 100, 120] {
            let row = row(style(Some(columns)));
            assert!(columns_of(&row) <= columns, "{columns}: {row}");
        }
        let narrow = "api   exited  2     0s   test result: F…";
        assert_eq!(row(style(Some(40))), narrow);
        let coloured = row(Style {
            is_coloured: true,
            longest: usize::MAX,
            columns: None,
        });
        let state = "api   \x1b[31mexited\x1b[m  2";
        assert!(coloured.contains(state), "{coloured}");
        assert!(coloured.ends_with("39.39s"));
    }

    #[test]
    fn a_task_that_is_stopped_shows_that_whether_or_not_it_waits() {
        for (state, prompt, expected) in [
            ("running", None, "stopped"),
            ("running", Some("Go?"), "stopped"),
            ("dead 0", None, "exited"),
        ] {
            let task = task(&format!("@1 a {state} stopped"), "x");
            let shown = row(&LsTask::new(task, prompt.map(Into::into)), 0);
            assert_eq!(shown[STATE], expected, "{state} {prompt:?}");
        }
    }

    #[test]
    fn names_are_cut_and_columns_left_out_until_every_row_fits() {
        let tasks = [
            "integration-tests-postgres dead SIGTERM",
            "日本語日本語日本語日本語 running",
            "a dead SIGINT",
        ];
        let tasks = tasks.map(|of_task| {
            let notation = format!("@12#12 {of_task} : listening on 日本語 0.0.0.0:8080");
            LsTask {
                usual_ms: Some(75_000),
                ..listed(&notation, "cargo test --workspace")
            }
        });
        let at = |columns| table(&tasks, 5_000_000, style(Some(columns)));
        for columns in 21..=130 {
            for row in at(columns) {
                assert!(columns_of(&row) <= columns, "{columns}: {row}");
            }
        }
        let expected = [
            "ID   NAME          STATE    CODE     AGE  COMMAND   LAST LI…",
            "@12  integration…  killed   SIGTERM  1h   cargo t…  listeni…",
            "@12  日本語日本…   running  -        1h   cargo t…  listeni…",
            "@12  a             killed   SIGINT   1h   cargo t…  listeni…",
        ];
        assert_eq!(at(60), expected);
        let expected = [
            "NAME          STATE    CODE     LAST LI…",
            "integration…  killed   SIGTERM  listeni…",
            "日本語日本…   running  -        listeni…",
            "a             killed   SIGINT   listeni…",
        ];
        assert_eq!(at(40), expected);
        // There is room for whole names before a column is left out.
        assert!(at(90)[1].starts_with("@12  integration-tests-postgres  "));
    }

    #[test]
    fn usual_durations_and_ports_have_a_column_where_they_are_known_and_fit() {
        let notations = ["@1#3 build running", "@1#3 serve running"];
        let [build, serve] = notations.map(|notation| listed(notation, "make"));
        let usual = LsTask {
            usual_ms: Some(75_000),
            ..build
        };
        let tasks = [usual, serve.clone()];
        let wide = [
            "ID  NAME   STATE    CODE  RUN  AGE  USUALLY  COMMAND  LAST LINE",
            "@1  build  running  -     3    30s  1m15s    make",
            "@1  serve  running  -     3    30s  -        make",
        ];
        assert_eq!(table(&tasks, 30_000, style(None)), wide);
        assert_eq!(table(&tasks, 30_000, style(Some(80))), wide);
        let narrow = table(&tasks, 30_000, style(Some(79)));
        assert_eq!(narrow[1], "@1  build  running  -     3    30s  make");

        let mut listens = task("@1#3 api running", "make");
        listens.ports = Some(vec![3000, 9229]);
        let tasks = [LsTask::new(listens, None), serve];
        let expected = [
            "ID  NAME   STATE    CODE  RUN  AGE  PORTS       COMMAND  LAST LINE",
            "@1  api    running  -     3    30s  3000, 9229  make",
            "@1  serve  running  -     3    30s  -           make",
        ];
        assert_eq!(table(&tasks, 30_000, style(None)), expected);
    }

    #[test]
    fn the_table_lines_up() {
        let tasks = [
            ("@1#1 api running", None),
            ("@12#2 migrate-§ running", Some("Proceed? [y/N]")),
            ("@3 lint dead 2", None),
            ("@5#1 日本語n running", None),
            ("@6#1 sh running shell", None),
            ("@7#1 su running shell", Some("Password:")),
        ];
        let tasks = tasks.map(|(notation, prompt)| {
            let task = task(&format!("{notation} : one|last line||"), "make test");
            LsTask::new(task, prompt.map(Into::into))
        });
        let expected = [
            "ID   NAME       STATE    CODE  RUN  AGE  COMMAND    LAST LINE",
            "@1   api        running  -     1    1m   make test  last line",
            "@12  migrate-§  waiting  -     2    1m   make test  Proceed? [y/N]",
            "@3   lint       exited   2     -    1m   make test  last line",
            "@5   日本語n    running  -     1    1m   make test  last line",
            "@6   sh         shell    -     1    1m   make test  last line",
            "@7   su         waiting  -     1    1m   make test  Password:",
        ];
        assert_eq!(table(&tasks, 65_000, style(None)), expected);
    }
}
