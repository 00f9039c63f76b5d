//! What operations are asked for by the command line and by models: one struct for both. A doc comment is the
//! help of an option, and what a model reads of the argument unless `schemars` has another text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::task_names;
use crate::config::read_time;
use crate::model::{Condition, whole_millis};
use crate::rules::wire::{SearchRequest, WaitRequest};

#[derive(Debug, Default, Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    description = "Wait until a task's run ends, or until the first of several conditions holds. With several \
                   tasks, all are waited for at once. Texts count from the start of the call, or from a cursor. \
                   Returns at once when the condition can no longer hold, and when the task asks for input before \
                   its end."
)]
#[command(
    after_help = "Without a condition, the command waits for the end of the run. The first \
                        condition that holds ends the wait.\n\nExit codes: 0 the condition holds, \
                        1 the run ended as awaited, but its code was not 0, 4 timed out, 5 the \
                        wait can no longer succeed: the run ended or was replaced, its window is \
                        gone, a --stop text was written, or some of the output is missing, 6 the \
                        task asks for input before its run can end."
)]
pub(crate) struct WaitArguments {
    /// The tasks, by name or window id
    #[arg(required_unless_present_any = ["channel", "mine"], value_name = "NAME", add = task_names::candidates())]
    #[serde(rename = "task", deserialize_with = "one_or_more")]
    #[schemars(
        description = "The names or window ids of the tasks. Required, except with channel"
    )]
    pub(crate) names: Vec<String>,
    /// With several tasks: end with the first outcome, and print the names of the others on stderr
    #[arg(long, conflicts_with = "channel")]
    #[schemars(
        description = "With several tasks: until the first of the waits has ended, instead of all"
    )]
    pub(crate) any: bool,
    /// With several tasks: wait for the outcomes of all (the default)
    #[arg(long, conflicts_with_all = ["any", "channel"])]
    #[serde(skip)]
    pub(crate) all: bool,
    /// Until all tasks of the conversation in whose shell this runs have ended, those that `pending` lists
    #[arg(long, conflicts_with_all = ["names", "channel", "text", "change", "bell", "input", "idle", "listen", "since"])]
    #[serde(skip)]
    pub(crate) mine: bool,
    /// Until the run ends (the default)
    #[arg(long)]
    #[schemars(description = "Until its run ends (the default)")]
    pub(crate) exit: bool,
    /// Until this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(description = "Until one of these texts is written")]
    pub(crate) text: Vec<String>,
    /// The texts are regular expressions
    #[arg(long)]
    pub(crate) regex: bool,
    /// Ignore case
    #[arg(short, long)]
    #[schemars(description = "The texts match in any case")]
    pub(crate) ignore_case: bool,
    /// Until anything is written
    #[arg(long)]
    pub(crate) change: bool,
    /// Until the bell rings
    #[arg(long)]
    pub(crate) bell: bool,
    /// Until the task waits for input
    #[arg(long)]
    #[schemars(description = "Until it asks for input")]
    pub(crate) input: bool,
    /// Until nothing was written for this long
    #[arg(long, value_name = "D", value_parser = read_time)]
    #[serde(rename = "idle_seconds", deserialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub(crate) idle: Option<Duration>,
    /// Until the task's own processes listen on this TCP port, or on any; who else has it is said
    #[arg(long, value_name = "PORT", value_parser = parse_port, num_args = 0..=1)]
    #[serde(deserialize_with = "port")]
    #[schemars(
        with = "u16",
        description = "Until its own processes listen on this TCP port; 0: on any"
    )]
    pub(crate) listen: Option<Option<u16>>,
    /// Wait for the end of the run even while the task asks for input
    #[arg(long)]
    #[schemars(description = "With exit: continue to wait while it asks for input")]
    pub(crate) through_prompts: bool,
    /// Until the task has succeeded or is given up: the end of a run that `--restart` runs again is not it
    #[arg(long = "final", conflicts_with_all = ["text", "change", "bell", "input", "idle", "listen"])]
    #[serde(rename = "final")]
    #[schemars(
        description = "With exit: until it has succeeded or is given up, its restarts included"
    )]
    pub(crate) is_final: bool,
    /// Until `tmux-task signal NAME` or `tmux wait-for -S NAME`
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["names", "exit", "text", "change", "bell", "input", "idle", "listen", "through_prompts", "is_final", "stop", "since"])]
    #[schemars(description = "Instead of a task: until `tmux wait-for -S` wakes this channel")]
    pub(crate) channel: Option<String>,
    /// Give up when this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(description = "Give up when one of these texts is written")]
    pub(crate) stop: Vec<String>,
    /// The longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = read_time)]
    #[serde(rename = "timeout_seconds", deserialize_with = "seconds")]
    #[schemars(
        with = "f64",
        description = "The longest time to wait (50, at most 600)"
    )]
    pub(crate) timeout: Option<Duration>,
    /// How many of the last lines of a failed run to print on stderr, or, with --json, in the result
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<usize>(LINES), allow_negative_numbers = true)]
    #[serde(skip)]
    pub(crate) tail: usize,
    /// Count output since this cursor too
    #[arg(long, value_name = "CURSOR")]
    #[serde(rename = "cursor")]
    #[schemars(
        description = "With one task: count what was written after this too, from an earlier answer"
    )]
    pub(crate) since: Option<String>,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: bool,
}

impl WaitArguments {
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let texts = self.text.iter().cloned().map(Condition::Text);
        let others = [
            self.change.then_some(Condition::Change),
            self.bell.then_some(Condition::Bell),
            self.input.then_some(Condition::Input),
            self.idle.map(|limit| Condition::Idle { limit }),
            self.listen.map(|port| Condition::Listen { port }),
        ];
        let exit = self.exit.then_some(Condition::Exit).into_iter();
        exit.chain(texts)
            .chain(others.into_iter().flatten())
            .collect()
    }

    /// Returns the request to wait for one of the tasks, on behalf of this owner.
    pub(crate) fn request(&self, task: &str, owner: Option<String>) -> WaitRequest {
        WaitRequest {
            task: task.to_owned(),
            conditions: self.conditions(),
            stops: self.stop.clone(),
            regex: self.regex,
            ignore_case: self.ignore_case,
            timeout_ms: self.timeout.map(whole_millis),
            since: self.since.clone(),
            through_prompts: self.through_prompts,
            is_final: self.is_final,
            tail: Some(self.tail),
            owner,
            ..WaitRequest::default()
        }
    }
}

#[derive(Debug, Default, Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(description = "Find lines in the present output of all tasks, or of one.")]
pub(crate) struct SearchArguments {
    /// The text to look for
    pub(crate) pattern: String,
    /// Only in this task, by name or window id
    #[arg(add = task_names::candidates())]
    #[serde(rename = "task")]
    #[schemars(description = "Only in this task")]
    pub(crate) name: Option<String>,
    /// The texts are regular expressions
    #[arg(long)]
    #[schemars(description = "The pattern is a regular expression")]
    pub(crate) regex: bool,
    /// Ignore case
    #[arg(short, long)]
    #[schemars(description = "Match in any case")]
    pub(crate) ignore_case: bool,
    /// The most lines (50, at most 500)
    #[arg(skip)]
    pub(crate) limit: Option<usize>,
    /// Print JSON
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: bool,
}

impl SearchArguments {
    pub(crate) fn request(self) -> SearchRequest {
        SearchRequest {
            task: self.name,
            pattern: self.pattern,
            regex: self.regex,
            ignore_case: self.ignore_case,
        }
    }
}

// How values are read from the command line.

pub(crate) const LINES: &str = "not a number of lines, like 20";

/// Returns what reads a number. `why` says what is wrong with another text.
pub(crate) fn number<T: FromStr>(
    why: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| text.parse().map_err(|_| format!("`{text}` is {why}"))
}

pub(crate) fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{text}` is not a port, like 3000"))
}

// How values are read from a model.

fn port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u16>>, D::Error> {
    let port = u16::deserialize(from)?;
    Ok(Some((port > 0).then_some(port)))
}

/// More than any wait takes, and no overflow.
const MOST_SECONDS: f64 = 1e9;

pub(crate) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(from)?;
    if (0.0..=MOST_SECONDS).contains(&seconds) {
        return Ok(Some(Duration::from_secs_f64(seconds)));
    }
    let why = format!("{seconds} is not a number of seconds");
    Err(de::Error::custom(why))
}

pub(crate) fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Texts;

    impl<'de> Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of texts")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Vec<String>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(texts))
        }
    }

    from.deserialize_any(Texts)
}
