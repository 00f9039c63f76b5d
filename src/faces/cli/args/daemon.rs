//! Arguments of `daemon`, of the commands about the program itself, of those by which agents are connected, and of
//! those about the feed and its consumers.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::Json;
use crate::config::read_time;
use crate::model::{EventType, Kind};
use crate::ops::{number, task_names};
use crate::rules::wire::After;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Daemon {
    #[command(subcommand)]
    pub(crate) command: Option<DaemonCommand>,
    #[command(flatten)]
    pub(crate) supervise: Supervise,
}

#[derive(Debug, Args)]
pub(crate) struct Supervise {
    /// Go to the background once the daemon is ready
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) detach: bool,
    /// Print the live feed, from this daemon's start
    #[arg(long, hide = true)]
    pub(crate) stdout: bool,
    /// Discard the saved snapshot: the current state is the new baseline
    #[arg(long, hide = true)]
    pub(crate) fresh: bool,
    /// The longest time between two safety looks at the session, like 2s or 1m
    #[arg(long, hide = true, value_name = "D", value_parser = read_time, default_value = "1m")]
    pub(crate) interval: Duration,
    /// The harness's id of the conversation [default: $PI_SESSION_ID, else the session's name]
    #[arg(long, hide = true, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Used by the program itself to go to the background.
    #[arg(long, hide = true, value_enum)]
    pub(crate) as_child: Option<ChildOf>,
    /// Used by the program itself: the key of the folder with the session's files.
    #[arg(long, hide = true, requires = "as_child")]
    pub(crate) folder: Option<String>,
}

/// What started a daemon in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildOf {
    /// `daemon --detach`: the daemon runs until it is stopped.
    Detach,
    /// Another command that needed a daemon: it exits by itself when it is not used.
    Autostart,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Show the daemon's status
    Status(Json),
    /// Stop the daemon; tasks continue
    Stop {
        /// Also end the task session when no task in it is active
        #[arg(long)]
        cleanup: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Fleet {
    /// The command of `tmux-task-fleet`, with its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each setting with its value and where that is from
    Show(Json),
    /// Print a configuration file with all settings, their defaults and what they mean
    Example,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// The shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// For ~/.bashrc: source <(tmux-task completions bash)
    Bash,
    /// For config.fish: tmux-task completions fish | source
    Fish,
    /// For ~/.zshrc, after compinit: source <(tmux-task completions zsh)
    Zsh,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The command whose page is printed [default: the page of tmux-task]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Offer only the tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Execute one call of a tool, which comes on standard input, and print what a client would get
    #[arg(long, hide = true, conflicts_with = "read_only")]
    pub(crate) call: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The agent's program, or `host`
    #[arg(value_enum)]
    pub(crate) client: InitClient,
    /// For `host`: the machine onto which this program is put
    #[arg(value_name = "HOST", conflicts_with_all = ["write", "remove"], add = task_names::host_candidates())]
    pub(crate) machine: Option<String>,
    /// Install the adapter
    #[arg(long, conflicts_with = "remove")]
    pub(crate) write: bool,
    /// Remove what --write has added
    #[arg(long)]
    pub(crate) remove: bool,
}

/// What can be set up: the clients that have an adapter, and other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitClient {
    /// Pi: a package for `pi install`
    Pi,
    /// Claude Code: a plugin
    Claude,
    /// Codex: messages to the queue of the thread
    Codex,
    /// opencode: a plugin file
    Opencode,
    /// host HOST: puts this program onto another machine, and checks it
    Host,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Serve Pi's extension: JSON lines on standard input and output
    Pi(AgentServe),
    /// Serve opencode's plugin: JSON lines on standard input and output
    Opencode(AgentServe),
    /// Deliver to a thread of Codex
    Codex {
        /// The thread
        #[arg(long, value_name = "ID")]
        id: String,
        /// Codex's program, for threads without an app-server
        #[arg(long, value_name = "PATH", default_value = "codex")]
        program: PathBuf,
        /// Leave the terminal, say whether the thread takes messages, and end when no task is active;
        /// so it is started by `run`
        #[arg(long)]
        background: bool,
    },
    /// A hook of Claude Code, whose input is read from standard input
    Claude {
        /// Wait for the next follow-ups, print them on stderr and exit 2
        #[arg(long)]
        wait: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AgentServe {
    /// A conversation to follow from the start; may be given more than once
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<String>,
    /// Follow also the conversations that have pending follow-ups and that no process follows
    #[arg(long)]
    pub(crate) adopt: bool,
}

// The feed and its consumers.

#[derive(Debug, Args)]
pub(crate) struct Feed {
    /// Stream new records, from now unless --after, --lines, --since or --consumer says where it starts
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start after this record, SEQ or EPOCH:SEQ; 0 is before the first
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<After>,
    /// Only the last N records of those that the other options select; with --follow, new ones follow
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<usize>("not a number of records, like 20"), allow_negative_numbers = true, conflicts_with = "consumer")]
    pub(crate) lines: Option<usize>,
    /// Only records that are not older than this, like 90s, 10m or 2h; with --follow, new ones follow
    #[arg(long, value_name = "D", value_parser = read_time, conflicts_with = "consumer")]
    pub(crate) since: Option<Duration>,
    #[command(flatten)]
    pub(crate) consume: Consume,
    /// Only records of this kind; may be given more than once
    #[arg(long, value_name = "K")]
    pub(crate) kind: Vec<Kind>,
    /// Only events of this type; may be given more than once
    #[arg(long = "type", value_name = "T")]
    pub(crate) types: Vec<EventType>,
    /// Only this task, by name or window id; may be given more than once
    #[arg(long, value_name = "NAME", add = task_names::candidates())]
    pub(crate) task: Vec<String>,
    /// Only notices and follow-ups for this owner, CLIENT:ID, and for everyone; events of all
    #[arg(long, hide = true, value_name = "ID")]
    pub(crate) owner: Option<String>,
    /// How to print a record [default: json; text on a terminal, where each event is printed once
    /// unless --kind says what to print]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FeedFormat>,
}

// Reading as a consumer.
#[derive(Debug, Args)]
pub(crate) struct Consume {
    /// Read as this consumer: start at the first record that it has not acknowledged. A line
    /// {"ack":SEQ} on standard input acknowledges a record and all before it; {"acked":SEQ}
    /// confirms that this is on the disk. A new consumer starts at the first record
    #[arg(
        long,
        value_name = "NAME",
        requires = "follow",
        conflicts_with = "after",
        add = task_names::consumer_candidates()
    )]
    pub(crate) consumer: Option<String>,
    /// Acknowledge each record after printing it; standard input is not read
    #[arg(long, requires = "consumer")]
    pub(crate) auto_ack: bool,
    /// Where a new consumer starts, instead of at the first record: after the existing ones
    #[arg(long, hide = true, value_name = "WHERE", value_parser = ["now"], requires = "consumer")]
    pub(crate) from: Option<String>,
    /// End the stream of the process that reads as this consumer now, if there is one
    #[arg(long, hide = true, requires = "consumer")]
    pub(crate) take_over: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConsumerCommand {
    /// List the consumers with their positions and readers
    Ls(Json),
    /// Remove consumers
    Rm {
        /// Their names
        #[arg(required = true, add = task_names::consumer_candidates())]
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FeedFormat {
    /// JSON lines as stored
    Json,
    /// For people
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The file of snapshots [default: standard input]
    pub(crate) file: Option<PathBuf>,
    /// No effect: records are always JSON lines
    #[command(flatten)]
    pub(crate) json: Json,
}
