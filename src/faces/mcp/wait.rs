//! `wait_for`, `run_task`, and the waits that follow a launch.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use schemars::JsonSchema;
use serde::Deserialize;

use super::call::{
    Answer, Call, Limit, NAME_CHARS, Reply, TEXT_CHARS, ToolCall, Wait, line, short, within,
    within_time, worded,
};
use crate::config::parse_group;
use crate::model::*;
use crate::ops::{self, StartedRun, TaskSession, WaitArguments, one_or_more, seconds};
use crate::rules::wire::WaitRequest;

/// How many of the last lines a result has.
const TAIL: usize = 10;

/// How many of them after a success.
const TAIL_OF_SUCCESS: usize = 3;

impl ToolCall for WaitArguments {
    async fn execute(self, mut session: TaskSession, call: &Call) -> Result<Reply, Error> {
        let limit = Limit::of(self.timeout, call.takes_handles);
        if let Some(channel) = self.channel.clone().filter(|name| !name.is_empty()) {
            if !self.names.is_empty() || !self.conditions().is_empty() {
                let why = "`channel` is waited for alone: leave out `task` and the conditions";
                return Err(Error::usage(why));
            }
            let name = format!("channel {}", short(&channel, NAME_CHARS));
            let wait = waiting(name, limit, async move {
                ops::wait_for_channel(&session, &channel, limit.time).await
            });
            return Ok(Reply::Wait(String::new(), wait));
        }
        if self.names.is_empty() {
            return Err(Error::usage("`task` is missing"));
        }
        if self.names.len() > 1 && self.since.is_some() {
            let why = "a cursor belongs to one task: name one task with `cursor`";
            return Err(Error::usage(why));
        }
        let mut waits = Vec::new();
        for name in &self.names {
            let task = within_time(ops::find(&mut session, name)).await?;
            let ended_at = task.ended_at.filter(|_| !task.is_alive());
            let request = self.request(&task.window.to_string(), call.caller.owner.clone());
            let wait = for_task(name, limit, session.for_request(), request);
            waits.push((ended_at.unwrap_or(Millis::MAX), wait));
        }
        let name = short(&self.names.join(", "), NAME_CHARS);
        let wait = Wait {
            what: format!("waiting for {name}"),
            limit: limit.time,
            outcome: Box::pin(wait_for_all(waits, self.any)),
        };
        Ok(Reply::Wait(String::new(), wait))
    }
}

fn for_task(name: &str, limit: Limit, session: TaskSession, request: WaitRequest) -> Wait {
    let request = WaitRequest {
        timeout_ms: limit.time.map(whole_millis),
        // One more shows that there are earlier ones.
        tail: Some(TAIL + 1),
        ..request
    };
    waiting(short(name, NAME_CHARS), limit, async move {
        ops::wait_across_daemons(&session, &request).await
    })
}

fn waiting(
    name: String,
    limit: Limit,
    work: impl Future<Output = Result<WaitResult, Error>> + 'static,
) -> Wait {
    Wait {
        what: format!("waiting for {name}"),
        limit: limit.time,
        outcome: Box::pin(async move {
            let result = work.await.map_err(|error| worded(&error))?;
            Ok(describe(&name, limit, &result).join("\n"))
        }),
    }
}

/// The answer has the results in the order in which the waits ended, first those of tasks that had ended before,
/// in the order of their ends, which are here.
async fn wait_for_all(waits: Vec<(Millis, Wait)>, any: bool) -> Answer {
    let waits = waits.into_iter();
    let waits: FuturesUnordered<_> = waits
        .map(async |(had_ended_at, wait)| (had_ended_at, wait.outcome.await))
        .collect();
    let mut answers: Vec<_> = waits.take(if any { 1 } else { usize::MAX }).collect().await;
    answers.sort_by_key(|(had_ended_at, _)| *had_ended_at);
    let is_error = answers.iter().any(|(_, answer)| answer.is_err());
    let texts = answers.into_iter().map(|(_, Ok(text) | Err(text))| text);
    let text = texts.collect::<Vec<_>>().join("\n");
    if is_error { Err(text) } else { Ok(text) }
}

/// Returns the lines of a result: how the wait ended, the last output, and how to continue.
fn describe(name: &str, limit: Limit, result: &WaitResult) -> Vec<String> {
    use WaitOutcome as Outcome;
    let seconds = Duration::from_millis(result.elapsed_ms).as_secs_f64();
    let what = result.words(None).clause;
    let sentence = match result.outcome == Outcome::Timeout {
        true => format!("the wait for {name} {what}{}", limit.note),
        false => format!("{name} {}", short(&what, TEXT_CHARS)),
    };
    let mut lines = vec![format!("{sentence} [{}, {seconds:.1} s]", result.outcome)];
    if result.matched_at_entry && result.outcome != Outcome::Matched {
        let there = "the text was on the screen before the wait began: see search_output";
        lines.push(there.to_owned());
    }
    lines.extend(result.holder_words());
    let n_tail = match result.outcome {
        Outcome::Matched | Outcome::Listening | Outcome::Signalled => 0,
        Outcome::Respawned | Outcome::Disappeared => 0,
        Outcome::Exited if result.exit_code == Some(0) => TAIL_OF_SUCCESS,
        Outcome::Exited | Outcome::Died | Outcome::Changed | Outcome::Bell | Outcome::Input => TAIL,
        Outcome::Idle | Outcome::Timeout | Outcome::AnchorLost | Outcome::Stopped => TAIL,
    };
    let tail = &result.tail[result.tail.len().saturating_sub(n_tail)..];
    if !tail.is_empty() {
        lines.push("recent output:".to_owned());
        lines.extend(tail.iter().map(|text| format!("  {}", line(text))));
    }
    lines.extend(next_step(name, result, result.tail.len() > tail.len()));
    let is_over = matches!(
        result.outcome,
        Outcome::Exited | Outcome::Died | Outcome::Disappeared
    );
    let cursor = result.cursor.as_ref().filter(|_| !is_over);
    lines.extend(cursor.map(|cursor| format!("cursor: {cursor}")));
    lines
}

/// Returns what can be done about a result that is not the end, or does not show all of the output.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "it only words results: after the others nothing is suggested"
)]
fn next_step(name: &str, result: &WaitResult, has_more: bool) -> Option<String> {
    let step = match result.outcome {
        WaitOutcome::Input if result.stopped => Stop::ADVICE.to_owned(),
        WaitOutcome::Input if result.answer_by() == AnswerBy::Secret => format!(
            "ask the user to type it: `tmux-task send {name} --secret`, or in tmux; then wait_for"
        ),
        // The tool takes a text or keys.
        WaitOutcome::Input => "send_input with that prompt, then wait_for".to_owned(),
        WaitOutcome::Timeout if result.cursor.is_none() => "call wait_for again".to_owned(),
        WaitOutcome::Timeout => "call wait_for again, for a text with this cursor".to_owned(),
        WaitOutcome::Respawned => "wait_for waits for the new run".to_owned(),
        WaitOutcome::AnchorLost => "read_output has what is left".to_owned(),
        WaitOutcome::Exited if result.exit_code != Some(0) && has_more => {
            "read_output has more".to_owned()
        }
        WaitOutcome::Died if has_more => "read_output has more".to_owned(),
        _ => return None,
    };
    Some(format!("next: {step}"))
}

// `run_task`.

/// How long the live run of a slot may take to end, and the next one to start.
const REPLACED_WITHIN: Duration = Duration::from_secs(60);

/// Start a command as a task: it runs in a tmux window of its own and continues after this call. For what takes
/// over 30 seconds, keeps running (servers, watchers) or may ask a question. The same name runs it again in its
/// window and replaces a run that is alive.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunTask {
    /// The task's name: 1 to 40 of A-Z a-z 0-9 . _ -
    task: String,
    /// A command line for bash; without it, the task's last command runs again
    command: Option<String>,
    /// Where to run it
    cwd: Option<String>,
    /// More variables for its environment
    env: BTreeMap<String, String>,
    /// Fail when the task is running, instead of replacing its run
    only_if_absent: bool,
    /// Return when the run has ended, or asks for input
    wait: bool,
    /// Return when one of these texts is written
    #[serde(deserialize_with = "one_or_more")]
    until: Vec<String>,
    /// With until: give up when one of these texts is written
    #[serde(deserialize_with = "one_or_more")]
    stop: Vec<String>,
    /// Send a message when a line contains one of these texts, at most one in ten seconds
    #[serde(deserialize_with = "one_or_more")]
    notify_on: Vec<String>,
    /// The texts are regular expressions
    regex: bool,
    /// The texts match in any case
    ignore_case: bool,
    /// Run at most so many at once of all runs with this name, like build:2; the others wait
    slot: Option<String>,
    /// When its end sends a message: always (the default), failed, never; a question always does
    #[schemars(with = "String")]
    wake: Option<WakePolicy>,
    /// One message for the runs of this group: when the last has ended, and at once when one fails or asks
    group: Option<String>,
    /// With wait or until: the longest time to wait (50, at most 600)
    #[serde(deserialize_with = "seconds")]
    #[schemars(with = "f64")]
    timeout_seconds: Option<Duration>,
}

impl ToolCall for RunTask {
    async fn execute(self, mut session: TaskSession, call: &Call) -> Result<Reply, Error> {
        let texts = self.until.iter().chain(&self.stop);
        ops::check_texts(texts, self.regex, self.ignore_case)?;
        let is_wrong = |name: &&String| name.is_empty() || name.contains('=');
        if let Some(name) = self.env.keys().find(is_wrong) {
            return Err(Error::usage(format!("`{name}` is not a variable's name")));
        }
        let slot = self.slot.as_deref().map(Slot::parse).transpose();
        let slot = slot.map_err(|why| Error::usage(format!("slot: {why}")))?;
        let group = self.group.as_deref().map(parse_group);
        let is_held = !self.until.is_empty();
        let will_wait = is_held || self.wait || call.takes_handles;
        if !is_held && !self.stop.is_empty() {
            return Err(Error::usage("`stop` needs `until`"));
        }
        let is_again = self.command.is_none();
        let launch = Launch {
            name: self.task,
            spec: TaskSpec {
                settings: TaskSettings {
                    notify_on: NotifyOn::given(self.notify_on, self.regex, self.ignore_case),
                    slot,
                    wake: self.wake,
                    group: group
                        .transpose()
                        .map_err(|why| Error::usage(format!("group: {why}")))?,
                    ..TaskSettings::default()
                },
                env: self.env.into_iter().collect(),
                cwd: self.cwd.map(Into::into),
                command: self.command.into_iter().map(Into::into).collect(),
                ..TaskSpec::default()
            },
            replaces: match self.only_if_absent {
                true => Replaces::Ended,
                false => Replaces::Any,
            },
            owner: call.caller.owner.clone(),
            will_wait,
            is_held,
            ..Launch::default()
        };
        let work = async {
            let launch = match is_again {
                true => ops::run_again(&mut session, launch).await?,
                false => launch,
            };
            ops::run(session, launch).await
        };
        // A live run of its slot ends first, which may take its time.
        let mut started = within(REPLACED_WITHIN, work).await?;
        let announced = announce(&started);
        if !will_wait {
            if started.unreachable.is_none()
                && let Some(owner) = &started.owner
                && ops::undelivered_to(&started.session, owner).await.is_some()
            {
                started.unreachable = Some(format!("nothing delivers messages to {owner}"));
            }
            let unreachable = started.unreachable.map(|why| {
                let why = short(&why, TEXT_CHARS);
                format!("no message will come when it ends: {why}; wait_for waits for it")
            });
            let cursor = format!("cursor: {}", started.run.cursor);
            let lines = [Some(announced), unreachable, Some(cursor)];
            return Ok(Reply::Lines(lines.into_iter().flatten().collect()));
        }
        let until = self.until.into_iter().map(Condition::Text).collect();
        let request = WaitRequest {
            stops: self.stop,
            regex: self.regex,
            ignore_case: self.ignore_case,
            ..ops::wait_of_launch(&started.run, until, call.caller.owner.clone())
        };
        let limit = Limit::of(self.timeout_seconds, call.takes_handles);
        let wait = for_task(&started.name, limit, started.session, request);
        Ok(Reply::Wait(announced + "\n", wait))
    }
}

fn announce(started: &StartedRun) -> String {
    let run = &started.run;
    let replaced = match run.replaced {
        Some(ReplacedRun::Live) => "; it replaced a run that was alive",
        Some(ReplacedRun::Dead) | None => "",
    };
    format!(
        "started {} ({}), run {}, in {} (tmux session {}){replaced}",
        run.window_id,
        started.name,
        run.run,
        short(&started.cwd, TEXT_CHARS),
        started.session.name,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::faces::mcp::call::parse;
    use crate::model::test_notation::rows;

    /// The last lines of the output are `out`, if it has some.
    fn shown(outcome: WaitOutcome, change: impl FnOnce(&mut WaitResult)) -> String {
        let mut result = WaitResult::new(outcome);
        result.elapsed_ms = 1250;
        result.cursor = Some("CURSOR".to_owned());
        result.tail = vec!["out".to_owned()];
        change(&mut result);
        describe("build", Limit::of(None, false), &result).join(" / ")
    }

    #[test]
    fn results_are_plain_lines() {
        use WaitOutcome::{Died, Exited, Input, Matched, Respawned, Timeout};
        let lines = |n: u32| -> Vec<String> { (1..=n).map(|n| n.to_string()).collect() };
        let exited = |code, n| {
            shown(Exited, |result| {
                result.exit_code = Some(code);
                result.tail = lines(n);
            })
        };
        let results = [
            // Of a run that has failed, more is shown.
            exited(0, 4),
            exited(2, 4),
            exited(2, 11),
            shown(Died, |result| {
                result.exit_signal = Some("SIGKILL".to_owned())
            }),
            shown(Matched, |result| {
                result.line = Some("listening on \u{1b}[1m80".to_owned())
            }),
            shown(Input, |result| {
                result.line = Some("Proceed? [y/N]".to_owned())
            }),
            shown(Input, |result| {
                result.line = Some("Password:".to_owned());
                result.secret = Some(true);
            }),
            shown(Timeout, |result| result.matched_at_entry = true),
            shown(Timeout, |result| result.cursor = None),
            shown(Respawned, |_| {}),
        ];
        let expected = r#"
            build exited with code 0 [exited, 1.2 s] / recent output: /   2 /   3 /   4
            build exited with code 2 [exited, 1.2 s] / recent output: /   1 /   2 /   3 /   4
            build exited with code 2 [exited, 1.2 s] / recent output: /   2 /   3 /   4 /   5 /   6 /   7 /   8 /   9 /   10 /   11 / next: read_output has more
            build was killed by SIGKILL before the condition held [died, 1.2 s] / recent output: /   out
            build wrote: listening on 80 [matched, 1.2 s] / cursor: CURSOR
            build asks for input: Proceed? [y/N] [input, 1.2 s] / recent output: /   out / next: send_input with that prompt, then wait_for / cursor: CURSOR
            build asks for input: Password: [input, 1.2 s] / recent output: /   out / next: ask the user to type it: `tmux-task send build --secret`, or in tmux; then wait_for / cursor: CURSOR
            the wait for build timed out (the default; timeout_seconds may be up to 600) [timeout, 1.2 s] / the text was on the screen before the wait began: see search_output / recent output: /   out / next: call wait_for again, for a text with this cursor / cursor: CURSOR
            the wait for build timed out (the default; timeout_seconds may be up to 600) [timeout, 1.2 s] / recent output: /   out / next: call wait_for again
            build was replaced by another run [respawned, 1.2 s] / next: wait_for waits for the new run / cursor: CURSOR"#;
        let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
        assert_eq!(results.to_vec(), expected);
    }

    fn parsed(value: Value) -> Result<RunTask, String> {
        let Value::Object(arguments) = value else {
            panic!("arguments are an object");
        };
        parse(&["task"], arguments).map_err(|error| error.message)
    }

    #[test]
    fn one_text_is_a_list_of_one_and_null_is_as_if_left_out() {
        let run = parsed(
            json!({"task": "a", "until": "x", "stop": ["y", "z"], "cwd": null, "regex": null}),
        );
        let run = run.ok().unwrap();
        assert_eq!(
            (run.until.join(","), run.stop.join(",")),
            ("x".to_owned(), "y,z".to_owned())
        );
        assert_eq!((run.cwd, run.regex), (None, false));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for [arguments, why] in rows(
            r#"
            {} | `task` is missing
            {"task": " "} | `task` is missing
            {"task": []} | `task` is missing
            {"task": "a", "timeout": 3} | unknown field `timeout`, expected one of
            {"task": "a", "timeout_seconds": -1} | `timeout_seconds`: -1 is not a number
            {"task": "a", "timeout_seconds": "1"} | `timeout_seconds`: invalid type
            {"task": "a", "until": [1]} | `until[0]`: invalid type"#,
        ) {
            let error = parsed(serde_json::from_str(&arguments).unwrap());
            let error = error.err().unwrap();
            assert!(error.starts_with(&why), "{error}");
        }
    }
}
