//! `run`: start a task in its slot.

use std::env;
use std::path::PathBuf;

use serde_json::json;

use super::args::Run;
use super::context::{self, Context};
use super::failure::{Failure, Kind};
use super::output;
use crate::client::Client;
use crate::tmux::{self, CommandWords, Launch, LaunchError};
use crate::wire::{Request, Response};

pub(super) async fn run(context: &Context, args: Run) -> Result<(), Failure> {
    tmux::check_name(&args.name).map_err(|error| launch_failure(&error))?;
    let session = context.session("run")?;
    let cwd = directory(args.cwd)?;
    session
        .server
        .check_version()
        .await
        .map_err(|error| context::tmux("run", &error))?;
    let mut daemon = session.daemon_or_start("run").await?;
    let launch = Launch {
        session: session.name.clone(),
        name: args.name,
        cwd,
        env: args.env,
        command: CommandWords::from_words(args.command),
        root: session.project.clone(),
        started: crate::clock::now().wall,
    };
    // One launch at a time: the next one begins when this run has been seen.
    session
        .place
        .create_runtime()
        .map_err(|error| context::place("run", &error))?;
    let _launching = session.place.lock_launches().await;
    // Before: the run that this one may replace is seen as it is now. A first look is the
    // baseline, so what we start is never part of it.
    look(daemon.as_mut()).await?;
    let lock = session.lock_server("run").await?;
    let launched = tmux::launch(&mut session.connection(), &session.server, &launch).await;
    drop(lock);
    // After: the run is told at once, however short it is.
    look(daemon.as_mut()).await?;
    let launched = launched.map_err(|error| launch_failure(&error))?;

    let cwd = launch.cwd.display().to_string();
    if args.json.json {
        return output::json(&json!({
            "session": launch.session,
            "window_id": launched.window.to_string(),
            "task": launch.name,
            "cwd": cwd,
            "run": launched.run,
        }));
    }
    output::lines([
        format!("session={}", launch.session).as_str(),
        &format!("window_id={}", launched.window),
        &format!("task={}", launch.name),
        &format!("cwd={cwd}"),
    ])
}

async fn look(daemon: Option<&mut Client>) -> Result<(), Failure> {
    let Some(daemon) = daemon else { return Ok(()) };
    match daemon.ask(&Request::Look).await {
        Ok(Response::Done) => Ok(()),
        Ok(_) => Err(Failure::new(
            Kind::Failed,
            "run",
            "the daemon answered something else",
        )),
        Err(error) => Err(context::client("run", &error)),
    }
}

fn directory(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let failed = |error: &std::io::Error, dir: &str| {
        let why = format!("cannot run in {dir}: {error}");
        Failure::new(Kind::Failed, "run", why)
    };
    match given {
        None => env::current_dir().map_err(|error| failed(&error, "this directory")),
        Some(dir) => dir
            .canonicalize()
            .map_err(|error| failed(&error, &dir.display().to_string())),
    }
}

fn launch_failure(error: &LaunchError) -> Failure {
    let kind = match error {
        LaunchError::Name(_) | LaunchError::Session(_) | LaunchError::Variable(_) => Kind::Usage,
        LaunchError::Directory(_)
        | LaunchError::Ambiguous { .. }
        | LaunchError::Contended
        | LaunchError::Tmux(_) => Kind::Failed,
    };
    Failure::of(kind, "run", error)
}
