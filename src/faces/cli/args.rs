//! The commands: their arguments, with their help, and what carries them out.

use std::ffi::OsString;
use std::future::ready;
use std::os::unix::process::CommandExt;
use std::pin::Pin;

use clap::{Args, Command, CommandFactory, Parser, Subcommand};

use super::agent::{self, AgentCommand, Init};
#[cfg(feature = "mcp")]
use super::attach::Mcp;
#[cfg(feature = "panel")]
use super::attach::Panel;
use super::attach::{self, Attach};
use super::config::{self, ConfigCommand};
use super::context::{self, Context, Global};
use super::daemon::{self, ConsumerCommand, Daemon};
use super::doctor;
use super::feed::{self, Feed};
use super::kill::{self, Kill, KillAll};
use super::logs::{self, Logs};
use super::ls::{self, Explain, Ls};
use super::man::{self, Completions, Man};
use super::output::Json;
use super::replay::{self, Replay};
use super::run::{self, Restart, Run};
use super::send::{self, Send};
use super::up::{self, Down};
use super::wait::{self, Signal};
use crate::client::{fleet_not_started, fleet_program};
use crate::model::Error;
use crate::ops::{PendingArguments, SearchArguments, UpArguments, WaitArguments};

/// Supervises the tmux windows in which an agent's tasks run, and reports once, within
/// milliseconds, when a task starts, exits, rings the bell, asks for input or disappears
#[derive(Debug, Parser)]
#[command(
    name = "tmux-task",
    version, long_version = env!("LONG_VERSION"),
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
    /// Print what a conversation waits for; exits with 1 if there is something
    ///
    /// Its tasks that are alive or will be restarted, with how long each usually takes and what it asks. One whose
    /// end wakes nobody (`run --wake never`) counts only while it asks.
    Pending(PendingArguments),
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

impl CliCommand {
    /// Returns the execution of a command. Each is made in a function of its own: the stack of one that
    /// makes them all has room for all of them, two megabytes without optimisation.
    pub(super) fn execute(self, context: &Context) -> Execution<'_> {
        match self {
            Self::Run(args) => boxed(move || run::run(context, args)),
            Self::Restart(args) => boxed(move || run::restart(context, args)),
            Self::Up(args) => boxed(move || context::with_result(up::up(context, args))),
            Self::Down(args) => boxed(move || context::with_result(up::down(context, args))),
            Self::Daemon(args) => boxed(move || daemon::run(context, args)),
            Self::Feed(args) => boxed(move || feed::run(context, args)),
            Self::Consumer(args) => boxed(move || daemon::consumer(context, args)),
            Self::Ls(args) => boxed(move || ls::run(context, args)),
            Self::Fleet(args) => {
                let error = fleet_program().into_std().args(args.arguments).exec();
                Box::pin(ready(Err(fleet_not_started(&error))))
            }
            Self::Logs(args) => boxed(move || logs::run(context, args)),
            Self::Search(args) => boxed(move || logs::search(context, args)),
            Self::Wait(args) => boxed(move || context::with_result(wait::wait(context, args))),
            Self::Signal(args) => boxed(move || wait::signal(context, args)),
            Self::Explain(args) => boxed(move || ls::explain(context, args)),
            Self::Send(args) => boxed(move || send::run(context, args)),
            Self::Kill(args) => boxed(move || kill::kill(context, args)),
            Self::KillAll(args) => boxed(move || kill::kill_all(context, args)),
            Self::Prune(args) => boxed(move || kill::prune(context, args)),
            Self::Status(args) => boxed(move || ls::status(context, args)),
            Self::Pending(args) => boxed(move || ls::pending(context, args)),
            Self::Config(command) => boxed(move || config::run(context, command)),
            Self::Doctor(args) => boxed(move || doctor::run(context, args)),
            Self::Attach(args) => boxed(move || attach::run(context, args)),
            #[cfg(feature = "panel")]
            Self::Panel(args) => boxed(move || attach::panel(context, args)),
            Self::Guide => Box::pin(ready(man::guide())),
            Self::Completions(args) => Box::pin(ready(man::completions(args))),
            Self::Man(args) => Box::pin(ready(man::run(&args, program()))),
            Self::Init(args) => boxed(move || agent::init(context, args)),
            Self::Agent(args) => boxed(move || agent::run(context, args)),
            #[cfg(feature = "mcp")]
            Self::Mcp(args) => boxed(move || attach::mcp(context, args)),
            Self::Replay(args) => {
                context.limit.lift();
                Box::pin(ready(replay::run(&args)))
            }
        }
    }
}

type Execution<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

fn boxed<'a, F>(make: impl FnOnce() -> F) -> Execution<'a>
where
    F: Future<Output = Result<(), Error>> + 'a,
{
    Box::pin(make())
}

/// Returns the whole command line.
pub(super) fn program() -> Command {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    program
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

#[cfg(test)]
mod tests {
    use super::*;

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
