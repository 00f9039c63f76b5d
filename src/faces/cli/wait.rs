//! `wait` and `signal`, and the waits of `run`: for the tasks that another one starts after, and for what
//! was started.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use tokio::time::Instant;

use super::context::{self, Context};
use super::output;
use crate::config::read_time;
use crate::model::{self, *};
use crate::ops::{
    self, Awaited, Caller, LINES, StartedRun, TaskSession, WaitArguments, WaitNews, number,
    parse_port,
};
use crate::rules::wire::WaitRequest;

#[derive(Debug, Args)]
pub(super) struct Signal {
    /// The channel
    name: String,
}

// How `run` waits for what it has started.
#[derive(Debug, Clone, Args)]
pub(super) struct FollowRun {
    /// Wait until the run ends, and exit with its code (128+N for signal N); 123: the task asks for
    /// input, 124: timed out, 125: run itself failed
    #[arg(long, conflicts_with = "until", group = "waits")]
    pub(super) wait: bool,
    /// Show its output here, nothing else on stdout, until the run ends; exit as with --wait. Ctrl-C
    /// leaves it running
    #[arg(long, conflicts_with_all = ["until", "listen", "json"])]
    pub(super) follow: bool,
    /// With --wait or --follow: continue to wait while the task asks for input
    #[arg(long, requires = "ends")]
    pub(super) through_prompts: bool,
    /// With --wait, --until or --listen, or run's --after: how many of the last lines of a failed run to print
    /// on stderr
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<usize>(LINES), allow_negative_numbers = true, requires = "limited")]
    pub(super) tail: usize,
    /// Wait until this text is written, as `wait --text` does
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        group = "waits"
    )]
    pub(super) until: Vec<String>,
    /// Wait until the task's own processes listen on this TCP port, or on any, as `wait --listen` does
    #[arg(long, value_name = "PORT", value_parser = parse_port, num_args = 0..=1, conflicts_with = "wait")]
    pub(super) listen: Option<Option<u16>>,
    /// With --until: give up when this text is written; may be given more than once
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        requires = "until"
    )]
    pub(super) stop: Vec<String>,
    /// The texts of --until, --stop and run's --notify-on are regular expressions
    #[arg(long, requires = "texts")]
    pub(super) regex: bool,
    /// The texts of --until, --stop and run's --notify-on match in upper and lower case
    #[arg(long, requires = "texts")]
    pub(super) ignore_case: bool,
    /// With --wait, --follow, --until or --listen, or run's --after: the longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = read_time, requires = "limited")]
    pub(super) timeout: Option<Duration>,
}

impl FollowRun {
    /// Returns what ends the wait besides the end of the run.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let texts = self.until.iter().cloned().map(Condition::Text);
        let ports = self.listen.map(|port| Condition::Listen { port });
        texts.chain(ports).collect()
    }

    pub(super) fn will_wait(&self) -> bool {
        self.follow || self.wait || !self.conditions().is_empty()
    }

    /// Adds what its caller will wait for. For a text, or all output, the command starts with the wait.
    pub(super) fn mark(&self, launch: Launch) -> Launch {
        Launch {
            will_wait: self.will_wait(),
            is_held: self.follow || !self.until.is_empty(),
            ..launch
        }
    }

    /// How a command that shows the run's output ends when nobody reads that any more: the run's code is not known.
    pub(super) fn end_unread(&self) -> Option<ErrorKind> {
        self.follow.then(|| ErrorKind::Failed.of_run())
    }

    pub(super) fn check_texts(&self) -> Result<(), Error> {
        let texts = self.until.iter().chain(&self.stop);
        ops::check_texts(texts, self.regex, self.ignore_case)
    }
}

/// What is left of a time limit at least: a wait without time reports no end that is there.
const LEAST: Duration = Duration::from_millis(1);

pub(super) async fn wait(context: &Context, mut args: WaitArguments) -> Result<(), Error> {
    context.limit.wait(args.timeout);
    args.channel.as_deref().map_or(Ok(()), check_channel)?;
    let mut session = context.given()?;
    if args.names.len() > 1 || args.any || args.mine {
        // A task that will be restarted goes on.
        args.is_final |= args.mine;
        let waited = wait_for_several(context, &mut session, &args);
        return context::unless_unread(waited).await?;
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
                () = output::stdout_closed() => return Err(Error::silent(ErrorKind::OutputClosed)),
                kind = ends.recv() => return Err(Error::silent(kind)),
            }
        }
        None => {
            // An interrupt does not affect the task.
            let asked = ops::wait_for_task(&mut session, args.request(name, owner()));
            let asked = context::unless_interrupted(asked);
            context::unless_unread(asked).await???
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
    let mut found = match args.mine {
        true => ops::my_tasks(session).await?,
        false => Vec::new(),
    };
    // None is waited for if one of the names is not a task's.
    for name in &args.names {
        let window = ops::find(session, name).await?.window;
        if found.iter().all(|(_, other)| *other != window) {
            found.push((name.clone(), window));
        }
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let mut waits: FuturesUnordered<_> = found
        .iter()
        .map(|(_, window)| *window)
        .enumerate()
        .map(|(index, window)| {
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
        let result = match result? {
            // It was there a moment ago.
            Err(error) if args.mine && error.kind == ErrorKind::Missing => continue,
            result => result?,
        };
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
    if let Some((_, late)) = timed_out.first() {
        if !args.json {
            let what = format!("wait {}", names.join(" "));
            return Err(Error::new(ErrorKind::TimedOut, why(late, args.timeout)).about(what));
        }
        for (index, result) in &timed_out {
            print_one(*index, result, Some(&names))?;
        }
        return Err(Error::silent(ErrorKind::TimedOut));
    }
    let kind = failed.into_values().next();
    kind.map_or(Ok(()), |kind| Err(Error::silent(kind)))
}

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
            output::tail(&result.tail, prefix);
            // What may have killed it.
            if let Some(hint) = &result.exit_hint {
                output::note(&format!("tmux-task: {what}: {hint}"));
            }
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

/// Returns why the condition did not hold within this time limit, and who has the port.
fn why(result: &WaitResult, limit: Option<Duration>) -> String {
    let why = result.words(limit).text;
    match result.holder_words() {
        Some(holders) => format!("{why}; {holders}"),
        None => why,
    }
}

/// Returns the error for a prompt that was not the condition, with how to answer and what to do `then`.
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

/// `run --after`: waits until these tasks have succeeded. What is left of the time is for what follows.
pub(super) async fn wait_before_launch(
    context: &Context,
    task: &str,
    names: &[String],
    follow: &mut FollowRun,
) -> Result<(), Error> {
    let (timeout, tail) = (follow.timeout, follow.tail);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    if names.iter().any(|name| name == task) {
        let why = format!("task `{task}` cannot start after itself");
        return Err(Error::usage(why));
    }
    let mut session = context.given()?;
    for name in names {
        ops::find(&mut session, name).await?;
    }
    context.say(&format!("{task} waits for {}", names.join(", ")));
    context.limit.wait(timeout);
    let waits = names.iter().map(|name| async move {
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
        let Err(failed) = awaited.wait(&mut context.given()?, None).await? else {
            return Ok(());
        };
        output::tail(&failed.tail, Some(name));
        let kind = match failed.has_timed_out {
            true => ErrorKind::TimedOut,
            false => ErrorKind::Impossible,
        };
        let why = format!("{task} was not started: {name} {}", failed.why);
        Err(Error::new(kind, why))
    });
    context::unless_interrupted(try_join_all(waits)).await??;
    let rest = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    follow.timeout = deadline.map(|deadline| rest(deadline).max(LEAST));
    Ok(())
}

/// Waits for what was started, from the beginning of the run on: nothing is missed.
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
    let what = format!("{} {name}", context.words);
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

/// Ends with the task's own code, 128+N for the signal N. stdout is for results.
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
    check_channel(&args.name)?;
    Ok(context.given()?.connection().signal(&args.name).await?)
}

fn check_channel(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        let why = "a channel has a name of at least one character";
        return Err(Error::usage(why));
    }
    Ok(())
}
