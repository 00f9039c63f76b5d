//! The command line's arguments and their help.

mod daemon;
mod tasks;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::output;
use crate::model::shown_command;
use crate::ops::{SearchArguments, SessionChoice, WaitArguments, session_words, task_names};
use crate::tmux::ServerChoice;

#[cfg(feature = "mcp")]
pub(crate) use daemon::Mcp;
pub(crate) use daemon::{
    AgentCommand, AgentServe, ChildOf, Completions, ConfigCommand, Consume, ConsumerCommand,
    Daemon, DaemonCommand, Feed, FeedFormat, Fleet, Init, InitClient, Man, Replay, Supervise,
};
#[cfg(feature = "panel")]
pub(crate) use tasks::Panel;
pub(crate) use tasks::{
    Attach, Down, Explain, FollowRun, Kill, KillAll, Logs, Ls, Restart, Run, Send, Signal, Up,
};

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
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Which task session, on which tmux server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Session and server")]
pub(crate) struct Global {
    /// The task session [default: $TMUX_TASK_SESSION, $PI_TMUX_SESSION, else a name made from
    /// this directory]
    #[arg(short, long, global = true, value_name = "NAME", add = task_names::session_candidates())]
    pub(crate) session: Option<String>,
    /// The tmux server's socket name, as in tmux
    #[arg(short = 'L', global = true, value_name = "NAME")]
    pub(crate) socket_name: Option<String>,
    /// The tmux server's socket path, as in tmux
    #[arg(short = 'S', global = true, value_name = "PATH")]
    pub(crate) socket_path: Option<PathBuf>,
    /// The tmux program [default: $TMUX_TASK_TMUX, else tmux]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) tmux: Option<PathBuf>,
    /// The machine to do it on: a name under `[hosts]` in the configuration, or a destination for ssh
    #[arg(long, global = true, value_name = "HOST", add = task_names::host_candidates())]
    pub(crate) host: Option<String>,
    /// Whether this is that machine.
    #[arg(skip)]
    pub(crate) is_far: bool,
}

impl Global {
    /// Returns the machine that the command is passed on to; `None` if it is executed here.
    pub(crate) fn forwards_to(&self) -> Option<&str> {
        let host = self.host.as_deref();
        host.filter(|_| !self.is_far)
    }

    /// Returns what the command line says of session and server.
    pub(crate) fn choice(&self) -> SessionChoice {
        SessionChoice {
            session: self.session.clone(),
            server: ServerChoice {
                socket_name: self.socket_name.clone().map(Into::into),
                socket_path: self.socket_path.clone(),
                program: self.tmux.clone(),
            },
        }
    }

    /// Returns the options that were given, as words of a command; empty without any.
    pub(crate) fn words(&self) -> String {
        let mut choice = self.choice();
        // The host itself adds the socket to what comes by the broker, which takes none.
        if output::viewer().is_guarded {
            choice.server.socket_path = None;
        }
        let host = self.host.iter().flat_map(|host| ["--host", host.as_str()]);
        let host = host.map(OsString::from);
        let words = session_words(&choice).into_iter().map(OsString::from);
        shown_command(&host.chain(words).collect::<Vec<_>>())
    }
}

/// Commands for programs: they have help and manual pages, and are not among the first ones.
const FOR_PROGRAMS: [&str; 6] = ["completions", "consumer", "man", "mcp", "replay", "signal"];

/// Whether a command has a page: all but those that only the program itself uses.
pub(crate) fn is_documented(command: &clap::Command) -> bool {
    !command.is_hide_set() || FOR_PROGRAMS.contains(&command.get_name())
}

// The arguments of a command are made when it is asked for: all of them take longer than the rest of a start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum CliCommand {
    /// Start a task, or rerun it in its window
    Run(Run),
    /// Run tasks again with their commands and directories
    Restart(Restart),
    /// Start the tasks of a file, each after those that it needs
    Up(Up),
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

// `--json` on its own. No doc comment: clap would take it for the text of the command.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
