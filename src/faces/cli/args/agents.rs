//! Arguments of the commands by which agents are connected.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::task_names;

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

#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) client: AgentCommand,
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
