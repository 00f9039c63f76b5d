//! Finds, reads and validates the configuration file.
//!
//! The file is `$TMUX_TASK_CONFIG`, else `$XDG_CONFIG_HOME/tmux-task/config.toml`, else
//! `~/.config/tmux-task/config.toml`. Without one the defaults apply. Unknown keys and values of
//! the wrong type are errors that name file, line and key: a silently ignored setting is worse than
//! none. A new key is a field in `settings`, and the line that reads it, with its default; `reader` collects
//! what is wrong, with the place in the file.

mod file;
mod given_task;
mod hosts;
mod named_path;
mod notices;
pub(crate) mod paths;
mod project_file;
mod reader;
mod settings;
mod show;
#[cfg_attr(
    not(feature = "webhook"),
    allow(dead_code, reason = "only webhooks send messages")
)]
mod sinks;
mod value;

#[cfg(all(test, feature = "webhook"))]
pub(crate) use file::parse;
pub(crate) use file::{find, load};
pub(crate) use given_task::{GivenSettings, HttpUrl, Ready, TaskEntry, parse_group};
pub(crate) use hosts::{HostConfig, destination};
pub(crate) use project_file::{
    PROCFILE, TASK_FILE, is_procfile, parse_task_file, read_task_file, read_tasks,
};
pub(crate) use settings::{AgentsConfig, Config, Deliver, FeedConfig, LogsConfig, parse_signal};
pub(crate) use show::{EXAMPLE, Setting, show};
#[cfg(feature = "webhook")]
pub(crate) use sinks::{Format, MessageConfig, Webhook};
pub(crate) use sinks::{SinkConfig, SinkTarget};
pub(crate) use value::{read_duration, read_time};
