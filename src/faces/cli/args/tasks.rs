//! Arguments of the commands about tasks that are there.

use std::time::Duration;

use clap::Args;

use super::Json;
use crate::config::{parse_signal, read_duration};
use crate::model;
use crate::ops::{LINES, number, task_names};

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
