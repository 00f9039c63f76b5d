//! The edge to tmux: finding the server, control mode, and every command line that is sent to tmux.

mod banner;
mod capture;
mod client;
mod commands;
mod control_client;
mod error;
mod gate;
mod hook_check;
mod hook_wakeups;
mod hooks;
mod idle;
mod inherited;
mod keys;
mod launch;
mod launch_lines;
mod launch_plan;
mod look;
mod look_lines;
mod look_memory;
mod nonce;
mod one_shot;
mod output;
mod ownership;
mod probe;
mod quoted;
mod respawn;
mod rows;
mod script;
mod server;
mod shown;
mod tabs;
mod task_environment;
#[cfg(test)]
mod tests;
mod version;

pub use client::{Client, Connection, ReceivedItem};
pub use commands::{
    ClientRow, ListedSession, NOTICE_OPTION, existing_panes, kill_session, kill_window,
    list_clients, list_sessions, set_session_option, show_notice, signal_channel, wait_for,
    where_is,
};
pub use control_client::Output;
pub use error::TmuxError;
pub use gate::Gate;
pub use hook_check::{HookFault, check_hooks, server_version};
pub use hook_wakeups::{Callers, HookWakeups};
pub use hooks::{
    forget_deaths, install, nudge, own_clients, prepare_windows, uninstall, write_runs,
};
pub use idle::{Unless, end_idle_session, prune_windows};
pub use keys::{KeyInput, TypingResult, is_key, tty_of, type_into, type_secret};
pub use launch::{Launch, PreparedLaunch, find_launched, launch, launch_in, launch_prepared};
pub use launch_plan::{LaunchError, LaunchPlan, NewRun, PreviousRun, check_name};
pub use look::{SessionIndex, Target, list_index, look};
pub use look_memory::{Extent, Memory};
pub use output::{History, Log, Style, UnsentOutput, follow_output, read_log, read_output};
pub use ownership::{Mark, MarkedSession, claim, list_marks};
pub use probe::Probe;
pub use script::CommandWords;
pub use server::{Server, ServerChoice};
pub use shown::{PromptPlace, ShownPrompt};
pub use task_environment::{TaskEnvironment, take_beyond_shells};
pub use version::Version;
