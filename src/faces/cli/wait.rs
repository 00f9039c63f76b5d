//! `wait` and `signal`, and the waits of `run`: for the tasks that another one starts after, and for what
//! was started.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;

use super::args::{FollowRun, Signal};
use super::context::{self, Context};
use super::output;
use crate::model::{
    self, AnswerBy, Error, ErrorKind, GoneReason, Stop, WaitOutcome, WaitResult, whole_millis,
};
use crate::ops::{self, Awaited, Caller, StartedRun, TaskSession, WaitArguments, WaitNews};
use crate::rules::wire::WaitRequest;

/// What is left of a time limit at least: a wait without time reports no end that is there.
const LEAST: Duration = Duration::from_millis(1);

pub(super) async fn wait(context: &Context, args: WaitArguments) -> Result<(), Error> {
    context.limit.wait(args.timeout);
    if args.channel.as_deref() == Some("") {
        let why = "a channel has a name of at least one character";
        return Err(Error::usage(why));
    }
    let mut session = context.given()?;
    if args.names.len() > 1 || args.any {
        return wait_for_several(context, &mut session, &args).await;
    }
    let name = args.channel.as_ref().or(args.names.first());
    let name = name.map_or("", String::as_str);
    let result = match &args.channel {
        // tmux's channels belong to the server: the session does not matter. The `tmux wait-for` process is
        // ended with ours when a signal ends us.
        Some(channel) => {
            let mut ends = context::ExitWatch::listen()?;
            tokio::select! {
                result = ops::wait_for_channel(&session, channel, args.timeout) => result?,
                kind = ends.recv() => return Err(Error::silent(kind)),
            }
        }
        None => {
            // An interrupt does not affect the task.
            let asked = ops::wait_for_task(&mut session, args.request(name, owner()));
            context::unless_interrupted(asked).await??
        }
    };
    let what = format!("wait {name}");
    print(&result, args.timeout, &what, name, None, args.json)?.map_or(Ok(()), Err)
}

fn owner() -> Option<String> {
    Caller::of_environment().owner
}

/// Waits for several tasks at the same time, or for the last ones of a loop, and prints each outcome
/// when it is there. Ends with the first one, or with the exit code of the first task whose wait did
/// not succeed. A task that is named twice, also by its window's id, is waited for once.
async fn wait_for_several(
    context: &Context,
    session: &mut TaskSession,
    args: &WaitArguments,
) -> Result<(), Error> {
    if args.since.is_some() && args.names.len() > 1 {
        let why = "a cursor belongs to one task: give one name with --since";
        return Err(Error::usage(why));
    }
    // None is waited for if one of the names is not a task's.
    let mut found = Vec::new();
    for name in &args.names {
        let window = ops::find(session, name).await?.window;
        if found.iter().all(|(_, other)| *other != window) {
            found.push((name.as_str(), window));
        }
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    let waits = found.into_iter().enumerate();
    let mut waits: FuturesUnordered<_> = waits
        .map(|(index, (_, window))| {
            let session = session.for_request();
            async move {
                let request = args.request(&window.to_string(), owner());
                let wait = ops::wait(&session, &request);
                (index, context::unless_interrupted(wait).await)
            }
        })
        .collect();
    let mut failed: BTreeMap<usize, ErrorKind> = BTreeMap::new();
    // With --any: those that did not end in time. Another one may have done so in the last moment.
    let mut timed_out: Vec<(usize, WaitResult)> = Vec::new();
    let print_one = |index: usize, result: &WaitResult, left: Option<&[&str]>| {
        let (name, json) = (names[index], args.json);
        let what = format!("wait {name}");
        let failure = print(result, args.timeout, &what, name, Some(left), json)?;
        let kind = failure.as_ref().map(|failure| failure.kind);
        if let Some(failure) = failure {
            context.complain(&failure);
        }
        if let Some(left) = left.filter(|left| !left.is_empty() && !json) {
            context.say(&format!("left: {}", left.join(" ")));
        }
        Ok::<_, Error>(kind)
    };
    while let Some((index, result)) = waits.next().await {
        let result = result??;
        if args.any && result.outcome == WaitOutcome::Timeout {
            timed_out.push((index, result));
            continue;
        }
        let mut left = names.clone();
        left.remove(index);
        if let Some(kind) = print_one(index, &result, args.any.then_some(&left))? {
            failed.insert(index, kind);
        }
        if args.any {
            timed_out.clear();
            break;
        }
    }
    if args.json {
        for (index, result) in &timed_out {
            print_one(*index, result, Some(&names))?;
        }
    } else if let Some((_, result)) = timed_out.first() {
        let what = format!("wait {}", names.join(" "));
        return Err(Error::new(ErrorKind::TimedOut, why(result, args.timeout)).about(what));
    }
    failed.extend(
        timed_out
            .iter()
            .map(|(index, _)| (*index, ErrorKind::TimedOut)),
    );
    match failed.into_values().next() {
        None => Ok(()),
        Some(kind) => Err(Error::silent(kind)),
    }
}

/// A result with the task as it was named.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NamedResult<'a> {
    window_name: &'a str,
    /// With --any: the other tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<&'a [&'a str]>,
    #[serde(flatten)]
    result: &'a WaitResult,
}

/// Prints the outcome of a wait, and returns the failure if it did not succeed. One `of_several` is printed
/// with the task's name and, where the command ends with it, the other tasks.
fn print(
    result: &WaitResult,
    limit: Option<Duration>,
    what: &str,
    name: &str,
    of_several: Option<Option<&[&str]>>,
    json: bool,
) -> Result<Option<Error>, Error> {
    let words = result.words(limit);
    let has_failed = words.unmet == Some(ErrorKind::Failed);
    if json {
        match of_several {
            None => output::json(result)?,
            Some(left) => output::json(&NamedResult {
                window_name: name,
                left,
                result,
            })?,
        }
    } else {
        let prefix = of_several.map(|_| name);
        if result.outcome == WaitOutcome::Died || has_failed {
            print_end(result, what, prefix);
        }
        // An end that was the condition is a result, even if not a success.
        if words.unmet.is_none() || has_failed {
            output::line(&match prefix {
                Some(name) => format!("{name}: {}", words.text),
                None => words.text,
            })?;
        }
    }
    // A question or a gap may go unnoticed in JSON.
    let is_shown = !json || result.outcome == WaitOutcome::AnchorLost;
    Ok(words.unmet.map(|kind| {
        if kind == ErrorKind::Asked {
            asks(what, name, result, "--through-prompts waits on")
        } else if is_shown && kind != ErrorKind::Failed {
            Error::new(kind, why(result, limit)).about(what)
        } else {
            Error::silent(kind)
        }
    }))
}

/// Prints the last lines of a run that has failed, behind the task's name if that is given, and what may
/// have killed it.
fn print_end(result: &WaitResult, what: &str, name: Option<&str>) {
    output::tail(&result.tail, name);
    if let Some(hint) = &result.exit_hint {
        output::note(&format!("tmux-task: {what}: {hint}"));
    }
}

/// Returns why the condition did not hold within this time limit, and who has the port.
fn why(result: &WaitResult, limit: Option<Duration>) -> String {
    let why = result.words(limit).text;
    match result.holder_words() {
        Some(holders) => format!("{why}; {holders}"),
        None => why,
    }
}

/// Handles a prompt that was not the condition: prints what is asked, how to answer and what to do
/// `then`.
fn asks(what: &str, name: &str, result: &WaitResult, then: &str) -> Error {
    let hint = match how_to_answer(name, result) {
        // It does not go on.
        advice if result.stopped => advice,
        answer => format!("{answer}; {then}"),
    };
    Error::new(ErrorKind::Asked, result.words(None).text)
        .about(what)
        .with_hint(hint)
}

/// Reports what happens to a task that another one starts after.
pub(super) fn news_of(context: &Context, name: &str, news: &WaitNews<'_>) {
    match news {
        WaitNews::Asks(result) => {
            let why = format!("{name} {}", result.words(None).clause);
            let failure = Error::new(ErrorKind::Asked, why);
            context.complain(&failure.with_hint(how_to_answer(name, result)));
        }
        WaitNews::DaemonEnded => context.say(&format!(
            "the daemon ended; the wait for {name} goes on with another one"
        )),
    }
}

/// Returns the command that answers a prompt.
fn how_to_answer(name: &str, result: &WaitResult) -> String {
    if result.stopped {
        return Stop::ADVICE.to_owned();
    }
    let answer = match result.answer_by() {
        AnswerBy::Secret => "--secret",
        AnswerBy::Keys => "--key KEY",
        AnswerBy::Text => "TEXT",
    };
    // Where it goes through others, it must say what it answers.
    let prompt = result
        .line
        .as_deref()
        .filter(|_| output::viewer().is_guarded);
    let prompt = prompt.map_or_else(String::new, |prompt| {
        format!(" --if-prompt {}", ops::quote_where_needed(prompt))
    });
    format!("`tmux-task send {name} {answer}{prompt}` answers")
}

/// `run --after`: waits until all these tasks have succeeded. `task` is the one that starts then. Of a run that
/// has failed, the last lines are printed. `follow` says how long; what is left of that is for what follows.
///
/// # Errors
///
/// As soon as one of them has failed, when the time is over, and when one does not exist.
pub(super) async fn wait_before_launch(
    context: &Context,
    task: &str,
    names: &[String],
    follow: &mut FollowRun,
) -> Result<(), Error> {
    let begun = Instant::now();
    let (timeout, tail) = (follow.timeout, follow.tail);
    if names.iter().any(|name| name == task) {
        let why = format!("task `{task}` cannot start after itself");
        return Err(Error::usage(why));
    }
    let mut session = context.given()?;
    for name in names {
        ops::find(&mut session, name).await?;
    }
    let listed = names.join(", ");
    context.say(&format!("{task} waits for {listed}"));
    context.limit.wait(timeout);
    let deadline = timeout.map(|timeout| tokio::time::Instant::now() + timeout);
    let mut waits: FuturesUnordered<_> = names
        .iter()
        .map(|name| async move {
            let mut session = context.given()?;
            let awaited = Awaited {
                name,
                ready: None,
                earlier_run: None,
                deadline,
                limit: timeout.unwrap_or_default(),
                late: "has not ended",
                tail,
                report: &|news| news_of(context, name, &news),
            };
            let ended = awaited.wait(&mut session, None).await?;
            Ok::<_, Error>((name, ended))
        })
        .collect();
    let all = async {
        while let Some(ended) = waits.next().await {
            if let (name, Err(failed)) = ended? {
                output::tail(&failed.tail, Some(name));
                let why = format!("{task} was not started: {name} {}", failed.why);
                let kind = match failed.has_timed_out {
                    true => ErrorKind::TimedOut,
                    false => ErrorKind::Impossible,
                };
                return Err(Error::new(kind, why));
            }
        }
        Ok(())
    };
    context::unless_interrupted(all).await??;
    let rest = |timeout: Duration| timeout.saturating_sub(begun.elapsed());
    follow.timeout = follow.timeout.map(|timeout| rest(timeout).max(LEAST));
    Ok(())
}

/// Waits for what was started, as requested. The wait starts at the beginning of the run: nothing is missed
/// between launch and wait, and the command waits at its gate until the wait has begun.
pub(super) async fn wait_for_launched(
    context: &Context,
    started: StartedRun,
    follow: FollowRun,
    json: bool,
) -> Result<(), Error> {
    let StartedRun {
        name, run, session, ..
    } = started;
    let timeout = follow.timeout;
    context.limit.wait(timeout);
    let conditions = follow.conditions();
    let is_for_exit = conditions.is_empty();
    let what = format!("{} {name}", context.what());
    let request = WaitRequest {
        stops: follow.stop,
        regex: follow.regex,
        ignore_case: follow.ignore_case,
        timeout_ms: timeout.map(whole_millis),
        through_prompts: follow.through_prompts,
        // What is followed is shown already.
        tail: Some(if follow.follow { 0 } else { follow.tail }),
        ..ops::wait_of_launch(&run, conditions, owner())
    };
    let wait = ops::wait(&session, &request);
    let result = context::unless_interrupted(wait).await?;
    let goes_on = format!("`tmux-task wait {name}` waits for its end");
    let result = result.map_err(|failure| {
        if failure.kind == ErrorKind::Missing {
            // It was launched, and no look has contained its window.
            Error::new(ErrorKind::Impossible, "the task has disappeared").about(what.as_str())
        } else {
            // Whoever takes this for a launch that failed would replace the live run.
            failure.with_hint_if_none(|| format!("the task was started and goes on; {goes_on}"))
        }
    })?;
    if !is_for_exit {
        return print(&result, timeout, &what, &name, None, json)?.map_or(Ok(()), Err);
    }
    if json {
        output::json(&result)?;
    }
    let words = result.words(timeout);
    match words.unmet {
        _ if result.outcome == WaitOutcome::Exited => ended(&what, &result, json),
        Some(ErrorKind::Asked) => Err(asks(&what, &name, &result, &format!("then {goes_on}"))),
        Some(ErrorKind::TimedOut) => {
            let why = "timed out; the task is still running";
            Err(Error::new(ErrorKind::TimedOut, why)
                .about(what)
                .with_hint(goes_on))
        }
        Some(_) | None => {
            let kind = match result.reason {
                // As `timeout` does.
                Some(GoneReason::TimedOut) => ErrorKind::TimedOut,
                Some(_) | None => ErrorKind::Impossible,
            };
            Err(Error::new(kind, why(&result, timeout)).about(what))
        }
    }
}

/// Ends with the task's own code, 128+N for the signal N. For a failed run it prints on stderr how
/// the run ended, because stdout is for results.
fn ended(what: &str, result: &WaitResult, json: bool) -> Result<(), Error> {
    let signal = result.exit_signal.as_deref().and_then(model::Signal::parse);
    let kind = match (signal.and_then(|signal| signal.number()), result.exit_code) {
        (Some(number), _) => ErrorKind::OfTask(128_u8.saturating_add(number)),
        (None, Some(0)) => return Ok(()),
        (None, Some(code)) => ErrorKind::OfTask(u8::try_from(code & 0xff).unwrap_or(1)),
        // tmux does not know it.
        (None, None) => ErrorKind::Failed.of_run(),
    };
    if json {
        return Err(Error::silent(kind));
    }
    output::tail(&result.tail, None);
    let why = format!("the task {}", result.end_words());
    Err(Error::new(kind, why).about(what))
}

pub(super) async fn signal(context: &Context, args: Signal) -> Result<(), Error> {
    if args.name.is_empty() {
        let why = "a channel has a name of at least one character";
        return Err(Error::usage(why));
    }
    Ok(context.given()?.connection().signal(&args.name).await?)
}
