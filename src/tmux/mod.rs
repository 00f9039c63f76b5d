//! The edge to tmux: finding the server, control mode, and every command line that is sent to tmux.

mod banner;
mod capture;
mod client;
mod client_processes;
mod commands;
mod control_client;
mod error;
mod hook_wakeups;
mod hooks;
mod keys;
mod launch;
mod launch_lines;
mod look;
mod look_lines;
mod look_memory;
mod one_shot;
mod output;
mod pane_origin;
mod quoted;
mod rows;
mod server;
mod task_exec;
#[cfg(test)]
mod tests;
mod viewers;
mod window_options;

pub(crate) use client::{Client, Connection, ReceivedItem};
pub(crate) use client_processes::{
    NO_OUTPUT, REPORTED_OUTPUT, end_clients_left_behind, has_clients, new_channel,
};
pub(crate) use commands::{
    ListedSession, ListedTask, Mark, Unless, claim, end_idle_session, existing_panes,
    existing_windows, kill_session, kill_window, list_marks, list_sessions, list_tasks,
    prune_windows, ringing_windows, set_session_option,
};
pub(crate) use control_client::traffic;
pub(crate) use error::TmuxError;
pub(crate) use hook_wakeups::{HookWakeups, ReportedWindow, ReportedWindows};
pub(crate) use hooks::{
    WindowSetting, check_hooks, forget_deaths, install, server_version, set_window_options,
    uninstall,
};
pub(crate) use keys::{PaneView, PromptPlace, TypingResult, is_key, type_into};
pub(crate) use launch::{launch, prepare, program, program_of_panes, unique_token};
pub(crate) use launch_lines::{
    LaunchAnswer, NewRun, Slots, check_name, contended, find_launched, two_windows,
};
pub(crate) use look::look;
pub(crate) use look_memory::{LookKind, LookMemory};
pub(crate) use output::{
    FirstLines, ask_output, follow_output, read_asked, read_end, read_first_lines, read_output,
};
pub(crate) use pane_origin::EXEC_PANE;
pub(crate) use server::{Probe, Server, ServerChoice, nudge};
pub(crate) use task_exec::{environment_of, exec_task, forget_environments, kept_environment};
pub(crate) use viewers::{NOTICE_OPTION, Viewer, list_viewers, show_notice, show_window};
pub(crate) use window_options::{mark_endings, read_spec};
