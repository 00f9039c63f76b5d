//! The command line's arguments and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::agent::{AgentCommand, Init};
use super::attach::Attach;
#[cfg(feature = "mcp")]
use super::attach::Mcp;
#[cfg(feature = "panel")]
use super::attach::Panel;
use super::config::ConfigCommand;
use super::context::Global;
use super::daemon::{ConsumerCommand, Daemon};
use super::feed::Feed;
use super::kill::{Kill, KillAll};
use super::logs::Logs;
use super::ls::{Explain, Ls};
use super::output::Json;
use super::replay::Replay;
use super::run::{Restart, Run};
use super::send::Send;
use super::up::Down;
use super::wait::Signal;
use crate::ops::{SearchArguments, UpArguments, WaitArguments};

/// Supervises the tmux windows in which an agent's tasks run, and reports once, within
/// milliseconds, when a task starts, exits, rings the bell, asks for input or disappears
#[derive(Debug, Parser)]
#[command(
    name = "tmux-task",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "For programs, each with its own --help: completions, consumer, man, mcp, replay, \
                        signal.\n\n\
                        Exit codes: 0 success, 1 failure, 2 usage, 3 no such session, task or daemon, \
                        4 a wait timed out, 5 a wait can no longer succeed, 6 the task asks for \
                        input, 7 the connection to a machine was lost, 130 interrupted. `run --wait` and `run --follow` exit with the \
                        task's own code, or with 123 if the task asks for input, 124 if it \
                        timed out, 125 if `run` itself failed."
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: CliCommand,
}

/// Commands for programs: they have help and manual pages, and are not among the first ones.
const FOR_PROGRAMS: [&str; 6] = ["completions", "consumer", "man", "mcp", "replay", "signal"];

/// Whether a command has a page: all but those that only the program itself uses.
pub(super) fn is_documented(command: &clap::Command) -> bool {
    !command.is_hide_set() || FOR_PROGRAMS.contains(&command.get_name())
}

// The arguments of a command are made when it is asked for: all of them take longer than the rest of a start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum CliCommand {
    /// Start a task, or rerun it in its window
    Run(Run),
    /// Run tasks again with their commands and directories
    Restart(Restart),
    /// Start the tasks of a file, each after those that it needs
    Up(UpArguments),
    /// End the tasks of a file, the last ones first
    Down(Down),
    /// Supervise the task session, or manage the daemon that does
    Daemon(Daemon),
    /// Print the records of events and deliveries
    Feed(Feed),
    /// List or remove the feed's consumers
    #[command(subcommand, hide = true)]
    Consumer(ConsumerCommand),
    /// List the tasks
    #[command(visible_alias = "ps")]
    Ls(Ls),
    /// Show the session, or a task, in this terminal; inside tmux, switch to it
    Attach(Attach),
    /// Show the tasks full-screen: what needs you on top, with keys to answer, read and kill
    #[cfg(feature = "panel")]
    Panel(Panel),
    /// Show the tasks, records and state of all machines that share a broker: `ls`, `feed`, `status`
    ///
    /// It runs the program `tmux-task-fleet`, which `cargo install --path . --locked --features fleet`
    /// installs with this one.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Fleet(Fleet),
    /// Print a task's output
    Logs(Logs),
    /// Search the tasks' current output for a text
    Search(SearchArguments),
    /// Wait for a task to exit, print text, ring the bell or ask for input
    Wait(WaitArguments),
    /// Wake the commands that wait on a channel
    #[command(hide = true)]
    Signal(Signal),
    /// Show why a task is or is not judged to wait for input
    Explain(Explain),
    /// Type into a task
    Send(Send),
    /// End a task and remove its window
    #[command(visible_alias = "stop")]
    Kill(Kill),
    /// End the task session with all its tasks
    KillAll(KillAll),
    /// Remove the tasks that have ended
    Prune(Json),
    /// Print the status line; nothing when the session is missing
    Status(Json),
    /// Check everything that tmux-task depends on, and suggest what to do
    Doctor(Json),
    /// Show the settings that apply and where each is from, or an example of a file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Turn snapshots (JSON lines) into the records a daemon would have made of them
    #[command(hide = true)]
    Replay(Replay),
    /// Show or install the adapter that wakes an agent when its tasks need it
    Init(Init),
    /// Serve MCP on standard input and output: tasks as tools for a model
    #[cfg(feature = "mcp")]
    #[command(hide = true)]
    Mcp(Mcp),
    /// Print how an agent uses tasks: one page to give to a model
    Guide,
    /// Print the script that lets a shell complete commands, options and the names of tasks
    #[command(hide = true)]
    Completions(Completions),
    /// Print a manual page: `tmux-task man run | man -l -`
    #[command(hide = true)]
    Man(Man),
    /// Deliver follow-ups to the conversations of a client. Its adapter runs this.
    #[command(subcommand, hide = true)]
    Agent(AgentCommand),
}

#[derive(Debug, Args)]
pub(super) struct Fleet {
    /// The command of `tmux-task-fleet`, with its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(super) arguments: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(super) shell: Shell,
}

/// The shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    /// For ~/.bashrc: source <(tmux-task completions bash)
    Bash,
    /// For config.fish: tmux-task completions fish | source
    Fish,
    /// For ~/.zshrc, after compinit: source <(tmux-task completions zsh)
    Zsh,
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// The command whose page is printed [default: the page of tmux-task]
    pub(super) command: Option<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(super) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_text_of_a_task_may_begin_with_hyphens() {
        for args in [
            &["send", "a", "--if-prompt", "--More--", "--key", "q"][..],
            &["wait", "a", "--text", "--- PASS", "--stop", "--- FAIL"],
            &[
                "run", "a", "--until", "-> up", "--stop", "-", "--", "make", "-k",
            ],
            &["run", "a", "--notify-on", "--- FAIL", "--", "go", "test"],
        ] {
            let args = std::iter::once(&"tmux-task").chain(args);
            let parsed = Cli::try_parse_from(args.clone());
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }
}
