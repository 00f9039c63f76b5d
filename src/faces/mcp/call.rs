//! A call of a tool: its arguments, who makes it, how its progress is reported, for how long it may take,
//! and what it is answered: text for a model, and what to do next where something failed.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ProgressNotificationParam, ProgressToken,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval, timeout};

use crate::faces::agent::{AgentClient, Conversation};
use crate::model::{Error, ErrorKind, text};
use crate::ops::{Caller, TaskSession};
use crate::rules::wire::After;

/// A tool: its fields are the arguments of a call. Its doc comment, and those of the fields, are what a model
/// reads.
pub(super) trait ToolCall: DeserializeOwned + JsonSchema + 'static {
    /// Executes a call in this session.
    async fn execute(self, session: TaskSession, call: &Call) -> Result<Reply, Error>;
}

/// Reads a tool's arguments, of which these may not be left out.
pub(super) fn parse<T: ToolCall>(required: &[&str], mut arguments: JsonObject) -> Result<T, Error> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    };
    let is_missing = |name: &&&str| arguments.get(**name).is_none_or(is_empty);
    if let Some(name) = required.iter().find(is_missing) {
        return Err(Error::usage(format!("`{name}` is missing")));
    }
    // A null is what some clients send for an argument that is left out.
    arguments.retain(|_, value| !value.is_null());
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        let why = error.into_inner().to_string();
        Error::usage(match path == "." || why.contains(&path) {
            true => why,
            false => format!("`{path}`: {why}"),
        })
    })
}

/// How often a call that waits reports its progress. Clients end calls that are silent for long.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// How long a call that waits for nothing may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// The maximum length of a name, in characters.
pub(super) const NAME_CHARS: usize = 100;

/// How long a call waits if it does not say: clients end a call after a minute.
pub(super) const USUAL_WAIT: Duration = Duration::from_secs(50);

/// The longest time that a call waits.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(600);

pub(super) const OF_LONGEST_WAIT: &str = " (the longest time that one call waits)";

pub(super) type Reporter = mpsc::UnboundedSender<ProgressNotificationParam>;

pub(super) struct Call {
    /// The end of the feed at the client's first call. Events before it are of no interest.
    pub(super) begin: After,
    pub(super) caller: Caller,
    /// As the progress of what its progress is reported, and where, if the client wants that.
    pub(super) progress: Option<(ProgressToken, Reporter)>,
    /// Whether the client has closed the connection.
    pub(super) closed: watch::Receiver<bool>,
    /// Whether the client takes a handle for a result that comes later.
    pub(super) takes_handles: bool,
}

impl Call {
    /// Waits for `work`, and reports progress meanwhile. Without the client nobody needs the result.
    pub(super) async fn attend<T>(
        &self,
        what: &str,
        limit: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Result<T, Error> {
        let report = async {
            let Some((token, reporter)) = &self.progress else {
                return pending::<Infallible>().await;
            };
            let begun = Instant::now();
            let mut ticks = interval(REPORT_EVERY);
            loop {
                ticks.tick().await;
                let elapsed = begun.elapsed().as_secs();
                let mut report = ProgressNotificationParam::new(token.clone(), elapsed as f64)
                    .with_message(format!("{what}, {elapsed} s"));
                report.total = limit.map(|limit| limit.as_secs_f64());
                // A client that is gone is noticed elsewhere.
                drop(reporter.send(report));
            }
        };
        let mut closed = self.closed.clone();
        tokio::select! {
            biased;
            result = work => Ok(result),
            // An error: the connection has ended.
            _ = closed.wait_for(|closed| *closed) => Err(Error::failed("the client has gone")),
            never = report => match never {},
        }
    }
}

/// Ends work that should not take long, if daemon or tmux do not answer.
pub(super) async fn within_time<T>(
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    within(ANSWERS_WITHIN, work).await
}

/// The same within another time.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, work).await.unwrap_or_else(|_| {
        let why = "tmux or the daemon of tmux-task does not answer";
        let hint = "ask the user to run `tmux-task doctor`: it says which, and what to do";
        Err(Error::failed(why).with_hint(hint))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// `None` where a handle is polled.
    pub(super) time: Option<Duration>,
    /// What to say about the limit when it was reached, if the caller did not set it.
    pub(super) note: &'static str,
}

impl Limit {
    /// Returns the limit of a wait. A call that is answered with a handle may wait for any time.
    pub(super) fn of(given: Option<Duration>, is_by_handle: bool) -> Self {
        let (time, note) = match given {
            Some(given) if given > LONGEST_WAIT && !is_by_handle => {
                (Some(LONGEST_WAIT), OF_LONGEST_WAIT)
            }
            None if !is_by_handle => (
                Some(USUAL_WAIT),
                " (the default; timeout_seconds may be up to 600)",
            ),
            given => (given, ""),
        };
        Self { time, note }
    }
}

pub(super) enum Reply {
    Lines(Vec<String>),
    /// This text, and behind it what the wait ends with.
    Wait(String, Wait),
}

impl From<String> for Reply {
    fn from(line: String) -> Self {
        Self::Lines(vec![line])
    }
}

pub(super) struct Wait {
    /// What is waited for, for progress and status.
    pub(super) what: String,
    pub(super) limit: Option<Duration>,
    /// Dropping it ends the wait.
    pub(super) outcome: LocalBoxFuture<'static, Answer>,
}

/// Returns the caller of a request with this `_meta`: the conversation that it names, else the one
/// in whose environment the server was started. Codex names its thread in each call.
pub(super) fn caller_of(meta: &Map<String, Value>) -> Caller {
    let thread = meta.get("threadId").and_then(Value::as_str);
    let named = thread.and_then(|id| Some(Conversation::new(AgentClient::Codex, id)?.owner()));
    let caller = Caller::of_environment();
    // The machine that passes a call on says whose it is.
    let named = named.filter(|_| caller.asked_by.is_none());
    Caller {
        owner: named.or(caller.owner),
        is_agent: true,
        ..caller
    }
}

/// The maximum length of an error's text, in characters.
const ERROR_CHARS: usize = 2000;

/// The maximum length of a line of output, or of another text from elsewhere, in characters.
pub(super) const TEXT_CHARS: usize = 1000;

pub(super) const WITHOUT_CURSOR: &str = "call read_output without cursor: it has what is left";

/// The text that a call is answered, or why it was not carried out and what to do about it.
pub(super) type Answer = Result<String, String>;

pub(super) fn result_of(answer: Answer) -> CallToolResult {
    match answer {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
    }
}

/// Returns an error as the result of a tool.
pub(super) fn worded(error: &Error) -> String {
    let one_line = |text: &str| {
        let text =
            rows(WORDS_OF_TOOLS).fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        text::one_line(text.as_bytes(), ERROR_CHARS)
    };
    let why = one_line(&error.message);
    match hint_of(error) {
        Some(hint) => format!("{why}\nhint: {}", one_line(hint)),
        None => why,
    }
}

/// Adds what to do, unless an answer says that already.
pub(super) fn or_hint(error: Error, hint: &str) -> Error {
    match hint_of(&error) {
        Some(_) => error,
        None => error.with_hint(hint),
    }
}

/// What errors say in terms of the command line, and the same in terms of the tools. A command that a
/// user has to run is left as it is.
const WORDS_OF_TOOLS: &str = "\
they come from `run --json`, `logs --json` and `wait --json` | run_task, read_output and wait_for return them
without --if-absent | without only_if_absent
was started with --env | was started with env
`tmux-task wait NAME` waits | wait_for waits
`tmux-task ls` shows | list_tasks shows
`tmux-task ls` lists | list_tasks lists
`tmux-task kill @ | `kill_task @
--cwd names | cwd names";

/// The ends of hints on the command line, and what is said in their place.
const HINTS_OF_TOOLS: &str = "\
starts a task and with it the session | there are no tasks yet: run_task starts one
lists the runs that are stored | without run, read_output has the present run
starts it and records the command | run_task with command starts it and records the command
runs its command again with these | run_task with env runs its command again with these
`tmux-task ls` lists them | list_tasks shows the tasks with their ids; run_task starts one";

fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    table.lines().filter_map(|row| row.split_once(" | "))
}

const LIST_TASKS: &str = "list_tasks shows the tasks with their ids; run_task starts one";

/// Returns what the model can do about an error, in terms of the tools.
fn hint_of(error: &Error) -> Option<&str> {
    match (error.kind, &error.hint) {
        (ErrorKind::Impossible, _) => Some(WITHOUT_CURSOR),
        (ErrorKind::Missing, None) => Some(LIST_TASKS),
        (_, Some(hint)) => {
            let of_tools = rows(HINTS_OF_TOOLS).find(|(end, _)| hint.ends_with(end));
            Some(of_tools.map_or(hint, |(_, hint)| hint))
        }
        (_, None) => None,
    }
}

/// Returns a line of a task's output as sanitised, bounded text.
pub(super) fn line(text: &str) -> String {
    text::bounded(&text::row(text.as_bytes()), TEXT_CHARS)
}

/// Returns a name, prompt or other short text as one sanitised line.
pub(super) fn short(text: &str, max_chars: usize) -> String {
    text::one_line(text.as_bytes(), max_chars)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation;

    fn call(closed: watch::Receiver<bool>) -> Call {
        Call {
            begin: After::default(),
            caller: Caller::default(),
            progress: None,
            closed,
            takes_handles: false,
        }
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_client() {
        let (sender, closed) = watch::channel(false);
        let call = call(closed);
        assert_eq!(call.attend("x", None, async { 3 }).await, Ok(3));
        let work = call.attend("x", None, pending::<()>());
        let close = async { sender.send(true).unwrap() };
        let (result, ()) = tokio::join!(work, close);
        assert!(result.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_is_an_error() {
        let silent = within_time(pending::<Result<(), Error>>()).await;
        let hint = silent.unwrap_err().hint.unwrap();
        assert!(hint.contains("tmux-task doctor"));
    }

    #[test]
    fn a_call_has_a_ceiling_and_a_handle_has_none() {
        for (asked, is_handle, expected) in [
            (None, false, Some(50)),
            (Some(7), false, Some(7)),
            (Some(7000), false, Some(600)),
            (None, true, None),
            (Some(7000), true, Some(7000)),
        ] {
            let limit = Limit::of(asked.map(Duration::from_secs), is_handle);
            let time = limit.time.map(|time| time.as_secs());
            assert_eq!(time, expected, "{asked:?} {is_handle}");
            let is_cut = limit.note.contains("longest");
            assert_eq!(is_cut, expected == Some(600), "{asked:?} {is_handle}");
        }
    }

    #[test]
    fn a_thread_is_the_owner() {
        let of = |id: Value| caller_of(&Map::from_iter([("threadId".to_owned(), id)]));
        let caller = of("01-ab".into());
        assert_eq!(caller.owner.as_deref(), Some("codex:01-ab"));
        assert!(caller.is_agent && of(3.into()).is_agent);
        let owner = of("a\u{1b}[1m\nb".into()).owner;
        assert_eq!(owner.as_deref(), Some("codex:a b"));
    }

    #[test]
    fn errors_speak_of_the_tools_own_arguments_and_say_what_to_do_next() {
        let bad_cursor = "x"
            .parse::<crate::rules::wait::Cursor>()
            .unwrap_err()
            .to_string();
        let cursor = worded(&Error::usage(bad_cursor));
        let expected = "not a cursor: run_task, read_output and wait_for return them";
        assert_eq!(cursor, expected);
        for [message, hint, expected] in test_notation::rows(
            "task `api` is running in @1 | without --if-absent, the live run is replaced
               | task `api` is running in @1⏎hint: without only_if_absent, the live run is replaced
             task `api` was started with --env, and the values are not recorded
               | `tmux-task run api --env K=V` runs its command again with these
               | task `api` was started with env, and the values are not recorded⏎hint: run_task with env runs its command again with these",
        ) {
            let error = Error::failed(message).with_hint(hint);
            assert_eq!(worded(&error), expected);
        }
        let hint = "`tmux-task run NAME -- COMMAND` starts a task and with it the session";
        let missing = worded(&Error::missing("no session `work`").with_hint(hint));
        let expected = "no session `work`\nhint: there are no tasks yet: run_task starts one";
        assert_eq!(missing, expected);
        let lost = Error::new(ErrorKind::Impossible, "it is gone");
        assert_eq!(or_hint(lost.clone(), "x"), lost);
        let expected = format!("it is gone\nhint: {WITHOUT_CURSOR}");
        assert_eq!(worded(&lost), expected);
        let other = or_hint(Error::failed("a"), "x");
        assert_eq!(worded(&other), "a\nhint: x");
    }

    #[test]
    fn text_has_no_escapes() {
        assert_eq!(line("  a\u{1b}[31mb\u{202e}c  "), "  abc");
        assert_eq!(worded(&Error::failed("a\nb\u{7}")), "a b");
        assert_eq!(line(&"x".repeat(5000)).chars().count(), TEXT_CHARS);
    }
}
