//! `up` and `down`: the tasks of a file.

use serde_json::{Value, json};

use super::args::{Down, Json, Up};
use super::context::{self, Context};
use super::kill::{KILLED, watched};
use super::{kill, output, run, wait};
use crate::model::{Error, ErrorKind, StopChoice};
use crate::ops::{
    self, BringUpNews, BringUpOptions, BringUpResult, Caller, EarlierRun, FilePlan, NotReady,
    ReadFile, Readiness, TaskRun, WindowsDown,
};

fn result_json(result: &BringUpResult) -> Value {
    let (state, outdated) = match &result.run {
        None => ("notStarted", &[][..]),
        Some(TaskRun::Started(_)) => ("started", &[][..]),
        Some(TaskRun::Finished(_)) => ("finished", &[][..]),
        Some(TaskRun::Running(earlier)) => ("running", &*earlier.outdated),
    };
    let failure = failure(result);
    let is_ready = result.is_ready.as_ref().map(Result::is_ok);
    json!({
        "windowName": result.name,
        "windowId": result.run.as_ref().map(TaskRun::window),
        "state": state,
        // The keys whose values in the file are not those that it runs with.
        "outdated": outdated,
        // Null where that was not waited for.
        "ready": is_ready.filter(|_| result.run.is_some()),
        "why": failure.map(|failure| &failure.why),
        "tail": failure.map_or(&[][..], |failure| &failure.tail),
        "waitingFor": failure.and_then(|failure| failure.asks.as_ref()),
    })
}

fn failure(result: &BringUpResult) -> Option<&NotReady> {
    result.is_ready.as_ref()?.as_ref().err()
}

pub(super) async fn up(context: &Context, args: Up) -> Result<(), Error> {
    let mut session = context.session().await?;
    let FilePlan { file, tasks } = ops::plan_tasks(&session, args.what).await?;
    say_procfile(context, &file);
    // What is wrong with the session is no failure of each task.
    ops::list(&mut session).await?;
    context.limit.wait(args.timeout);
    let options = BringUpOptions {
        timeout: args.timeout,
        waits_for_all: args.wait,
        tail: args.tail,
    };
    let report =
        |name: &str, news: BringUpNews<'_>| print_news(context, args.json.json, &file, name, news);
    let bringing = ops::bring_up(&session, &tasks, options, &report);
    let results = context::unless_interrupted(bringing).await??;
    if args.json.json {
        let tasks: Vec<Value> = results.iter().map(result_json).collect();
        let file = file.path.to_string_lossy();
        output::json(&json!({ "sessionName": session.name, "file": file, "tasks": tasks }))?;
    }
    let started = |result: &&BringUpResult| matches!(result.run, Some(TaskRun::Started(_)));
    let started = results.iter().filter(started);
    let started: Vec<&str> = started.map(|result| result.name.as_str()).collect();
    run::say_undelivered_to_caller(context, &session, &started).await;
    // The one that came first in the file.
    match results.iter().find_map(failure) {
        None => Ok(()),
        Some(failure) if failure.has_timed_out => Err(Error::silent(ErrorKind::TimedOut)),
        Some(_) => Err(Error::silent(ErrorKind::Impossible)),
    }
}

/// Says which file a command has read, where the user may not know.
fn say_procfile(context: &Context, file: &ReadFile) {
    if file.is_found_procfile() {
        let path = file.path.display();
        context.say(&format!("the tasks are those of {path}"));
    }
}

/// Prints what happens to a task; with `--json` only failures, on stderr.
fn print_news(
    context: &Context,
    is_json: bool,
    file: &ReadFile,
    name: &str,
    news: BringUpNews<'_>,
) -> Result<(), Error> {
    let complain = |why: String, hint: Option<String>| {
        context.complain(&Error {
            hint,
            ..Error::new(ErrorKind::Impossible, why)
        });
        Ok(())
    };
    let line = match news {
        BringUpNews::Runs(run) => {
            let done = match run {
                TaskRun::Started(_) => "started",
                TaskRun::Finished(_) => "finished already:",
                TaskRun::Running(earlier) => {
                    note_outdated(context, file, name, earlier);
                    "runs already:"
                }
            };
            format!("{done} {} ({name})", run.window())
        }
        BringUpNews::Ready { window, readiness } => match readiness {
            Readiness::Printed | Readiness::Listens => format!("ready {window} ({name})"),
            Readiness::Succeeded => format!("succeeded {window} ({name})"),
            Readiness::OutOfSight => {
                format!("taken as ready: {window} ({name}): the beginning of its output is gone")
            }
        },
        BringUpNews::NotStarted(cause) => {
            return complain(format!("{name} was not started: {cause}"), None);
        }
        BringUpNews::Failed(failed) => {
            output::tail(&failed.tail, Some(name));
            return complain(format!("{name} {}", failed.why), failed.hint.clone());
        }
        BringUpNews::Wait(news) => {
            wait::news_of(context, name, &news);
            return Ok(());
        }
    };
    if is_json {
        return Ok(());
    }
    output::line(&line)
}

/// Says what in the file is not in effect for a task that runs already.
fn note_outdated(context: &Context, file: &ReadFile, name: &str, earlier: &EarlierRun) {
    if earlier.outdated.is_empty() {
        return;
    }
    let keys: Vec<String> = earlier
        .outdated
        .iter()
        .map(|key| format!("`{key}`"))
        .collect();
    let why = format!(
        "{name} runs with another {} than in the file",
        keys.join(" and ")
    );
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
    let down = ops::windows_down(&mut session, args.what).await;
    let WindowsDown {
        file,
        groups,
        ambiguous,
    } = down?;
    say_procfile(context, &file);
    let asking = session.for_request();
    let choice = StopChoice::default();
    let mut ended = Vec::new();
    for windows in groups {
        let names = windows.clone();
        let caller = Caller::of_environment();
        let work = ops::kill(&mut session, caller, windows, &choice);
        let (group, _) = watched(context, &asking, &names, work).await?;
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
