//! `run`: start a task in its slot.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::json;

use super::args::Run;
use super::context::{self, Context, Session};
use super::failure::{Failure, Kind};
use super::launcher::{self, Started};
use super::output;
use super::until::{self, Until};
use crate::client::Client;
use crate::config;
use crate::model::environment::{Withheld, is_shell_name};
use crate::model::owner_of_environment;
use crate::tmux::{self, CommandWords, Gate, Launch, TaskEnvironment};
use crate::wire::ReplacedRun;

pub(super) async fn run(context: &Context, args: Run) -> Result<(), Failure> {
    tmux::check_name(&args.name).map_err(|error| launcher::failure(&error))?;
    let is_blank = |word: &OsString| word.to_str().is_some_and(|word| word.trim().is_empty());
    if args.command.iter().all(is_blank) {
        let why = format!("no command given for task `{}`", args.name);
        return Err(Failure::new(Kind::Usage, "run", why));
    }
    until::check(args.until.iter().chain(&args.stop))?;
    let session = context.session("run").await?;
    let cwd = directory(args.cwd)?;
    let will_wait = args.wait || !args.until.is_empty();
    let daemon = match session.daemon("run").await? {
        Some(daemon) => Some(daemon),
        None => start_daemon(&session).await?,
    };
    if will_wait && daemon.is_none() {
        // Before a live run is replaced.
        return Err(no_daemon());
    }
    session
        .paths
        .create_runtime()
        .map_err(|error| context::paths("run", &error))?;
    // A text is found also where it is overwritten at once: whoever looks for it is there first.
    let gate = match (&daemon, args.until.as_slice()) {
        (None, _) | (_, []) => None,
        (Some(_), _) => Some(close_gate(&session)?),
    };
    let launch = Launch {
        session: session.name.clone(),
        name: args.name,
        cwd,
        environment: environment(args.clean_env, args.env)?,
        runtime: session.paths.runtime.clone(),
        owner: owner_of_environment(&context::lookup),
        command: CommandWords::from_words(args.command),
        gate: gate.as_ref().map(|gate| gate.path().to_owned()),
        root: session.project.clone(),
        started: crate::clock::now().wall,
        only_if_absent: args.if_absent,
    };
    let (name, cwd) = (launch.name.clone(), launch.cwd.display().to_string());
    let Started {
        session,
        daemon,
        run,
    } = launcher::start(session, daemon, launch, will_wait).await?;

    if args.json.json {
        output::json(&json!({
            "sessionName": session.name,
            "windowId": run.window_id,
            "windowName": name,
            "taskCwd": cwd,
            "run": run.run,
            "cursor": run.cursor,
            "replaced": run.replaced,
        }))?;
    } else {
        output::lines([
            format!("session={}", session.name).as_str(),
            &format!("window_id={}", run.window_id),
            &format!("task={name}"),
            &format!("cwd={cwd}"),
        ])?;
    }
    if run.replaced == Some(ReplacedRun::Live) && std::io::stderr().is_terminal() {
        output::note(&format!(
            "tmux-task: run: replaced the live run of task `{name}`"
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
            context.limit.wait(until.timeout);
            until.follow(&mut daemon, &name, &run, gate).await
        }
        (true, None) => Err(no_daemon()),
    }
}

/// Starts a daemon, where none is forbidden.
async fn start_daemon(session: &Session) -> Result<Option<Client>, Failure> {
    let failed = |error| context::tmux("run", &error);
    session.server.check_version().await.map_err(failed)?;
    // Before a daemon is started for a server that cannot be.
    session.server.create_socket_folder().map_err(failed)?;
    session.daemon_or_start("run").await
}

fn no_daemon() -> Failure {
    Failure::new(Kind::Missing, "run", "no daemon runs to wait with")
        .with_hint("start one with `tmux-task daemon --detach`")
}

fn close_gate(session: &Session) -> Result<Gate, Failure> {
    let folder = &session.paths.runtime;
    Gate::close(folder).map_err(|error| {
        let why = format!("cannot write to {}: {error}", folder.display());
        Failure::new(Kind::Failed, "run", why)
    })
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
