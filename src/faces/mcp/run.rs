//! `run_task`: starts a task, and waits for it where that is wanted.

use std::time::Duration;

use super::answer::{ToolAnswer, short};
use super::arguments::RunTask;
use super::call::{Call, Limit, within};
use super::wait::Wait;
use crate::model::{Condition, ReplacedRun, Replaces};
use crate::ops::{self, LaunchWait, RunOptions, SessionChoice, StartedRun, TaskSession};
use crate::wire::WaitRequest;

/// How long the live run of a slot may take to end, and the next one to start.
const REPLACED_WITHIN: Duration = Duration::from_secs(60);

/// The maximum length of a directory, in characters.
const CWD_CHARS: usize = 400;

/// The maximum length of a reason, in characters.
const REASON_CHARS: usize = 400;

/// A task that was started.
pub(super) struct StartedTask {
    /// What was started, in a line.
    pub(super) line: String,
    /// Where its output begins.
    pub(super) cursor: String,
    /// Why the caller's conversation will get no message when it ends; `None` where it will, or
    /// where that is not known.
    pub(super) unreachable: Option<String>,
    /// The wait for it, if one is wanted.
    pub(super) wait: Option<Wait>,
}

/// What follows the launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// What the arguments say.
    AsAsked,
    /// A wait in any case: the call is answered with a handle.
    ByHandle,
}

/// Starts a task.
pub(super) async fn start(
    mut session: TaskSession,
    choice: SessionChoice,
    call: &Call,
    arguments: RunTask,
    follow: Follow,
) -> Result<StartedTask, ToolAnswer> {
    let texts = arguments.until.iter().chain(&arguments.stop);
    ops::check_texts(texts, arguments.regex, arguments.ignore_case)?;
    check_variables(&arguments)?;
    let spec = arguments.spec();
    let spec = spec.map_err(|why| ToolAnswer::refused(&why, None))?;
    let wait = match follow {
        _ if !arguments.until.is_empty() => LaunchWait::Text,
        Follow::AsAsked if !arguments.wait => LaunchWait::No,
        Follow::AsAsked | Follow::ByHandle => LaunchWait::End,
    };
    if wait != LaunchWait::Text && !arguments.stop.is_empty() {
        return Err(ToolAnswer::refused("`stop` needs `until`", None));
    }
    let limit = match follow {
        Follow::AsAsked => Limit::of_call(arguments.timeout_seconds),
        Follow::ByHandle => Limit::of_handle(arguments.timeout_seconds),
    };
    let until = arguments.until.into_iter().map(Condition::Text).collect();
    let stop = arguments.stop;
    let (regex, ignore_case) = (arguments.regex, arguments.ignore_case);
    let options = RunOptions {
        name: arguments.task,
        spec,
        replaces: if arguments.only_if_absent {
            Replaces::Ended
        } else {
            Replaces::Any
        },
        owner: call.caller.owner.clone(),
        wait,
    };
    let is_again = arguments.command.is_none();
    let work = async {
        let options = match is_again {
            true => ops::run_again(&mut session, options).await?,
            false => options,
        };
        Ok(ops::run(session, options).await?)
    };
    // A live run of its slot ends first, which may take its time.
    let mut started = within(REPLACED_WITHIN, work).await?;
    if wait == LaunchWait::No
        && started.unreachable.is_none()
        && let Some(undelivered) = ops::undelivered(&mut started).await
    {
        let owner = undelivered.owner;
        started.unreachable = Some(format!("nothing delivers messages to {owner}"));
    }
    let line = announce(&started);
    let StartedRun {
        name,
        run,
        daemon,
        unreachable,
        ..
    } = started;
    let wait = match wait {
        LaunchWait::No => None,
        LaunchWait::End | LaunchWait::Text => {
            let owner = call.caller.owner.clone();
            let request = WaitRequest {
                stops: stop,
                regex,
                ignore_case,
                ..ops::wait_of_launch(&run, until, owner)
            };
            Some(Wait::for_task(&name, choice, limit, daemon, request))
        }
    };
    Ok(StartedTask {
        line,
        cursor: run.cursor,
        unreachable: unreachable.map(|why| short(&why, REASON_CHARS)),
        wait,
    })
}

fn check_variables(arguments: &RunTask) -> Result<(), ToolAnswer> {
    let is_wrong = |name: &&String| name.is_empty() || name.contains('=');
    match arguments.env.keys().find(is_wrong) {
        Some(name) => Err(ToolAnswer::refused(
            &format!("`{name}` is not a variable's name"),
            None,
        )),
        None => Ok(()),
    }
}

/// Returns what was started, in a line.
fn announce(started: &StartedRun) -> String {
    let StartedRun {
        session_name,
        name,
        cwd,
        run,
        ..
    } = started;
    let replaced = match run.replaced {
        Some(ReplacedRun::Live) => "; it replaced a run that was alive",
        Some(ReplacedRun::Dead) | None => "",
    };
    format!(
        "started {} ({name}), run {}, in {} (tmux session {session_name}){replaced}",
        run.window_id,
        run.run,
        short(cwd, CWD_CHARS),
    )
}
