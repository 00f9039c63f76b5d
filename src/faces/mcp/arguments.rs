//! The arguments of each tool. The doc comments of the fields are what a model reads.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::{Map, Value};

use crate::config::{OneOrMany, one_or_many};
use crate::model::{NotifyOn, Slot, TaskSettings, TaskSpec};

/// The arguments of `run_task`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an argument of its own"
)]
pub(super) struct RunTask {
    /// The task's name: 1 to 40 of A-Z a-z 0-9 . _ -
    pub(super) task: String,
    /// A command line for bash; without it, the task's last command runs again
    pub(super) command: Option<String>,
    /// Where to run it
    pub(super) cwd: Option<String>,
    /// More variables for its environment
    pub(super) env: BTreeMap<String, String>,
    /// Fail when the task is running, instead of replacing its run
    pub(super) only_if_absent: bool,
    /// Return when the run has ended, or asks for input
    pub(super) wait: bool,
    /// Return when one of these texts is written
    #[serde(deserialize_with = "one_or_more")]
    pub(super) until: Vec<String>,
    /// With until: give up when one of these texts is written
    #[serde(deserialize_with = "one_or_more")]
    pub(super) stop: Vec<String>,
    /// Send a message when a line contains one of these texts, at most one in ten seconds
    #[serde(deserialize_with = "one_or_more")]
    pub(super) notify_on: Vec<String>,
    /// The texts are regular expressions
    pub(super) regex: bool,
    /// The texts match in any case
    pub(super) ignore_case: bool,
    /// Run at most so many at once of all runs with this name, like build:2; the others wait
    pub(super) slot: Option<String>,
    /// With wait or until: the longest time to wait (50, at most 600)
    #[serde(deserialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub(super) timeout_seconds: Option<Duration>,
}

impl RunTask {
    /// Returns what is to be launched.
    pub(super) fn spec(&self) -> Result<TaskSpec, String> {
        let slot = self.slot.as_deref().map(Slot::parse).transpose();
        Ok(TaskSpec {
            settings: TaskSettings {
                notify_on: NotifyOn::given(self.notify_on.clone(), self.regex, self.ignore_case),
                slot: slot.map_err(|why| format!("slot: {why}"))?,
                ..TaskSettings::default()
            },
            env: self.env.clone().into_iter().collect(),
            cwd: self.cwd.as_ref().map(Into::into),
            command: self.command.iter().map(Into::into).collect(),
            ..TaskSpec::default()
        })
    }
}

/// The arguments of `list_tasks` and `prune_tasks`: none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NoArguments {}

/// The arguments of `read_output`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReadOutput {
    /// The task's name or window id
    pub(super) task: String,
    /// How many of the last lines (40, at most 1000)
    pub(super) lines: Option<usize>,
    /// Only what was written after this, from an earlier answer
    pub(super) cursor: Option<String>,
    /// The stored output of an earlier run, by its number
    pub(super) run: Option<u32>,
}

/// The arguments of `wait_for`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition of its own"
)]
pub(super) struct WaitFor {
    /// The names or window ids of the tasks. Required, except with channel
    #[serde(deserialize_with = "one_or_more")]
    pub(super) task: Vec<String>,
    /// With several tasks: until the first of the waits has ended, instead of all
    pub(super) any: bool,
    /// Until its run ends (the default)
    pub(super) exit: bool,
    /// Until one of these texts is written
    #[serde(deserialize_with = "one_or_more")]
    pub(super) text: Vec<String>,
    /// Until anything is written
    pub(super) change: bool,
    /// Until the bell rings
    pub(super) bell: bool,
    /// Until it asks for input
    pub(super) input: bool,
    /// Until nothing was written for this long
    #[serde(deserialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub(super) idle_seconds: Option<Duration>,
    /// Until its own processes listen on this TCP port; 0: on any
    pub(super) listen: Option<u16>,
    /// Give up when one of these texts is written
    #[serde(deserialize_with = "one_or_more")]
    pub(super) stop: Vec<String>,
    /// The texts are regular expressions
    pub(super) regex: bool,
    /// The texts match in any case
    pub(super) ignore_case: bool,
    /// With one task: count what was written after this too, from an earlier answer
    pub(super) cursor: Option<String>,
    /// With exit: continue to wait while it asks for input
    pub(super) through_prompts: bool,
    /// With exit: until it has succeeded or is given up, its restarts included
    #[serde(rename = "final")]
    pub(super) is_final: bool,
    /// Instead of a task: until `tmux wait-for -S` wakes this channel
    pub(super) channel: Option<String>,
    /// The longest time to wait (50, at most 600)
    #[serde(deserialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub(super) timeout_seconds: Option<Duration>,
}

/// The arguments of `send_input`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SendInput {
    /// The task's name or window id
    pub(super) task: String,
    /// The text to type; Enter follows. Never a password or another secret
    pub(super) text: Option<String>,
    /// Keys instead of a text, by tmux's names: Enter, Escape, Up, C-c
    #[serde(deserialize_with = "one_or_more")]
    pub(super) keys: Vec<String>,
    /// No Enter after the text
    pub(super) no_enter: bool,
    /// The question that this answers, exactly as it was reported. Required while the task asks one
    pub(super) prompt: Option<String>,
}

/// The arguments of `kill_task`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KillTask {
    /// The names or window ids of the tasks
    #[serde(deserialize_with = "one_or_more")]
    pub(super) task: Vec<String>,
}

/// The arguments of `next_events`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NextEvents {
    /// Events after this, from an earlier answer; without it, all since this server was started
    pub(super) cursor: Option<String>,
    /// Only of this task
    pub(super) task: Option<String>,
    /// How long to wait for the first one if there is none (50, at most 600); 0: not at all
    #[serde(deserialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub(super) wait_seconds: Option<Duration>,
    /// The most events (50, at most 200)
    pub(super) limit: Option<usize>,
}

/// The arguments of `search_output`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchOutput {
    /// The text to look for
    pub(super) pattern: String,
    /// Only in this task
    pub(super) task: Option<String>,
    /// The pattern is a regular expression
    pub(super) regex: bool,
    /// Match in any case
    pub(super) ignore_case: bool,
    /// The most lines (50, at most 500)
    pub(super) limit: Option<usize>,
}

/// Arguments that cannot be used. The text says why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadArguments(pub(super) String);

/// Reads a tool's arguments. `required` names those that may not be empty.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(
    arguments: Map<String, Value>,
    required: &[&str],
) -> Result<T, BadArguments> {
    let arguments = given(arguments, required)?;
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        explained(&path, error.into_inner().to_string())
    })
}

/// Returns the arguments that are not null.
fn given(mut arguments: Map<String, Value>, required: &[&str]) -> Result<Value, BadArguments> {
    for name in required {
        let is_empty = match arguments.get(*name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.trim().is_empty(),
            Some(Value::Array(values)) => values.is_empty(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => false,
        };
        if is_empty {
            return Err(BadArguments(format!("`{name}` is missing")));
        }
    }
    // A null is what some clients send for an argument that is left out.
    arguments.retain(|_, value| !value.is_null());
    let arguments = Value::Object(arguments);
    if has_nul(&arguments) {
        let why = "a text with a NUL character cannot be passed on";
        return Err(BadArguments(why.to_owned()));
    }
    Ok(arguments)
}

fn explained(path: &str, why: String) -> BadArguments {
    BadArguments(match path {
        "." => why,
        _ if why.contains(path) => why,
        _ => format!("`{path}`: {why}"),
    })
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// More than any wait takes, and no overflow.
const MOST_SECONDS: f64 = 1e9;

/// Reads a time in seconds.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(from)?;
    if (0.0..=MOST_SECONDS).contains(&seconds) {
        return Ok(Some(Duration::from_secs_f64(seconds)));
    }
    let why = format!("{seconds} is not a number of seconds");
    Err(de::Error::custom(why))
}

/// Reads one text or a list of them.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match one_or_many(from, "a list of texts")? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, String> {
        let Value::Object(arguments) = value else {
            panic!("arguments are an object");
        };
        parse(arguments, &["task"]).map_err(|bad| bad.0)
    }

    #[test]
    fn one_text_is_a_list_of_one() {
        let wait: WaitFor = parsed(json!({"task": "a", "text": "x", "stop": ["y", "z"]})).unwrap();
        assert_eq!(
            (wait.task, wait.text, wait.stop),
            (
                vec!["a".into()],
                vec!["x".into()],
                vec!["y".into(), "z".into()]
            )
        );
        let kill: KillTask = parsed(json!({"task": "a"})).unwrap();
        assert_eq!(kill.task, ["a"]);
        let kill: KillTask = parsed(json!({"task": ["a", "b"]})).unwrap();
        assert_eq!(kill.task, ["a", "b"]);
    }

    #[test]
    fn null_is_as_if_left_out() {
        let wait: WaitFor = parsed(json!({"task": "a", "cursor": null, "regex": null})).unwrap();
        assert_eq!((wait.cursor, wait.regex), (None, false));
    }

    #[test]
    fn what_is_wrong_is_named() {
        #[track_caller]
        fn check(value: Value, why: &str) {
            let error = parsed::<WaitFor>(value).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        check(json!({}), "`task` is missing");
        check(json!({"task": " "}), "`task` is missing");
        check(json!({"task": []}), "`task` is missing");
        check(
            json!({"task": "a", "timeout": 3}),
            "unknown field `timeout`, expected one of",
        );
        check(
            json!({"task": "a", "timeout_seconds": -1}),
            "`timeout_seconds`: -1 is not a number",
        );
        check(
            json!({"task": "a", "timeout_seconds": "1"}),
            "`timeout_seconds`: invalid type",
        );
        check(json!({"task": "a", "text": [1]}), "`text[0]`: invalid type");
        check(json!({"task": "a\u{0}"}), "a text with a NUL character");
    }
}
