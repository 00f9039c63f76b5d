//! `kill`, `kill-all`, `prune`; and how ending is followed on a terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::sleep;

use super::context::{self, Context};
use super::output::{self, Json};
use crate::config::{parse_signal, read_duration};
use crate::model::{self, Error, ErrorKind, StopChoice, text};
use crate::ops::{self, Caller, TaskSession, task_names};
use crate::rules::wire::{EndedTask, EndedTasks, EndingRun, LsView};

#[derive(Debug, Args)]
#[command(
    after_help = "Every process of a task's run gets the signal; what is left after the grace time gets \
                  SIGKILL. The command returns when nothing of the run is left, and its window is \
                  closed. After a second it says for whom it waits; a second interrupt (Ctrl-C) kills \
                  at once. What another user's process is cannot be ended: it is named, and the exit \
                  code is 1."
)]
pub(super) struct Kill {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    names: Vec<String>,
    /// The signal that asks them to end, like SIGINT [default: that of the task, else SIGTERM]
    #[arg(long, value_name = "SIG", value_parser = parse_signal)]
    signal: Option<model::Signal>,
    /// How long they have to end before SIGKILL, like 30s; 0: no time [default: that of the task, else
    /// 10s]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    grace: Option<Duration>,
    #[command(flatten)]
    json: Json,
}

#[derive(Debug, Args)]
pub(super) struct KillAll {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(super) yes: bool,
    /// How long tasks have to end before SIGKILL, like 30s; 0: no time [default: that of each task, else
    /// 10s]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    grace: Option<Duration>,
    #[command(flatten)]
    json: Json,
}

pub(super) async fn kill(context: &Context, args: Kill) -> Result<(), Error> {
    let mut session = context.given()?;
    let mut asking = session.for_request();
    let choice = StopChoice {
        signal: args.signal,
        grace: args.grace,
    };
    let (caller, names) = (Caller::of_environment(), args.names.clone());
    let work = ops::kill(&mut session, caller, args.names, &choice);
    let (ended, _) = watched(context, &mut asking, &names, work).await?;
    report(KILLED, &ended, args.json)
}

pub(super) async fn kill_all(context: &Context, args: KillAll) -> Result<(), Error> {
    let mut session = context.given()?;
    if !args.yes {
        let LsView { exists, tasks, .. } = ops::list(&mut session).await?;
        if !exists {
            return Err(session.missing());
        }
        let active = tasks.iter().filter(|listed| listed.task.is_alive()).count();
        let tasks = text::counted(tasks.len(), "task");
        let name = &session.name;
        confirm(&format!(
            "End session {name} with {tasks} ({active} active)?"
        ))?;
    }
    let mut asking = session.for_request();
    let work = ops::kill_all(&mut session, args.grace);
    let (EndedTasks { tasks, moved }, _) = watched(context, &mut asking, &[], work).await?;
    if args.json.json {
        return output::json(&json!({ "killed": tasks, "moved": moved }));
    }
    report(KILLED, &tasks, args.json)?;
    output::lines(moved.iter().map(|task| {
        let (window, name) = (&task.window_id, &task.window_name);
        format!("not ended {window} ({name}): it lives on in another session")
    }))
}

pub(super) async fn prune(context: &Context, args: Json) -> Result<(), Error> {
    let mut session = context.given()?;
    let pruned = ops::prune(&mut session).await?;
    report(PRUNED, &pruned, args)
}

/// What was done to tasks, in JSON and in a line: ended, or removed after their runs had ended.
pub(super) const KILLED: (&str, &str) = ("killed", "ended");
const PRUNED: (&str, &str) = ("pruned", "pruned");

pub(super) fn report(
    (key, word): (&str, &str),
    ended: &[EndedTask],
    args: Json,
) -> Result<(), Error> {
    if args.json {
        return output::json(&json!({ key: ended }));
    }
    output::lines(ended.iter().map(|task| match task.window_id.as_str() {
        // A daemon that was killed meanwhile has ended it, and the next one knows no more of it.
        "" => format!("{word} {}", task.window_name),
        window => format!("{word} {window} ({})", task.window_name),
    }))
}

const QUESTION_CHARS: usize = 300;

fn confirm(question: &str) -> Result<(), Error> {
    if !io::stdin().is_terminal() {
        let why = "this ends every task, and there is no terminal to ask on";
        return Err(Error::usage(why).with_hint("say --yes when you mean it"));
    }
    // It may contain a session's name.
    let question = text::one_line(question.as_bytes(), QUESTION_CHARS);
    let mut stderr = io::stderr();
    let mut answer = String::new();
    let asked = write!(stderr, "{question} [y/N] ")
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(Error::of)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Error::failed("not confirmed, nothing was ended"))
}

/// After this time, the user is told for whom is waited.
const TELL_AFTER: Duration = Duration::from_millis(1200);

const MOST_LINES: usize = 5;

/// Does something that may wait for runs of these tasks to end (of all tasks if none is named). The user
/// is told for whom it waits, and a second interrupt kills what is left. An interrupt while no run is
/// being ended ends the command. Returns also whether one interrupt came, and no second one: what would
/// follow is not wanted any more.
pub(super) async fn watched<T>(
    context: &Context,
    session: &mut TaskSession,
    names: &[String],
    work: impl Future<Output = Result<T, Error>>,
) -> Result<(T, bool), Error> {
    let mut interrupts = context::interrupts()?;
    let mut work = std::pin::pin!(work);
    let mut telling = std::pin::pin!(sleep(TELL_AFTER));
    let (mut has_told, mut n_interrupts) = (false, 0);
    loop {
        // Losing an arm is safe: interrupts are kept until they are received.
        tokio::select! {
            done = &mut work => return Ok((done?, n_interrupts == 1)),
            () = &mut telling, if !has_told => {
                let runs = ops::ending_runs(session, names, false).await.unwrap_or_default();
                // On a busy machine no run may be being ended yet.
                has_told = !runs.is_empty();
                telling.set(sleep(TELL_AFTER));
                for run in runs.iter().take(MOST_LINES) {
                    context.say(&waiting_line(run));
                }
                if let n @ 1.. = runs.len().saturating_sub(MOST_LINES) {
                    context.say(&format!("and for {n} more"));
                }
                if has_told {
                    output::note("hint: two interrupts (Ctrl-C) kill what is left at once");
                }
            }
            _ = interrupts.recv() => {
                n_interrupts += 1;
                let at_once = n_interrupts > 1;
                let runs = ops::ending_runs(session, names, at_once).await.unwrap_or_default();
                if runs.is_empty() {
                    return Err(Error::silent(ErrorKind::Interrupted));
                }
                if !at_once {
                    context.say("still waiting; another interrupt kills what is left");
                }
            }
        }
    }
}

/// Returns for whom is waited: `waiting for @1 (pg): postgres (pid 71)`.
fn waiting_line(run: &EndingRun) -> String {
    let name = format!("waiting for {} ({})", run.window_id, run.window_name);
    match run.processes.join(", ") {
        none if none.is_empty() => name,
        processes => format!("{name}: {processes}"),
    }
}
