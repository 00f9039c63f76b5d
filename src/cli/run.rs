//! `run`: start a task in its slot.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::json;

use super::args::Run;
use super::context::{self, Context, Session};
use super::failure::{Failure, Kind};
use super::output;
use super::until::{self, Until};
use crate::client::{Client, ClientError};
use crate::config;
use crate::model::environment::{Withheld, is_shell_name};
use crate::model::owner_of_environment;
use crate::tmux::{
    self, CommandWords, Gate, Launch, LaunchError, Launched, Replaced, TaskEnvironment,
};
use crate::wait::{Anchor, Cursor};
use crate::wire::{Request, Response};

pub(super) async fn run(context: &Context, args: Run) -> Result<(), Failure> {
    tmux::check_name(&args.name).map_err(|error| launch_failure(&error))?;
    let is_blank = |word: &OsString| word.to_str().is_some_and(|word| word.trim().is_empty());
    if args.command.iter().all(is_blank) {
        let why = format!("no command given for task `{}`", args.name);
        return Err(Failure::new(Kind::Usage, "run", why));
    }
    until::check(args.until.iter().chain(&args.stop))?;
    let mut session = context.session("run").await?;
    let cwd = directory(args.cwd)?;
    session
        .server
        .check_version()
        .await
        .map_err(|error| context::tmux("run", &error))?;
    // Before a daemon is started for a server that cannot be.
    session
        .server
        .create_socket_folder()
        .map_err(|error| context::tmux("run", &error))?;
    let mut daemon = session.daemon_or_start("run").await?;
    let will_wait = args.wait || !args.until.is_empty();
    if will_wait && daemon.is_none() {
        // Before a live run is replaced.
        return Err(no_daemon());
    }
    let mut launch = Launch {
        session: session.name.clone(),
        name: args.name,
        cwd,
        environment: environment(args.clean_env, args.env)?,
        runtime: session.paths.runtime.clone(),
        owner: owner_of_environment(&context::lookup),
        command: CommandWords::from_words(args.command),
        gate: None,
        root: session.project.clone(),
        started: crate::clock::now().wall,
        only_if_absent: args.if_absent,
    };
    // One launch at a time: the next one begins when this run has been seen.
    session
        .paths
        .create_runtime()
        .map_err(|error| context::paths("run", &error))?;
    let launching = session.paths.lock_launches().await;
    // A text is found also where it is overwritten at once: whoever looks for it is there first.
    let gate = match (&daemon, args.until.as_slice()) {
        (None, _) | (_, []) => None,
        (Some(_), _) => Some(close_gate(&session)?),
    };
    launch.gate = gate.as_ref().map(|gate| gate.path().to_owned());
    // Before: the run that this one may replace is seen as it is now. A first look is the
    // baseline, so what we start is never part of it.
    let before = Request::Look {
        launching: Some(launch.name.clone()),
        will_wait,
        owner: launch.owner.clone(),
    };
    if look(daemon.as_mut(), &before).await.is_err() {
        // It has gone since it was found.
        daemon = session.daemon_or_start("run").await?;
        look(daemon.as_mut(), &before).await?;
    }
    // Now that it has looked it knows of every rename.
    session.learn_from("run", daemon.as_mut()).await?;
    launch.session.clone_from(&session.name);
    let lock = session.lock_server("run").await?;
    let launched = tmux::launch(&mut session.connection(), &session.server, &launch).await;
    drop(lock);
    // After: the run is told at once, however short it is.
    let after = Request::Look {
        launching: None,
        will_wait: false,
        owner: None,
    };
    let told = look(daemon.as_mut(), &after).await;
    let launched = launched.map_err(|error| launch_failure(&error))?;
    if told.is_err() {
        // It has gone, and the task is there all the same: the next daemon tells of it.
        daemon = session.daemon_or_start("run").await.ok().flatten();
    }

    drop(launching);

    let cwd = launch.cwd.display().to_string();
    if args.json.json {
        output::json(&json!({
            "sessionName": launch.session,
            "windowId": launched.window.to_string(),
            "windowName": launch.name,
            "taskCwd": cwd,
            "run": launched.run,
            "cursor": start_of(&launched),
            "replaced": launched.replaced.map(replaced_word),
        }))?;
    } else {
        output::lines([
            format!("session={}", launch.session).as_str(),
            &format!("window_id={}", launched.window),
            &format!("task={}", launch.name),
            &format!("cwd={cwd}"),
        ])?;
    }
    if launched.replaced == Some(Replaced::Live) && std::io::stderr().is_terminal() {
        output::note(&format!(
            "tmux-task: run: replaced the live run of task `{}`",
            launch.name
        ));
    }
    let until = Until {
        texts: args.until,
        stops: args.stop,
        timeout: args.timeout,
        through_prompts: args.through_prompts,
        tail: args.tail,
        json: args.json.json,
    };
    match (will_wait, daemon) {
        (false, _) => Ok(()),
        (true, Some(mut daemon)) => {
            let since = start_of(&launched);
            context.limit.wait(until.timeout);
            until
                .follow(&mut daemon, &launch.name, &launched, since, gate)
                .await
        }
        (true, None) => Err(no_daemon()),
    }
}

fn no_daemon() -> Failure {
    Failure::new(Kind::Missing, "run", "no daemon runs to wait with")
        .with_hint("start one with `tmux-task daemon --detach`")
}

fn replaced_word(replaced: Replaced) -> &'static str {
    match replaced {
        Replaced::Live => "live",
        Replaced::Dead => "dead",
    }
}

fn close_gate(session: &Session) -> Result<Gate, Failure> {
    let folder = &session.paths.runtime;
    Gate::close(folder).map_err(|error| {
        let why = format!("cannot write to {}: {error}", folder.display());
        Failure::new(Kind::Failed, "run", why)
    })
}

/// Returns the cursor at the beginning of the run.
fn start_of(launched: &Launched) -> String {
    let cursor = Cursor {
        life: Cursor::life_of(&launched.life),
        window: launched.window,
        run: launched.run,
        anchor: Anchor::START,
    };
    cursor.to_string()
}

async fn look(daemon: Option<&mut Client>, request: &Request) -> Result<(), Failure> {
    let Some(daemon) = daemon else { return Ok(()) };
    match daemon.ask(request).await {
        Ok(Response::Done) => Ok(()),
        Ok(_) => Err(context::client("run", &ClientError::Unexpected)),
        Err(error) => Err(context::client("run", &error)),
    }
}

/// Returns the task's environment: this one, or tmux's, and on top of it what was given.
fn environment(is_clean: bool, given: Vec<(String, String)>) -> Result<TaskEnvironment, Failure> {
    // Only a shell of the task's can put anything on top of tmux's.
    let unknown = given
        .iter()
        .find(|(name, _)| is_clean && !is_shell_name(name));
    if let Some((name, _)) = unknown {
        let why = format!("`{name}` is not a name that --env can set with --clean-env");
        return Err(Failure::new(Kind::Usage, "run", why));
    }
    let config = config::load(&context::lookup);
    let config = config.map_err(|error| Failure::of(Kind::Failed, "run", &error))?;
    let withheld = Withheld::with(&config.env_withhold);
    let below = if is_clean {
        TaskEnvironment::of_tmux(withheld)
    } else {
        TaskEnvironment::of_caller(env::vars_os(), withheld)
    };
    let environment = below.with(given);
    Ok(match env::current_exe() {
        Ok(program) => environment.set_by(program),
        Err(_) => environment,
    })
}

fn directory(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let failed = |error: &std::io::Error, dir: &str| {
        let why = format!("cannot run in {dir}: {error}");
        Failure::new(Kind::Failed, "run", why)
    };
    match given {
        None => env::current_dir()
            .map_err(|error| context::no_directory("run", &error).with_hint("--cwd names another")),
        Some(dir) => dir
            .canonicalize()
            .map_err(|error| failed(&error, &dir.display().to_string())),
    }
}

fn launch_failure(error: &LaunchError) -> Failure {
    let (kind, hint) = match error {
        LaunchError::Name(_) | LaunchError::Session(_) => (Kind::Usage, None),
        LaunchError::Running { .. } => (
            Kind::Failed,
            Some("without --if-absent, the live run is replaced"),
        ),
        LaunchError::ServerEnds(_) => (
            Kind::Failed,
            Some("`tmux set-option -s exit-unattached off` lets it run"),
        ),
        LaunchError::Directory(_)
        | LaunchError::DirectoryName(_)
        | LaunchError::Environment { .. }
        | LaunchError::Ambiguous { .. }
        | LaunchError::Disturbed(_)
        | LaunchError::Contended
        | LaunchError::Tmux(_) => (Kind::Failed, None),
    };
    Failure::of(kind, "run", error).with_optional_hint(hint.map(str::to_owned))
}
