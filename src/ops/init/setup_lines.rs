//! The programs of a user that can be set up: shells, for completion, and tmux, for the panel's key.

#[cfg(feature = "panel")]
use std::path::{Path, PathBuf};

use super::marked_block::{MarkedBlock, MarkedBlockError};
use crate::paths::{Env, folder_of};

const BASH: &str = r#"if [[ $- == *i* ]] && command -v tmux-task >/dev/null; then
  eval "$(tmux-task completions bash)"
fi"#;

const ZSH: &str = r#"if (( $+commands[tmux-task] )); then
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
  eval "$(tmux-task completions zsh)"
fi"#;

const FISH: &str = "command -q tmux-task; and tmux-task completions fish | source";

/// `-EE`: the popup stays open when the panel fails, so that its error can be read.
#[cfg(feature = "panel")]
const BINDING: &str =
    r##"bind-key T display-popup -EE -w 90% -h 90% -d "#{pane_current_path}" "tmux-task panel""##;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserProgram {
    Bash,
    Fish,
    #[cfg(feature = "panel")]
    Tmux,
    Zsh,
}

impl UserProgram {
    /// Returns its name, as `init` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            #[cfg(feature = "panel")]
            Self::Tmux => "tmux",
            Self::Zsh => "zsh",
        }
    }
}

pub(crate) fn setup_of(
    program: UserProgram,
    env: Env<'_>,
) -> Result<MarkedBlock, MarkedBlockError> {
    let folder = |name: &str| folder_of(env, name);
    let home = folder("HOME").ok_or(MarkedBlockError::NoHome);
    let (path, text, is_ours) = match program {
        UserProgram::Bash => (home?.join(".bashrc"), BASH, false),
        UserProgram::Zsh => {
            let folder = folder("ZDOTDIR").map_or(home, Ok)?;
            (folder.join(".zshrc"), ZSH, false)
        }
        #[cfg(feature = "panel")]
        UserProgram::Tmux => (tmux_config(&home?, env), BINDING, false),
        UserProgram::Fish => {
            let config = match folder("XDG_CONFIG_HOME") {
                Some(config) => config,
                None => home?.join(".config"),
            };
            (config.join("fish/completions/tmux-task.fish"), FISH, true)
        }
    };
    Ok(MarkedBlock::new(path, program.name(), text, is_ours))
}

/// Returns tmux's configuration file: of the two places, the one that has it.
#[cfg(feature = "panel")]
fn tmux_config(home: &Path, env: Env<'_>) -> PathBuf {
    let own = home.join(".tmux.conf");
    let config = folder_of(env, "XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let other = config.join("tmux/tmux.conf");
    if !own.exists() && other.exists() {
        other
    } else {
        own
    }
}
