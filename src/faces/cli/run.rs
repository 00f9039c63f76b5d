//! `run` and `restart`: start a task in its slot. What runs in its pane first.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use serde_json::json;

use super::args::{FollowRun, Json, Restart, Run};
use super::context::{self, Context};
use super::kill::watched;
use super::{logs, output, wait};
use crate::client::DaemonClient;
use crate::model::{
    Error, ErrorKind, Launch, PortHolder, ReplacedRun, Replaces, Slot, TaskSpec, WindowId, text,
};
use crate::ops::{self, Adapter, Caller, StartedRun, TaskSession};
use crate::tmux::{check_name, exec_task};

pub(super) use crate::tmux::EXEC_PANE;

/// What is printed of a run that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaunchReport {
    /// The helper's four lines, for programs.
    Lines,
    /// One line, for people.
    Line,
    /// One line that says that it ran before.
    Restarted,
    /// One line on stderr: stdout is for the task's output.
    Followed,
    Json,
}

impl LaunchReport {
    /// Returns what is printed instead, if the options say so.
    fn unless(self, json: Json, follow: &FollowRun) -> Self {
        match (json.json, follow.follow) {
            (true, _) => Self::Json,
            (false, true) => Self::Followed,
            (false, false) => self,
        }
    }
}

pub(super) async fn run(context: &Context, args: Run) -> Result<(), Error> {
    let Run {
        name,
        cwd,
        env,
        if_absent,
        clean_env,
        settings,
        after,
        mut follow,
        json,
        command,
    } = args;
    let is_again = command.is_empty();
    let is_unnamed = name.is_none();
    let name = name.unwrap_or_else(|| ops::name_of_command(&command));
    // `run NAME -- $COMMAND` with a variable that is empty.
    if is_again
        && std::env::args_os()
            .next_back()
            .is_some_and(|word| word == "--")
    {
        let why = format!("no command given for task `{name}`");
        return Err(Error::usage(why));
    }
    let mut launch = Launch {
        name,
        spec: TaskSpec {
            settings: settings.settings(follow.regex, follow.ignore_case),
            is_env_clean: clean_env,
            env,
            cwd,
            command,
            ..TaskSpec::default()
        },
        replaces: if if_absent {
            Replaces::Ended
        } else {
            Replaces::Any
        },
        owner: Caller::of_environment().owner,
        will_wait: will_wait(&follow),
        is_held: is_held(&follow),
        ..Launch::default()
    };
    if !is_again {
        ops::check_launch(&launch)?;
    } else if launch.name.parse::<WindowId>().is_err() {
        check_name(&launch.name)?;
    }
    check(&follow)?;
    if !after.is_empty() {
        wait::wait_before_launch(context, &launch.name, &after, &mut follow).await?;
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
    let usual = match output::viewer().is_stdout_terminal {
        true => LaunchReport::Line,
        false => LaunchReport::Lines,
    };
    let report = usual.unless(json, &follow);
    say_holders(context, &session, &launch.name, &follow);
    let (started, is_interrupted) = if is_unnamed && !if_absent {
        start_in_free_slot(context, session, launch).await?
    } else {
        start(context, session, launch).await?
    };
    let follow = (follow, is_interrupted);
    follow_up(context, started, follow, report).await
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
    let Restart {
        names,
        follow,
        json,
    } = args;
    check(&follow)?;
    if names.len() > 1 && will_wait(&follow) {
        let why = "--wait, --follow, --until and --listen are for one task";
        let hint = format!("`tmux-task wait {}` waits for all of them", names.join(" "));
        return Err(Error::usage(why).with_hint(hint));
    }
    let mut session = context.given()?;
    let all = ops::plan_restarts(&mut session, names).await?;
    let report = LaunchReport::Restarted.unless(json, &follow);
    for launch in all {
        let launch = Launch {
            will_wait: will_wait(&follow),
            is_held: is_held(&follow),
            ..launch
        };
        say_holders(context, &session, &launch.name, &follow);
        let (started, is_interrupted) = start(context, session.for_request(), launch).await?;
        let follow = (follow.clone(), is_interrupted);
        follow_up(context, started, follow, report).await?;
    }
    Ok(())
}

/// Whether the command starts when the wait has begun: for a text, or to show all of the output.
fn is_held(follow: &FollowRun) -> bool {
    follow.follow || !follow.until.is_empty()
}

fn will_wait(follow: &FollowRun) -> bool {
    is_held(follow) || follow.wait || follow.listen.is_some()
}

/// Says who has the port that the task is to listen on, before it is started. The run that it replaces
/// gives it back.
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

/// Refuses invalid texts before anything is started.
fn check(follow: &FollowRun) -> Result<(), Error> {
    let texts = follow.until.iter().chain(&follow.stop);
    ops::check_texts(texts, follow.regex, follow.ignore_case)
}

/// Starts a run. A live run of its slot ends first, which may take a while: returns also whether the user
/// has interrupted that once.
async fn start(
    context: &Context,
    session: TaskSession,
    launch: Launch,
) -> Result<(StartedRun, bool), Error> {
    let (mut asking, names) = (session.for_request(), [launch.name.clone()]);
    let work = ops::run(session, launch);
    let (started, is_interrupted) = watched(context, &mut asking, &names, work).await?;
    Ok((started?, is_interrupted))
}

/// Prints what was started, and follows it as requested, unless that was interrupted already.
async fn follow_up(
    context: &Context,
    started: StartedRun,
    (follow, is_interrupted): (FollowRun, bool),
    report: LaunchReport,
) -> Result<(), Error> {
    let will_wait = will_wait(&follow);
    print(context, &started, report)?;
    if !will_wait && started.unreachable.is_none() {
        let owner = started.owner.as_deref();
        say_undelivered(context, &started.session, owner, &started.name).await;
    }
    if let Some(why) = started.unreachable.as_ref().filter(|_| !will_wait) {
        context.note(&format!(
            "tmux-task: {}: no message will come when this task ends or asks for input: {why}\n\
             hint: `tmux-task wait {}` waits for it",
            context.what(),
            started.name
        ));
    }
    let goes_on = format!("{} ({}) goes on", started.run.window_id, started.name);
    let interrupted = |hint: String| Error::new(ErrorKind::Interrupted, goes_on).with_hint(hint);
    if will_wait && is_interrupted {
        let name = &started.name;
        return Err(interrupted(format!("`tmux-task wait {name}` waits for it")));
    }
    let shown = match follow.follow {
        true => {
            let (window, name) = (&started.run.window_id, &started.name);
            // Beside the connection on which it was launched.
            let session = started.session.for_request();
            let shown = ops::follow_log(&session, window, false, 0).await;
            let goes_on =
                || format!("the task was started and goes on; `tmux-task logs -f {name}` shows it");
            Some(shown.map_err(|failure| failure.with_hint_if_none(goes_on))?)
        }
        false => None,
    };
    if !will_wait {
        return Ok(());
    }
    let name = started.name.clone();
    let has_limit = follow.timeout.is_some();
    let json = report == LaunchReport::Json;
    let ended = wait::wait_for_launched(context, started, follow, json);
    let Some(shown) = shown else {
        return ended.await;
    };
    let mut interrupts = context::interrupts()?;
    tokio::select! {
        biased;
        _ = interrupts.recv() => {
            Err(interrupted(format!("`tmux-task logs -f {name}` shows its output")))
        }
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
    let shown = pin!(logs::print_followed(output, false, None));
    let ended = pin!(ended);
    let (shown, outcome) = match select(shown, ended).await {
        Either::Left((shown, ended)) => (shown, Either::Left(ended)),
        Either::Right((outcome, shown)) => {
            let goes_on = outcome.as_ref().is_err_and(|failure| {
                // Without a limit of the wait, it was the run's own.
                failure.kind == ErrorKind::Asked || failure.kind == ErrorKind::TimedOut && has_limit
            });
            let shown = match goes_on {
                true => shown.now_or_never().unwrap_or(Ok(())),
                false => shown.await,
            };
            (shown, Either::Right(std::future::ready(outcome)))
        }
    };
    match shown {
        Err(closed) if closed.kind == ErrorKind::OutputClosed => return Err(closed),
        // The wait goes on without it.
        Err(failure) => context.complain(&failure),
        Ok(()) => {}
    }
    outcome.await
}

/// Returns a path as it can stand on a line: one with a line break in it would be read as two lines.
fn as_one_line(path: &str) -> Cow<'_, str> {
    if path.contains(char::is_control) {
        Cow::Owned(text::one_line(path.as_bytes(), path.len()))
    } else {
        Cow::Borrowed(path)
    }
}

fn print(context: &Context, started: &StartedRun, report: LaunchReport) -> Result<(), Error> {
    let StartedRun { name, cwd, run, .. } = started;
    let session_name = &started.session.name;
    let line = format!("started {} ({name}) in {session_name}", run.window_id);
    match report {
        LaunchReport::Json => output::json(&json!({
            "sessionName": session_name,
            "windowId": run.window_id,
            "windowName": name,
            "taskCwd": cwd,
            "run": run.run,
            "cursor": run.cursor,
            "replaced": run.replaced,
        }))?,
        LaunchReport::Lines => output::lines([
            format!("session={session_name}"),
            format!("window_id={}", run.window_id),
            format!("task={name}"),
            format!("cwd={}", as_one_line(cwd)),
        ])?,
        LaunchReport::Line => {
            context.line(&format!(
                "{line}; `tmux-task logs -f {name}` shows its output"
            ))?;
        }
        LaunchReport::Followed => output::note(&line),
        LaunchReport::Restarted => {
            let (window, run) = (&run.window_id, run.run);
            output::line(&format!("restarted {window} ({name}), run {run}"))?;
        }
    }
    if run.replaced == Some(ReplacedRun::Live) && context.what() == "run" {
        context.say(&format!("replaced the live run of task `{name}`"));
    }
    Ok(())
}

/// Says it on stderr if nothing delivers messages to the owner of these tasks, which were started in
/// this session. It is said each time: a model may have lost what it was told before.
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
    context.note(&format!(
        "tmux-task: {}: nothing delivers messages to {owner}\nhint: `tmux-task wait {names}` blocks until \
         the task ends or asks for input{more}",
        context.what()
    ));
}

/// The exit code of a task that could not be started, as shells have it.
const NOT_EXECUTED: u8 = 126;

/// Replaces this process with the shell that runs the task of a file.
pub(super) fn exec(file: &Path) -> ExitCode {
    let error = exec_task(file, |slot| wait_for_slot(file, slot));
    output::complain(&error, "exec", "");
    ExitCode::from(NOT_EXECUTED)
}

/// Waits for a place in the task's slot. Where that is not possible, it runs without one.
fn wait_for_slot(file: &Path, slot: &Slot) {
    let say = |text: &str| {
        let mut out = std::io::stdout();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    };
    let on_wait = || {
        let Slot { name, places } = slot;
        say(&format!(
            "tmux-task: waits for a place in `{name}` ({places} at once)"
        ));
    };
    let waited = ops::wait_for_place(file, slot, on_wait);
    // The line is not of the task; that it goes makes the daemon look.
    say("\r\x1b[K");
    if let Err(error) = waited {
        output::note(&format!(
            "tmux-task: exec: it runs without a place in `{}`: {error}",
            slot.name
        ));
    }
}
