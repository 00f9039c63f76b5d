//! Arguments of `daemon`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::Json;
use crate::config::read_time;

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

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
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

impl Shell {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            Self::Zsh => "zsh",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The command whose page is printed [default: the page of tmux-task]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}
