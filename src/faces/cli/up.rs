//! `up` and `down`: the tasks of a file.

use serde_json::json;

use super::args::{Down, Json, Up};
use super::context::{self, Context};
use super::kill::{KILLED, watched};
use super::{kill, output, run, wait};
use crate::model::{Error, ErrorKind, StopChoice};
use crate::ops::{self, Caller, FileTasks, Readiness, TaskUp, UpNews, UpOptions, UpState};

pub(super) async fn up(context: &Context, args: Up) -> Result<(), Error> {
    let mut session = context.session().await?;
    let file = FileTasks::select(&session, args.what)?;
    let plans = file.to_start()?;
    say_procfile(context, &file);
    // What is wrong with the session is no failure of each task.
    ops::list(&mut session).await?;
    context.limit.wait(args.timeout);
    let options = UpOptions {
        timeout: args.timeout,
        waits_for_all: args.wait,
        tail: args.tail,
    };
    let report =
        |task: &TaskUp, news: UpNews<'_>| print_news(context, args.json.json, &file, task, news);
    let bringing = ops::bring_up(&session, &plans, options, &report);
    let tasks = context::unless_interrupted(bringing).await??;
    if args.json.json {
        let file = file.path.to_string_lossy();
        output::json(&json!({ "sessionName": session.name, "file": file, "tasks": tasks }))?;
    }
    let started = tasks.iter().filter(|task| task.state == UpState::Started);
    let started: Vec<&str> = started.map(|task| task.window_name.as_str()).collect();
    if !started.is_empty() {
        let owner = Caller::of_environment().owner;
        run::say_undelivered(context, &session, owner.as_deref(), &started.join(" ")).await;
    }
    // The one that came first in the file.
    match tasks.iter().find(|task| task.why.is_some()) {
        None => Ok(()),
        Some(failed) if failed.has_timed_out => Err(Error::silent(ErrorKind::TimedOut)),
        Some(_) => Err(Error::silent(ErrorKind::Impossible)),
    }
}

/// Says which file a command has read, where the user may not know.
fn say_procfile(context: &Context, file: &FileTasks) {
    if file.is_found_procfile() {
        let path = file.path.display();
        context.say(&format!("the tasks are those of {path}"));
    }
}

/// Prints what happens to a task; with `--json` only failures, on stderr.
fn print_news(
    context: &Context,
    is_json: bool,
    file: &FileTasks,
    task: &TaskUp,
    news: UpNews<'_>,
) -> Result<(), Error> {
    let name = &task.window_name;
    let why = task.why.as_deref().unwrap_or_default();
    let window = task.window_id.as_deref().unwrap_or_default();
    let complain = |why: String| {
        let hint = task.hint.clone();
        context.complain(&Error {
            hint,
            ..Error::new(ErrorKind::Impossible, why)
        });
        Ok(())
    };
    let is_now = match news {
        UpNews::Runs => match task.state {
            UpState::Finished => "finished already:",
            UpState::Running => {
                note_outdated(context, file, task);
                "runs already:"
            }
            UpState::Started | UpState::NotStarted => "started",
        },
        UpNews::Ready(readiness) => match readiness {
            Readiness::Printed | Readiness::Listens => "ready",
            Readiness::Succeeded => "succeeded",
            Readiness::OutOfSight => "taken as ready:",
        },
        UpNews::NotStarted => return complain(format!("{name} was not started: {why}")),
        UpNews::Failed => {
            output::tail(&task.tail, Some(name));
            return complain(format!("{name} {why}"));
        }
        UpNews::Wait(news) => {
            wait::news_of(context, name, &news);
            return Ok(());
        }
    };
    let is_out_of_sight = matches!(news, UpNews::Ready(Readiness::OutOfSight));
    let more = if is_out_of_sight {
        ": the beginning of its output is gone"
    } else {
        ""
    };
    if is_json {
        return Ok(());
    }
    output::line(&format!("{is_now} {window} ({name}){more}"))
}

/// Says what in the file is not in effect for a task that runs already.
fn note_outdated(context: &Context, file: &FileTasks, task: &TaskUp) {
    if task.outdated.is_empty() {
        return;
    }
    let keys = task.outdated.iter().map(|key| format!("`{key}`"));
    let keys = keys.collect::<Vec<_>>().join(" and ");
    let name = &task.window_name;
    let why = format!("{name} runs with another {keys} than in the file");
    let hint = if file.is_named {
        let file = file.path.display();
        format!("`tmux-task down {file} {name}`, then `tmux-task up {file} {name}` applies it")
    } else {
        format!("`tmux-task restart {name}` applies it")
    };
    context.complain(&Error::failed(why).with_hint(hint));
}

pub(super) async fn down(context: &Context, args: Down) -> Result<(), Error> {
    let mut session = context.session().await?;
    let file = FileTasks::select(&session, args.what)?;
    let (groups, ambiguous) = file.windows_down(&mut session).await?;
    say_procfile(context, &file);
    let mut asking = session.for_request();
    let choice = StopChoice::default();
    let mut ended = Vec::new();
    for windows in groups {
        let names = windows.clone();
        let caller = Caller::of_environment();
        let work = ops::kill(&mut session, caller, windows, &choice);
        let (group, _) = watched(context, &mut asking, &names, work).await?;
        let group = group?;
        if !args.json.json {
            kill::report(KILLED, &group, Json { json: false })?;
        }
        ended.extend(group);
    }
    if args.json.json {
        kill::report(KILLED, &ended, args.json)?;
    }
    let mut ambiguous = ambiguous.into_iter();
    let Some(first) = ambiguous.next() else {
        return Ok(());
    };
    for error in ambiguous {
        context.say(&error.message);
    }
    Err(first)
}
