//! Arguments of the commands about settings and set-up, and of the one that a task's pane starts with.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Json;

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
