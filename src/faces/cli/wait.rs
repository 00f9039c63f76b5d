//! `wait` and `signal`, and the waiting of `run --wait` and `run --until`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;

use super::args::{Signal, Wait};
use super::context::{self, Context};
use super::failure::{Failure, OrFail};
use super::output;
use crate::client::DaemonClient;
use crate::model::{
    AnswerBy, Condition, ErrorKind, Stop, WaitOutcome, limit_words, port_words, whole_millis,
};
use crate::ops::{self, Caller, TaskSession};
use crate::wire::{WaitRequest, WaitResult};

pub(super) async fn wait(context: &Context, args: Wait) -> Result<(), Failure> {
    context.limit.wait_from_begin(args.timeout);
    if args.channel.as_deref() == Some("") {
        let why = "a channel has a name of at least one character";
        return Err(Failure::new(ErrorKind::Usage, "wait", why));
    }
    if let Some(channel) = &args.channel {
        // tmux's channels belong to the server: the session does not matter.
        let session = context.given("wait")?;
        let result = on_channel(&session, channel, args.timeout).await?;
        let what = format!("wait {channel}");
        return print_result(&result, args.timeout, &what, channel, args.json.json);
    }
    let mut session = context.given("wait")?;
    if args.names.len() > 1 || args.any {
        return wait_for_several(context, &mut session, &args).await;
    }
    let name = args.names.first().cloned().unwrap_or_default();
    let result = ask(&mut session, request(&args, &name)).await?;
    let what = format!("wait {name}");
    print_result(&result, args.timeout, &what, &name, args.json.json)
}

/// Waits for several tasks at the same time, or for the last ones of a loop, and prints each outcome
/// when it is there. Ends with the first one, or with the exit code of the first task whose wait did
/// not succeed. A task that is named twice, also by its window's id, is waited for once.
async fn wait_for_several(
    context: &Context,
    session: &mut TaskSession,
    args: &Wait,
) -> Result<(), Failure> {
    if args.since.is_some() && args.names.len() > 1 {
        let why = "a cursor belongs to one task: give one name with --since";
        return Err(Failure::new(ErrorKind::Usage, "wait", why));
    }
    // None is waited for if one of the names is not a task's.
    let mut names: Vec<&str> = Vec::new();
    let mut found: Vec<(DaemonClient, String)> = Vec::new();
    for name in &args.names {
        let (daemon, window) = ops::find_to_wait(session, name).await.or_fail("wait")?;
        if found.iter().all(|(_, other)| *other != window) {
            names.push(name);
            found.push((daemon, window));
        }
    }
    let waits = found.into_iter().enumerate();
    let mut waits: FuturesUnordered<_> = waits
        .map(|(index, (mut daemon, window))| async move {
            let request = of_caller(request(args, &window));
            let wait = ops::wait(&mut daemon, request, || {});
            (index, context::unless_interrupted("wait", wait).await)
        })
        .collect();
    let mut failed: BTreeMap<usize, ErrorKind> = BTreeMap::new();
    // With --any: those that did not end in time. Another one may have done so in the last moment.
    let mut timed_out: Vec<(usize, WaitResult)> = Vec::new();
    while let Some((index, result)) = waits.next().await {
        let result = result?.or_fail("wait")?;
        if args.any && result.outcome == WaitOutcome::Timeout {
            timed_out.push((index, result));
            continue;
        }
        let others = names
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index);
        let left: Vec<&str> = others.map(|(_, name)| *name).collect();
        let left = args.any.then_some(&left[..]);
        if let Some(kind) = print_one(context, args, names[index], &result, left)? {
            failed.insert(index, kind);
        }
        if args.any {
            return failed
                .into_values()
                .next()
                .map_or(Ok(()), |kind| Err(Failure::silent(kind)));
        }
    }
    if args.json.json {
        for (index, result) in &timed_out {
            print_one(context, args, names[*index], result, Some(&names))?;
        }
    } else if let Some((_, result)) = timed_out.first() {
        let what = format!("wait {}", names.join(" "));
        return Err(Failure::new(
            ErrorKind::TimedOut,
            what,
            bad(result, args.timeout),
        ));
    }
    failed.extend(
        timed_out
            .iter()
            .map(|(index, _)| (*index, ErrorKind::TimedOut)),
    );
    match failed.into_values().next() {
        None => Ok(()),
        Some(kind) => Err(Failure::silent(kind)),
    }
}

/// Prints the outcome of one of several waits. Returns the kind of failure if it did not succeed.
/// `left` are the other tasks, where the command ends with this outcome.
fn print_one(
    context: &Context,
    args: &Wait,
    name: &str,
    result: &WaitResult,
    left: Option<&[&str]>,
) -> Result<Option<ErrorKind>, Failure> {
    let (line, failure) = outcome(result, args.timeout, &format!("wait {name}"), name);
    let kind = failure.as_ref().map(|failure| failure.kind);
    if args.json.json {
        output::json(&NamedResult {
            window_name: name,
            left,
            result,
        })?;
    } else {
        print_end(result, &format!("wait {name}"), Some(name));
        if let Some(line) = line {
            output::line(&format!("{name}: {line}"))?;
        }
    }
    if let Some(failure) = failure
        && (!args.json.json || is_noted(result, failure.kind))
    {
        context.complain(failure);
    }
    if let Some(left) = left.filter(|left| !left.is_empty() && !args.json.json) {
        output::note(&format!("tmux-task: wait: left: {}", left.join(" ")));
    }
    Ok(kind)
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

fn request(args: &Wait, name: &str) -> WaitRequest {
    WaitRequest {
        task: name.to_owned(),
        conditions: conditions(args),
        stops: args.stop.clone(),
        regex: args.matching.regex,
        ignore_case: args.matching.ignore_case,
        timeout_ms: args.timeout.map(whole_millis),
        since: args.since.clone(),
        through_prompts: args.through_prompts,
        is_final: args.is_final,
        tail: Some(args.tail),
        ..WaitRequest::default()
    }
}

fn conditions(args: &Wait) -> Vec<Condition> {
    let texts = args.text.iter().cloned().map(Condition::Text);
    let others = [
        args.change.then_some(Condition::Change),
        args.bell.then_some(Condition::Bell),
        args.input.then_some(Condition::Input),
        args.idle.map(|limit| Condition::Idle { limit }),
        args.listen.map(|port| Condition::Listen { port }),
    ];
    let exit = args.exit.then_some(Condition::Exit).into_iter();
    exit.chain(texts)
        .chain(others.into_iter().flatten())
        .collect()
}

/// Waits for a task. An interrupt does not affect the task.
async fn ask(session: &mut TaskSession, request: WaitRequest) -> Result<WaitResult, Failure> {
    let wait = ops::wait_for_task(session, of_caller(request));
    context::unless_interrupted("wait", wait)
        .await?
        .or_fail("wait")
}

fn of_caller(request: WaitRequest) -> WaitRequest {
    WaitRequest {
        owner: Caller::of_environment().owner,
        ..request
    }
}

/// Prints the outcome of a wait with this time limit, and ends with its exit code.
pub(super) fn print_result(
    result: &WaitResult,
    limit: Option<Duration>,
    what: &str,
    name: &str,
    json: bool,
) -> Result<(), Failure> {
    let (line, failure) = outcome(result, limit, what, name);
    if json {
        output::json(result)?;
        return match failure {
            None => Ok(()),
            Some(failure) if is_noted(result, failure.kind) => Err(failure),
            Some(failure) => Err(Failure::silent(failure.kind)),
        };
    }
    print_end(result, what, None);
    if let Some(line) = line {
        output::line(&line)?;
    }
    failure.map_or(Ok(()), Err)
}

/// Whether a failure is also printed beside JSON: a question in it, or a gap, may go unnoticed.
fn is_noted(result: &WaitResult, kind: ErrorKind) -> bool {
    kind == ErrorKind::Asked || result.outcome == WaitOutcome::AnchorLost
}

/// Prints the last lines of a run that has failed, behind the task's name if that is given, and what may
/// have killed it.
fn print_end(result: &WaitResult, what: &str, name: Option<&str>) {
    let has_exited = result.outcome == WaitOutcome::Exited;
    if result.outcome == WaitOutcome::Died || has_exited && kind(result).is_some() {
        output::tail(&result.tail, name);
        if let Some(hint) = &result.exit_hint {
            output::note(&format!("tmux-task: {what}: {hint}"));
        }
    }
}

/// Returns what to print of a result, and the failure if the wait did not succeed.
fn outcome(
    result: &WaitResult,
    limit: Option<Duration>,
    what: &str,
    name: &str,
) -> (Option<String>, Option<Failure>) {
    match kind(result) {
        None => (Some(good(result)), None),
        // The end was the condition: a result, even if not a success.
        Some(ErrorKind::Failed) => (Some(good(result)), Some(Failure::silent(ErrorKind::Failed))),
        Some(ErrorKind::Asked) => (None, Some(asks(what, name, result, WAIT_ON))),
        Some(kind) => (None, Some(Failure::new(kind, what, bad(result, limit)))),
    }
}

/// Returns how to continue a wait that ended because the task asks for input.
const WAIT_ON: &str = "--through-prompts waits on";

/// Handles a prompt that was not the condition: prints what is asked, how to answer and what to do
/// `then`.
pub(super) fn asks(what: &str, name: &str, result: &WaitResult, then: &str) -> Failure {
    let why = match result.line.as_deref().filter(|prompt| !prompt.is_empty()) {
        Some(prompt) => format!("the task {}: {prompt}", result.asking_words()),
        None => format!("the task {}", result.asking_words()),
    };
    let hint = match how_to_answer(name, result) {
        // It does not go on.
        advice if result.stopped => advice,
        answer => format!("{answer}; {then}"),
    };
    Failure::new(ErrorKind::Asked, what, why).with_hint(hint)
}

/// Reports a prompt of a task that is waited for on behalf of another one; the wait goes on.
pub(super) fn asks_meanwhile(what: &str, name: &str, result: &WaitResult) -> Failure {
    let why = match result.line.as_deref().filter(|prompt| !prompt.is_empty()) {
        Some(prompt) => format!("{name} {}: {prompt}", result.asking_words()),
        None => format!("{name} {}", result.asking_words()),
    };
    Failure::new(ErrorKind::Asked, what, why).with_hint(how_to_answer(name, result))
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
        .filter(|_| output::is_caller_guarded());
    let prompt = prompt.map_or_else(String::new, |prompt| {
        format!(" --if-prompt {}", ops::quote_where_needed(prompt))
    });
    format!("`tmux-task send {name} {answer}{prompt}` answers")
}

/// Returns the kind of failure of a wait; `None` when it succeeded.
fn kind(result: &WaitResult) -> Option<ErrorKind> {
    match result.outcome {
        WaitOutcome::Exited => {
            let is_success = result.exit_code == Some(0) && result.exit_signal.is_none();
            (!is_success).then_some(ErrorKind::Failed)
        }
        WaitOutcome::Input if result.condition.is_none() => Some(ErrorKind::Asked),
        WaitOutcome::Matched
        | WaitOutcome::Changed
        | WaitOutcome::Bell
        | WaitOutcome::Input
        | WaitOutcome::Idle
        | WaitOutcome::Listening
        | WaitOutcome::Signalled => None,
        WaitOutcome::Timeout => Some(ErrorKind::TimedOut),
        WaitOutcome::Died
        | WaitOutcome::Respawned
        | WaitOutcome::Disappeared
        | WaitOutcome::Stopped
        | WaitOutcome::AnchorLost => Some(ErrorKind::Impossible),
    }
}

fn good(result: &WaitResult) -> String {
    let name = result.outcome;
    let detail = if result.outcome == WaitOutcome::Exited {
        Some(ops::with_restart(&result.run_end().cause(), result))
    } else if result.outcome == WaitOutcome::Listening {
        Some(port_words(&result.ports))
    } else {
        result.line.clone()
    };
    detail.map_or_else(|| name.to_string(), |detail| format!("{name}: {detail}"))
}

/// Returns why the condition did not hold within this time limit, and who has the port.
pub(super) fn bad(result: &WaitResult, limit: Option<Duration>) -> String {
    let why = why(result, limit);
    match result.holder_words() {
        Some(holders) => format!("{why}; {holders}"),
        None => why,
    }
}

fn why(result: &WaitResult, limit: Option<Duration>) -> String {
    let line = result.line.as_deref().unwrap_or_default();
    match result.outcome {
        WaitOutcome::Timeout => {
            let elapsed = Duration::from_millis(result.elapsed_ms);
            format!("timed out after {}", limit_words(limit.unwrap_or(elapsed)))
        }
        WaitOutcome::Died => format!(
            "the run ended ({}) before the condition held",
            result.run_end().cause()
        ),
        WaitOutcome::Respawned => "the run was replaced by another one".to_owned(),
        WaitOutcome::Disappeared if is_on_channel(result) => "the tmux server has gone".to_owned(),
        WaitOutcome::Disappeared => format!("the task {}", result.gone_words()),
        WaitOutcome::Stopped => format!("stopped by: {line}"),
        WaitOutcome::AnchorLost => {
            "some of the output is missing: it may have contained the text".to_owned()
        }
        WaitOutcome::Matched
        | WaitOutcome::Exited
        | WaitOutcome::Changed
        | WaitOutcome::Bell
        | WaitOutcome::Input
        | WaitOutcome::Idle
        | WaitOutcome::Listening
        | WaitOutcome::Signalled => line.to_owned(),
    }
}

fn is_on_channel(result: &WaitResult) -> bool {
    result.condition.as_deref() == Some(ops::CHANNEL)
}

/// Waits on a channel. The `tmux wait-for` process is ended with ours when a signal ends us.
async fn on_channel(
    session: &TaskSession,
    channel: &str,
    timeout: Option<Duration>,
) -> Result<WaitResult, Failure> {
    let mut ends = context::ExitWatch::listen("wait")?;
    tokio::select! {
        result = ops::wait_for_channel(session, channel, timeout) => result.or_fail("wait"),
        kind = ends.recv() => Err(Failure::silent(kind)),
    }
}

pub(super) async fn signal(context: &Context, args: Signal) -> Result<(), Failure> {
    if args.name.is_empty() {
        let why = "a channel has a name of at least one character";
        return Err(Failure::new(ErrorKind::Usage, "signal", why));
    }
    let session = context.given("signal")?;
    ops::signal_channel(&session, &args.name)
        .await
        .or_fail("signal")
}
