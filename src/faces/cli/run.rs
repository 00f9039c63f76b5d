//! `run` and `restart`: start a task in its slot. What runs in its pane first.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use futures_util::FutureExt as _;
use serde_json::json;

use super::context::{self, Context};
use super::kill::watched;
use super::logs;
use super::output::{self, Json};
use super::wait::{self, FollowRun};
use crate::client::DaemonClient;
use crate::config::GivenSettings;
use crate::model::*;
use crate::ops::{self, Adapter, Caller, StartedRun, TaskSession, task_names};
use crate::tmux::{check_name, exec_task};

pub(super) use crate::tmux::EXEC_PANE;

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("limited").args(["wait", "follow", "until", "listen", "after"]).multiple(true)),
    group(ArgGroup::new("ends").args(["wait", "follow"])),
    group(ArgGroup::new("texts").args(["until", "notify_on"]).multiple(true)),
)]
#[command(
    after_help = "Without a command, the task runs again: the command of its last launch, in the \
                        directory of that launch, with the environment that this command has now."
)]
pub(super) struct Run {
    /// The task's name: 1 to 40 of A-Z a-z 0-9 . _ -, the first a letter or digit [default: made of
    /// the command, like cargo-test; cargo-test-2 while that task runs]
    #[arg(required_unless_present = "command", add = task_names::candidates())]
    name: Option<String>,
    /// Where to run it [default: this directory; without a command, that of its last launch]
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
    /// A variable for its environment; may be given more than once
    #[arg(long, value_name = "K=V", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Fail when the task is running already, instead of replacing its run
    #[arg(long)]
    if_absent: bool,
    /// Run it in tmux's environment instead of this one; --env is added last
    #[arg(long)]
    clean_env: bool,
    #[command(flatten)]
    settings: GivenSettings,
    /// Wait until the present run of this task has ended with code 0, and start then; may be given
    /// more than once. If it fails, nothing is started
    #[arg(long, value_name = "TASK", add = task_names::candidates())]
    after: Vec<String>,
    #[command(flatten)]
    pub(super) follow: FollowRun,
    #[command(flatten)]
    json: Json,
    /// The command: one word is a shell line, several are a program and its arguments [default: that
    /// of the task's last launch, in its directory]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("limited").args(["wait", "follow", "until", "listen"]).multiple(true)),
    group(ArgGroup::new("ends").args(["wait", "follow"])),
    group(ArgGroup::new("texts").args(["until"]).multiple(true)),
    after_help = "A live run is replaced. A task of the project's file runs as the file has it now. \
                        Each task gets the environment that this command has now \
                        (tmux's if it was started with --clean-env); values of --env are not \
                        recorded, so a task that was started with it is refused: \
                        `tmux-task run NAME --env K=V` runs it again with these."
)]
pub(super) struct Restart {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    names: Vec<String>,
    #[command(flatten)]
    pub(super) follow: FollowRun,
    #[command(flatten)]
    json: Json,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a variable is given as NAME=VALUE".to_owned()),
    }
}

pub(super) async fn run(context: &Context, args: Run) -> Result<(), Error> {
    let mut follow = args.follow;
    let is_again = args.command.is_empty();
    let is_unnamed = args.name.is_none();
    let name = args.name;
    let name = name.unwrap_or_else(|| ops::name_of_command(&args.command));
    // `run NAME -- $COMMAND` with a variable that is empty.
    let last = std::env::args_os().next_back();
    if is_again && last.is_some_and(|word| word == "--") {
        let why = format!("no command given for task `{name}`");
        return Err(Error::usage(why));
    }
    let mut launch = follow.mark(Launch {
        name,
        spec: TaskSpec {
            settings: args.settings.settings(follow.regex, follow.ignore_case),
            is_env_clean: args.clean_env,
            env: args.env,
            cwd: args.cwd,
            command: args.command,
            ..TaskSpec::default()
        },
        replaces: match args.if_absent {
            true => Replaces::Ended,
            false => Replaces::Any,
        },
        owner: Caller::of_environment().owner,
        ..Launch::default()
    });
    if !is_again {
        ops::check_launch(&launch)?;
    } else if launch.name.parse::<WindowId>().is_err() {
        check_name(&launch.name)?;
    }
    follow.check_texts()?;
    if !args.after.is_empty() {
        wait::wait_before_launch(context, &launch.name, &args.after, &mut follow).await?;
    }
    let mut session = context.given()?;
    if is_again {
        let name = launch.name.clone();
        let found = ops::run_again(&mut session, launch).await;
        launch = found.map_err(|failure| {
            if failure.kind == ErrorKind::Missing && name.parse::<WindowId>().is_err() {
                failure.with_hint(format!("`tmux-task run {name} -- COMMAND` starts it"))
            } else {
                failure
            }
        })?;
    }
    say_holders(context, &session, &launch.name, &follow);
    let (started, is_interrupted) = if is_unnamed && !args.if_absent {
        start_in_free_slot(context, session, launch).await?
    } else {
        start(context, session, launch).await?
    };
    follow_up(context, started, follow, is_interrupted, args.json).await
}

/// Starts a run in the first slot of its name, then with `-2`, `-3` and so on behind it, that no task
/// runs in. Another command may take a slot meanwhile: the next one is tried then.
async fn start_in_free_slot(
    context: &Context,
    mut session: TaskSession,
    launch: Launch,
) -> Result<(StartedRun, bool), Error> {
    let mut name = ops::free_name(&mut session, &launch.name).await?;
    loop {
        let attempt = Launch {
            name: name.clone(),
            replaces: Replaces::Ended,
            ..launch.clone()
        };
        let failure = match start(context, session, attempt).await {
            Ok(started) => return Ok(started),
            Err(failure) => failure,
        };
        session = context.given()?;
        match ops::free_name(&mut session, &launch.name).await {
            Ok(next) if next != name => name = next,
            Ok(_) | Err(_) => return Err(failure),
        }
    }
}

/// Runs tasks again; none of them if one cannot be.
pub(super) async fn restart(context: &Context, args: Restart) -> Result<(), Error> {
    let Restart { names, follow, .. } = args;
    follow.check_texts()?;
    if names.len() > 1 && follow.will_wait() {
        let why = "--wait, --follow, --until and --listen are for one task";
        let hint = format!("`tmux-task wait {}` waits for all of them", names.join(" "));
        return Err(Error::usage(why).with_hint(hint));
    }
    let mut session = context.given()?;
    for launch in ops::plan_restarts(&mut session, names).await? {
        say_holders(context, &session, &launch.name, &follow);
        let launch = follow.mark(launch);
        let (started, is_interrupted) = start(context, session.for_request(), launch).await?;
        follow_up(context, started, follow.clone(), is_interrupted, args.json).await?;
    }
    Ok(())
}

/// Says who has the port that the task is to listen on. The run that it replaces gives it back.
fn say_holders(context: &Context, session: &TaskSession, name: &str, follow: &FollowRun) {
    let of_replaced = |holder: &PortHolder| {
        holder.task.as_deref() == Some(name) && holder.session.as_ref() == Some(&session.name)
    };
    for holder in ops::holders(&follow.conditions(), None) {
        if !of_replaced(&holder) {
            let words = holder.words();
            context.say(&format!("{words}: not ready before `{name}` has it"));
        }
    }
}

/// Starts a run. Returns also whether the user has interrupted the end of the run in its slot once.
async fn start(
    context: &Context,
    session: TaskSession,
    launch: Launch,
) -> Result<(StartedRun, bool), Error> {
    let (mut asking, names) = (session.for_request(), [launch.name.clone()]);
    let work = ops::run(session, launch);
    watched(context, &mut asking, &names, work).await
}

/// Prints what was started, and follows it as requested, unless that was interrupted already. If nobody reads what
/// is printed, the code of a run that is waited for is not known, and 0 would be wrong.
async fn follow_up(
    context: &Context,
    started: StartedRun,
    follow: FollowRun,
    is_interrupted: bool,
    json: Json,
) -> Result<(), Error> {
    let will_wait = follow.will_wait();
    let done = follow_run(context, started, follow, is_interrupted, json).await;
    done.map_err(
        |error| match will_wait && error.kind == ErrorKind::OutputClosed {
            true => Error::silent(ErrorKind::Failed.of_run()),
            false => error,
        },
    )
}

async fn follow_run(
    context: &Context,
    started: StartedRun,
    follow: FollowRun,
    is_interrupted: bool,
    json: Json,
) -> Result<(), Error> {
    print(context, &started, &follow, json)?;
    let (name, window) = (started.name.clone(), started.run.window_id.clone());
    if !follow.will_wait() {
        let owner = started.owner.as_deref();
        match &started.unreachable {
            None => say_undelivered(context, &started.session, owner, &name).await,
            Some(why) => context.say(&format!(
                "no message will come when this task ends or asks for input: {why}\n\
                 hint: `tmux-task wait {name}` waits for it"
            )),
        }
        return Ok(());
    }
    let interrupted = |hint: String| {
        let goes_on = format!("{window} ({name}) goes on");
        Err(Error::new(ErrorKind::Interrupted, goes_on).with_hint(hint))
    };
    if is_interrupted {
        return interrupted(format!("`tmux-task wait {name}` waits for it"));
    }
    if !follow.follow {
        return wait::wait_for_launched(context, started, follow, json.json).await;
    }
    // Beside the connection on which it was launched.
    let session = started.session.for_request();
    let shown = ops::follow_log(&session, &window, false, 0).await;
    let goes_on =
        || format!("the task was started and goes on; `tmux-task logs -f {name}` shows it");
    let shown = shown.map_err(|failure| failure.with_hint_if_none(goes_on))?;
    let has_limit = follow.timeout.is_some();
    let ended = wait::wait_for_launched(context, started, follow, json.json);
    let mut interrupts = context::interrupts()?;
    tokio::select! {
        biased;
        _ = interrupts.recv() => interrupted(format!("`tmux-task logs -f {name}` shows its output")),
        end = show(context, shown, ended, has_limit) => end,
    }
}

/// Prints the output of a run, all of it if the run has ended when `ended` has its outcome.
async fn show(
    context: &Context,
    output: DaemonClient,
    ended: impl Future<Output = Result<(), Error>>,
    has_limit: bool,
) -> Result<(), Error> {
    let shown = logs::print_followed(output, false, None);
    let mut shown = pin!(context::unless_unread(shown).map(Result::flatten));
    let mut ended = pin!(ended);
    let check = |shown| match shown {
        Err(Error {
            kind: ErrorKind::OutputClosed,
            ..
        })
        | Ok(()) => shown,
        // The wait goes on without it.
        Err(failure) => {
            context.complain(&failure);
            Ok(())
        }
    };
    tokio::select! {
        biased;
        shown = &mut shown => {
            check(shown)?;
            ended.await
        }
        outcome = &mut ended => {
            let goes_on = outcome.as_ref().is_err_and(|failure| {
                // Without a limit of the wait, it was the run's own.
                failure.kind == ErrorKind::Asked || failure.kind == ErrorKind::TimedOut && has_limit
            });
            check(match goes_on {
                true => shown.now_or_never().unwrap_or(Ok(())),
                false => shown.await,
            })?;
            outcome
        }
    }
}

fn print(
    context: &Context,
    started: &StartedRun,
    follow: &FollowRun,
    json: Json,
) -> Result<(), Error> {
    let StartedRun { name, cwd, run, .. } = started;
    let (session_name, window) = (&started.session.name, &run.window_id);
    let is_restart = context.words == "restart";
    let line = format!("started {window} ({name}) in {session_name}");
    if json.json {
        output::json(&json!({
            "sessionName": session_name,
            "windowId": window,
            "windowName": name,
            "taskCwd": cwd,
            "run": run.run,
            "cursor": run.cursor,
            "replaced": run.replaced,
        }))?;
    } else if follow.follow {
        // stdout is for the task's output.
        output::note(&line);
    } else if is_restart {
        output::line(&format!("restarted {window} ({name}), run {}", run.run))?;
    } else if output::viewer().is_stdout_terminal {
        let logs = output::with_options(
            &format!("`tmux-task logs -f {name}` shows its output"),
            &context.global.words(),
        );
        output::line(&format!("{line}; {logs}"))?;
    } else {
        // One with a line break in it would be read as two lines.
        let cwd = match cwd.contains(char::is_control) {
            true => &text::one_line(cwd.as_bytes(), cwd.len()),
            false => cwd,
        };
        output::lines([
            format!("session={session_name}"),
            format!("window_id={window}"),
            format!("task={name}"),
            format!("cwd={cwd}"),
        ])?;
    }
    if run.replaced == Some(ReplacedRun::Live) && !is_restart {
        context.say(&format!("replaced the live run of task `{name}`"));
    }
    Ok(())
}

/// Says if nothing delivers messages to the owner, each time: a model may have lost what it was told.
pub(super) async fn say_undelivered(
    context: &Context,
    session: &TaskSession,
    owner: Option<&str>,
    names: &str,
) {
    let Some(owner) = owner else { return };
    let Some(adapter) = ops::undelivered_to(session, owner).await else {
        return;
    };
    let more = match adapter {
        Adapter::None => String::new(),
        Adapter::Available(client) => {
            format!("; `tmux-task init {client} --write` installs what delivers messages")
        }
        Adapter::Silent(client) => format!(
            "; the adapter of {client} is installed and does not follow this session: start {client} \
             again in this project"
        ),
    };
    context.say(&format!(
        "nothing delivers messages to {owner}\nhint: `tmux-task wait {names}` blocks until the task ends or \
         asks for input{more}"
    ));
}

/// The exit code of a task that could not be started, as shells have it.
const NOT_EXECUTED: u8 = 126;

pub(super) fn exec(file: &Path) -> ExitCode {
    let error = exec_task(file, |slot| wait_for_slot(file, slot));
    output::complain(&error, "exec", "");
    ExitCode::from(NOT_EXECUTED)
}

/// Waits for a place in the task's slot. Where that is not possible, it runs without one.
fn wait_for_slot(file: &Path, slot: &Slot) {
    let Slot { name, places } = slot;
    let say = |text: &str| {
        let mut out = std::io::stdout();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    };
    let on_wait = || {
        say(&format!(
            "tmux-task: waits for a place in `{name}` ({places} at once)"
        ));
    };
    let waited = ops::wait_for_place(file, slot, on_wait);
    // The line is not of the task; that it goes makes the daemon look.
    say("\r\x1b[K");
    if let Err(error) = waited {
        output::note(&format!(
            "tmux-task: exec: it runs without a place in `{name}`: {error}"
        ));
    }
}
