//! Use cases: the operations that faces offer to users, with typed results. The command line and
//! other faces add arguments and text.
//!
//! Each asks the session's daemon, and starts it where none runs.

mod arguments;
mod attach;
mod caller;
mod doctor;
mod events;
mod file_tasks;
mod host_follower;
mod host_notes;
mod kill;
mod list;
mod logs;
mod pending;
mod remote_conversation;
mod run;
mod session;
mod stored_feed;
pub(crate) mod task_names;
mod undelivered;
mod up;
mod wait;

pub(crate) use crate::model::quote_where_needed;
#[cfg(feature = "panel")]
pub(crate) use crate::process::{TreeUsage, tree_usage};
pub(crate) use arguments::*;
pub(crate) use attach::*;
pub(crate) use caller::*;
pub(crate) use doctor::*;
pub(crate) use events::*;
pub(crate) use file_tasks::*;
pub(crate) use host_follower::*;
pub(crate) use host_notes::*;
pub(crate) use kill::*;
pub(crate) use list::*;
pub(crate) use logs::*;
pub(crate) use pending::*;
pub(crate) use remote_conversation::*;
pub(crate) use run::*;
pub(crate) use session::*;
pub(crate) use stored_feed::*;
pub(crate) use undelivered::*;
pub(crate) use up::*;
pub(crate) use wait::*;

use std::ffi::OsString;

use crate::env;

/// How a daemon gets the present configuration.
pub(crate) const APPLY_CONFIG: &str = "`tmux-task daemon stop`, and the next command starts a daemon with \
                                       these settings; the tasks go on";

pub(crate) fn lookup(name: &str) -> Option<OsString> {
    env::var(name)
}
