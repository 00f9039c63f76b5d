//! Arguments of the commands about tasks that are there.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::super::task_names;
use super::Json;
use crate::config::{parse_signal, read_duration, read_time};
use crate::model;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only tasks whose name or command contains this text, in upper or lower case; or of this window id
    #[arg(add = task_names::candidates())]
    pub(crate) filter: Option<String>,
    /// Only tasks that have ended with another code than 0 or by a signal; --failed, --waiting and
    /// --running together select tasks of each of these states
    #[arg(long)]
    pub(crate) failed: bool,
    /// Only tasks that ask for input
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Only tasks that run and do not ask for input
    #[arg(long)]
    pub(crate) running: bool,
    /// All task sessions: those of this tmux server, and those of others that have a daemon
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Do not cut commands and lines
    #[arg(short, long)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The task, by name or window id [default: the session's current window]
    #[arg(add = task_names::candidates())]
    pub(crate) name: Option<String>,
}

#[cfg(feature = "panel")]
#[derive(Debug, Args)]
pub(crate) struct Panel {
    /// All your task sessions: those of this tmux server, and those of others that have a daemon
    #[arg(short, long)]
    pub(crate) all: bool,
    /// The task sessions of all machines that share a broker
    #[arg(long, conflicts_with = "all")]
    pub(crate) fleet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The tasks, by name or window id
    #[arg(required_unless_present = "all", value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    /// The end of the output of all tasks; with --follow also of those that are started later, until the
    /// session ends
    #[arg(long, conflicts_with_all = ["names", "since", "run"])]
    pub(crate) all: bool,
    /// Only the last N lines [default with --all: 10]
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<usize>(LINES), allow_negative_numbers = true)]
    pub(crate) lines: Option<usize>,
    /// Follow new output until the run ends
    #[arg(short, long, conflicts_with_all = ["json", "run"])]
    pub(crate) follow: bool,
    /// Start at this cursor, from `run --json`, `logs --json` or `wait --json`
    #[arg(long, value_name = "CURSOR", conflicts_with = "run")]
    pub(crate) since: Option<String>,
    /// The stored output of an earlier run
    #[arg(long, value_name = "N", value_parser = number::<u32>("not the number of a run, like 3"), allow_negative_numbers = true, conflicts_with = "raw")]
    pub(crate) run: Option<u32>,
    /// List the ended runs whose output is stored, the last one last; -n N the last N of each task
    #[arg(long, conflicts_with_all = ["follow", "since", "run", "raw"])]
    pub(crate) runs: bool,
    /// Keep escape sequences, as the task wrote them or tmux has them
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// The text to look for
    pub(crate) pattern: String,
    /// Only in this task, by name or window id
    #[arg(add = task_names::candidates())]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) matching: MatchOptions,
    #[command(flatten)]
    pub(crate) json: Json,
}

// How texts match.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MatchOptions {
    /// The texts are regular expressions
    #[arg(long)]
    pub(crate) regex: bool,
    /// Ignore case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without a condition, the command waits for the end of the run. The first \
                        condition that holds ends the wait.\n\nExit codes: 0 the condition holds, \
                        1 the run ended as awaited, but its code was not 0, 4 timed out, 5 the \
                        wait can no longer succeed: the run ended or was replaced, its window is \
                        gone, a --stop text was written, or some of the output is missing, 6 the \
                        task asks for input before its run can end."
)]
pub(crate) struct Wait {
    /// The tasks, by name or window id
    #[arg(required_unless_present = "channel", value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    /// With several tasks: end with the first outcome, and print the names of the others on stderr
    #[arg(long, conflicts_with = "channel")]
    pub(crate) any: bool,
    /// With several tasks: wait for the outcomes of all (the default)
    #[arg(long, conflicts_with_all = ["any", "channel"])]
    pub(crate) all: bool,
    /// Until the run ends (the default)
    #[arg(long)]
    pub(crate) exit: bool,
    /// Until this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) text: Vec<String>,
    #[command(flatten)]
    pub(crate) matching: MatchOptions,
    /// Until anything is written
    #[arg(long)]
    pub(crate) change: bool,
    /// Until the bell rings
    #[arg(long)]
    pub(crate) bell: bool,
    /// Until the task waits for input
    #[arg(long)]
    pub(crate) input: bool,
    /// Until nothing was written for this long
    #[arg(long, value_name = "D", value_parser = read_time)]
    pub(crate) idle: Option<Duration>,
    /// Until the task's own processes listen on this TCP port, or on any; who else has it is said
    #[arg(long, value_name = "PORT", value_parser = parse_port, num_args = 0..=1)]
    pub(crate) listen: Option<Option<u16>>,
    /// Wait for the end of the run even while the task asks for input
    #[arg(long)]
    pub(crate) through_prompts: bool,
    /// Until the task has succeeded or is given up: the end of a run that `--restart` runs again is not it
    #[arg(long = "final", conflicts_with_all = ["text", "change", "bell", "input", "idle", "listen"])]
    pub(crate) is_final: bool,
    /// Until `tmux-task signal NAME` or `tmux wait-for -S NAME`
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["names", "exit", "text", "change", "bell", "input", "idle", "listen", "through_prompts", "is_final", "stop", "since"])]
    pub(crate) channel: Option<String>,
    /// Give up when this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) stop: Vec<String>,
    /// The longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = read_time)]
    pub(crate) timeout: Option<Duration>,
    /// How many of the last lines of a failed run to print on stderr, or, with --json, in the result
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<usize>(LINES), allow_negative_numbers = true)]
    pub(crate) tail: usize,
    /// Count output since this cursor too
    #[arg(long, value_name = "CURSOR")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The channel
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The task, by name or window id
    #[arg(add = task_names::candidates())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The task, by name or window id
    #[arg(add = task_names::candidates())]
    pub(crate) name: String,
    /// The text to type, words joined by spaces; Enter follows
    #[arg(conflicts_with_all = ["key", "secret"], value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// A key by tmux's name, Enter, C-c or Up; may be given more than once
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with = "secret", value_parser = parse_key)]
    pub(crate) key: Vec<String>,
    /// Read the text from standard input; it is never displayed or logged
    #[arg(long)]
    pub(crate) secret: bool,
    /// No Enter after the text
    #[arg(long)]
    pub(crate) no_enter: bool,
    /// Only if the task waits for exactly this, and was not answered already
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) if_prompt: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Every process of a task's run gets the signal; what is left after the grace time gets \
                  SIGKILL. The command returns when nothing of the run is left, and its window is \
                  closed. After a second it says for whom it waits; a second interrupt (Ctrl-C) kills \
                  at once. What another user's process is cannot be ended: it is named, and the exit \
                  code is 1."
)]
pub(crate) struct Kill {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    /// The signal that asks them to end, like SIGINT [default: that of the task, else SIGTERM]
    #[arg(long, value_name = "SIG", value_parser = parse_signal)]
    pub(crate) signal: Option<model::Signal>,
    /// How long they have to end before SIGKILL, like 30s; 0: no time [default: that of the task, else
    /// 10s]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct KillAll {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// How long tasks have to end before SIGKILL, like 30s; 0: no time [default: that of each task, else
    /// 10s]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: Json,
}

pub(super) fn parse_key(text: &str) -> Result<String, String> {
    if crate::tmux::is_key(text) {
        Ok(text.to_owned())
    } else {
        Err("tmux has no such key; keys are called Enter, Escape, Up, C-c, M-x, F1".to_owned())
    }
}

/// What is wrong with a text that is to be a number of lines.
pub(super) const LINES: &str = "not a number of lines, like 20";

/// Returns what reads a number. `why` says what is wrong with another text.
pub(super) fn number<T: FromStr>(
    why: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + std::marker::Send + Sync {
    move |text| text.parse().map_err(|_| format!("`{text}` is {why}"))
}

pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{text}` is not a port, like 3000"))
}

pub(super) fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a variable is given as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_name_and_value() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(parse_variable("A="), Ok(("A".into(), String::new())));
        assert!(parse_variable("A").is_err());
        assert!(parse_variable("=b").is_err());
    }
}
