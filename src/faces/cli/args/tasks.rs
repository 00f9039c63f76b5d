//! Arguments of the commands about tasks.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::Json;
use crate::config::{GivenSettings, parse_signal, read_duration, read_time};
use crate::model::{self, Condition};
use crate::ops::{LINES, number, parse_port, task_names};

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

// Starting tasks, and `down`.

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("limited").args(["wait", "follow", "until", "listen", "after"]).multiple(true)),
    group(ArgGroup::new("ends").args(["wait", "follow"])),
    group(ArgGroup::new("texts").args(["until", "notify_on"]).multiple(true)),
)]
#[command(
    after_help = "Without a command, the task runs again: the command of its last launch, in the \
                        directory of that launch, with the environment that this command has now."
)]
pub(crate) struct Run {
    /// The task's name: 1 to 40 of A-Z a-z 0-9 . _ -, the first a letter or digit [default: made of
    /// the command, like cargo-test; cargo-test-2 while that task runs]
    #[arg(required_unless_present = "command", add = task_names::candidates())]
    pub(crate) name: Option<String>,
    /// Where to run it [default: this directory; without a command, that of its last launch]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A variable for its environment; may be given more than once
    #[arg(long, value_name = "K=V", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Fail when the task is running already, instead of replacing its run
    #[arg(long)]
    pub(crate) if_absent: bool,
    /// Run it in tmux's environment instead of this one; --env is added last
    #[arg(long)]
    pub(crate) clean_env: bool,
    #[command(flatten)]
    pub(crate) settings: GivenSettings,
    /// Wait until the present run of this task has ended with code 0, and start then; may be given
    /// more than once. If it fails, nothing is started
    #[arg(long, value_name = "TASK", add = task_names::candidates())]
    pub(crate) after: Vec<String>,
    #[command(flatten)]
    pub(crate) follow: FollowRun,
    #[command(flatten)]
    pub(crate) json: Json,
    /// The command: one word is a shell line, several are a program and its arguments [default: that
    /// of the task's last launch, in its directory]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

// How `run` waits for what it has started.
#[derive(Debug, Clone, Args)]
pub(crate) struct FollowRun {
    /// Wait until the run ends, and exit with its code (128+N for signal N); 123: the task asks for
    /// input, 124: timed out, 125: run itself failed
    #[arg(long, conflicts_with = "until", group = "waits")]
    pub(crate) wait: bool,
    /// Show its output here, nothing else on stdout, until the run ends; exit as with --wait. Ctrl-C
    /// leaves it running
    #[arg(long, conflicts_with_all = ["until", "listen", "json"])]
    pub(crate) follow: bool,
    /// With --wait or --follow: continue to wait while the task asks for input
    #[arg(long, requires = "ends")]
    pub(crate) through_prompts: bool,
    /// With --wait, --until or --listen, or run's --after: how many of the last lines of a failed run to print
    /// on stderr
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<usize>(LINES), allow_negative_numbers = true, requires = "limited")]
    pub(crate) tail: usize,
    /// Wait until this text is written, as `wait --text` does
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        group = "waits"
    )]
    pub(crate) until: Vec<String>,
    /// Wait until the task's own processes listen on this TCP port, or on any, as `wait --listen` does
    #[arg(long, value_name = "PORT", value_parser = parse_port, num_args = 0..=1, conflicts_with = "wait")]
    pub(crate) listen: Option<Option<u16>>,
    /// With --until: give up when this text is written; may be given more than once
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        requires = "until"
    )]
    pub(crate) stop: Vec<String>,
    /// The texts of --until, --stop and run's --notify-on are regular expressions
    #[arg(long, requires = "texts")]
    pub(crate) regex: bool,
    /// The texts of --until, --stop and run's --notify-on match in upper and lower case
    #[arg(long, requires = "texts")]
    pub(crate) ignore_case: bool,
    /// With --wait, --follow, --until or --listen, or run's --after: the longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = read_time, requires = "limited")]
    pub(crate) timeout: Option<Duration>,
}

impl FollowRun {
    /// Returns what ends the wait besides the end of the run.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let texts = self.until.iter().cloned().map(Condition::Text);
        let ports = self.listen.map(|port| Condition::Listen { port });
        texts.chain(ports).collect()
    }
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("limited").args(["wait", "follow", "until", "listen"]).multiple(true)),
    group(ArgGroup::new("ends").args(["wait", "follow"])),
    group(ArgGroup::new("texts").args(["until"]).multiple(true)),
    after_help = "A live run is replaced. A task of the project's file runs as the file has it now. \
                        Each task gets the environment that this command has now \
                        (tmux's if it was started with --clean-env); values of --env are not \
                        recorded, so a task that was started with it is refused: \
                        `tmux-task run NAME --env K=V` runs it again with these."
)]
pub(crate) struct Restart {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) follow: FollowRun,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The file is TOML: a table [tasks.NAME] for each task, with `command` (a shell line, or a \
                        list of a program and its arguments), and if needed `cwd`, `env`, `env-file`, \
                        `restart`, `backoff`, `after` (a list of tasks) and `ready` (a text of its \
                        output, { port = 3000 } or { http = \"http://127.0.0.1:3000/health\" }). A task starts \
                        when those in `after` are ready: have printed that text, listen on that port, answer \
                        there, or have ended with code 0 if they have none of these. A task that runs already is \
                        left alone, and what has changed in the file since is said; one without \
                        `ready` that has ended with code 0 is not run again, unless it is named. Without the file, a Procfile is taken."
)]
pub(crate) struct Up {
    /// The file [default: tmux-task.toml in the project's folder, else Procfile], and the tasks to start
    /// with those that they need [default: all]
    #[arg(value_names = ["FILE", "NAME"], num_args = 0.., add = task_names::candidates_of_file())]
    pub(crate) what: Vec<PathBuf>,
    /// Wait also until each task with `ready` is ready or has failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// The longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = read_time)]
    pub(crate) timeout: Option<Duration>,
    /// How many of the last lines of a failed run to print on stderr
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<usize>(LINES), allow_negative_numbers = true)]
    pub(crate) tail: usize,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The file [default: tmux-task.toml in the project's folder, else Procfile], and the tasks to end
    /// [default: all]
    #[arg(value_names = ["FILE", "NAME"], num_args = 0.., add = task_names::candidates_of_file())]
    pub(crate) what: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
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
