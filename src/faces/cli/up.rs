//! `up` and `down`: the tasks of a file.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::context::{self, Context};
use super::kill::{KILLED, report, watched};
use super::output::{self, Json};
use super::{run, wait};
use crate::config::PROCFILE;
use crate::model::{Error, ErrorKind, StopChoice};
use crate::ops::{self, Caller, FileTasks, UpArguments, UpNews, UpState, task_names};

#[derive(Debug, Args)]
pub(super) struct Down {
    /// The file [default: tmux-task.toml in the project's folder, else Procfile], and the tasks to end
    /// [default: all]
    #[arg(value_names = ["FILE", "NAME"], num_args = 0.., add = task_names::candidates_of_file())]
    what: Vec<PathBuf>,
    #[command(flatten)]
    json: Json,
}

pub(super) async fn up(context: &Context, mut args: UpArguments) -> Result<(), Error> {
    let mut session = context.session().await?;
    let file = FileTasks::select(&session, std::mem::take(&mut args.what))?;
    let plans = file.to_start()?;
    say_procfile(context, &file);
    // What is wrong with the session is no failure of each task.
    ops::list(&mut session).await?;
    context.limit.wait(args.timeout);
    let report = |news: UpNews<'_>| {
        match news {
            UpNews::Is(line) if !args.json => return output::line(&line),
            UpNews::Is(_) => {}
            UpNews::Problem(task, error) => {
                output::tail(&task.tail, Some(&task.window_name));
                context.complain(&error);
            }
            UpNews::Wait(task, news) => wait::news_of(context, &task.window_name, &news),
        }
        Ok(())
    };
    let bringing = ops::bring_up(&session, &file, &plans, &args, &report);
    let tasks = context::unless_interrupted(bringing).await??;
    if args.json {
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

/// Says that a Procfile was read because there is no file of ours: the user may not know.
fn say_procfile(context: &Context, file: &FileTasks) {
    if !file.is_named && file.path.ends_with(PROCFILE) {
        let path = file.path.display();
        context.say(&format!("the tasks are those of {path}"));
    }
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
        if !args.json.json {
            report(KILLED, &group, args.json)?;
        }
        ended.extend(group);
    }
    if args.json.json {
        report(KILLED, &ended, args.json)?;
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
