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
pub(crate) use arguments::{
    LINES, SearchArguments, WaitArguments, number, one_or_more, parse_port, seconds,
};
pub(crate) use attach::{Attachment, attachment, own_pane};
pub(crate) use caller::Caller;
pub(crate) use doctor::examine;
pub(crate) use events::{Events, FeedEvent, end_of_events, next_events};
pub(crate) use file_tasks::{FileTasks, names_in_file, plan_restarts, run_again};
pub(crate) use host_follower::{HostNews, Received, follow_host, follow_wakes};
pub(crate) use host_notes::{
    FarFeed, HostNotes, NoteWatch, note_host, owners_with_hosts, session_words,
};
pub(crate) use kill::{daemon_status, ending_runs, kill, kill_all, prune, stop_daemon};
pub(crate) use list::{
    Everywhere, FoundSession, Server, add_ports, cannot_restart_words, count, daemon_sockets,
    explain, explanation_lines, find, list, list_everywhere, ports, restart_words, sessions_of,
    task_stream, task_stream_at,
};
pub(crate) use logs::{
    RunInfo, coloured_log, earlier_log, follow_log, last_log, last_of_each, present_log, search,
    stored_runs,
};
pub(crate) use remote_conversation::{consumer_name, find_consumer};
pub(crate) use run::{
    StartedRun, check_launch, check_texts, free_name, name_of_command, run, wait_for_place,
};
pub(crate) use session::{SessionChoice, TaskSession};
pub(crate) use stored_feed::{
    LineHead, StoredLine, StoredRecords, list_consumers, no_feed, owners_with_pending_follow_ups,
    remove_consumer,
};
pub(crate) use undelivered::{Adapter, needs_codex_follower, undelivered_to};
pub(crate) use up::{UpArguments, UpNews, UpState, bring_up};
pub(crate) use wait::{
    Awaited, WaitNews, holders, misses_nothing, wait, wait_across_daemons, wait_for_channel,
    wait_for_task, wait_of_launch,
};

use std::ffi::OsString;

use crate::env;

/// How a daemon gets the present configuration.
pub(crate) const APPLY_CONFIG: &str = "`tmux-task daemon stop`, and the next command starts a daemon with \
                                       these settings; the tasks go on";

pub(crate) fn lookup(name: &str) -> Option<OsString> {
    env::var(name)
}
