//! Finds, reads and checks the configuration file.
//!
//! The file is `$TMUX_TASK_CONFIG`, else `$XDG_CONFIG_HOME/tmux-task/config.toml`, else
//! `~/.config/tmux-task/config.toml`. Without one the defaults hold. A key that we do not know
//! and a value of the wrong type are errors that name file, line and key: a setting that is
//! silently ignored is worse than none. A new key is a field of [`Config`] and a line where it is
//! parsed; `table` does the checking and the errors.

mod error;
mod file;
mod settings;
mod table;

pub use error::ConfigError;
pub use file::{ConfigFile, Env, find, load};
pub use settings::{Config, InputConfig, LogsConfig, NoticeSink, parse};
