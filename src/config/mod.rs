//! Finds, reads and validates the configuration file.
//!
//! The file is `$TMUX_TASK_CONFIG`, else `$XDG_CONFIG_HOME/tmux-task/config.toml`, else
//! `~/.config/tmux-task/config.toml`. Without one the defaults apply. Unknown keys and values of
//! the wrong type are errors that name file, line and key: a silently ignored setting is worse than
//! none. A new key is a field in `settings`: serde reads it and knows its name, `value` checks it,
//! and `parse` produces errors that name the position.

mod file;
mod given_task;
mod hosts;
#[cfg_attr(
    not(feature = "webhook"),
    allow(dead_code, reason = "only webhooks send messages")
)]
mod named_path;
mod notices;
mod project_file;
mod settings;
mod show;
mod sinks;
mod value;

pub(crate) use file::{ConfigFile, find, load};
pub(crate) use given_task::{GivenSettings, HttpUrl, Ready};
pub(crate) use hosts::{HostConfig, check_destination};
pub(crate) use project_file::{
    PROCFILE, TASK_FILE, TaskEntry, is_procfile, parse_task_file, read_task_file, read_tasks,
};
pub(crate) use settings::{Config, LogsConfig, parse_signal};
pub(crate) use show::{EXAMPLE, Setting, ShownConfig, show};
#[cfg(feature = "webhook")]
pub(crate) use sinks::{Format, MessageConfig, Webhook};
pub(crate) use sinks::{SinkConfig, SinkFilter, SinkTarget};
#[cfg(feature = "mcp")]
pub(crate) use value::{OneOrMany, one_or_many};
pub(crate) use value::{parse_duration, read_duration, read_time};
