//! The edge to tmux: finding the server, control mode, and every command line that is sent to tmux.

mod banner;
mod capture;
mod client;
mod client_processes;
mod commands;
mod connected_client;
mod control_client;
mod control_line;
mod end_mark;
mod error;
mod history_slices;
mod hook_check;
mod hook_wakeups;
mod hooks;
mod idle;
mod inherited;
mod keys;
mod launch;
mod launch_lines;
mod launch_rows;
mod look;
mod look_inquiry;
mod look_lines;
mod look_memory;
mod nonce;
mod nudge;
mod one_shot;
mod output;
mod own_clients;
mod ownership;
mod pane_origin;
mod probe;
mod quoted;
mod respawn;
mod rows;
mod server;
mod shown;
mod tabs;
mod task_exec;
#[cfg(test)]
mod tests;
mod version;
mod viewers;
mod window_options;

pub(crate) use client::{Client, Connection, ReceivedItem};
pub(crate) use client_processes::running_clients;
pub(crate) use commands::{
    ListedSession, ListedTask, existing_panes, kill_session, kill_window, list_sessions,
    list_tasks, set_session_option, shared_windows, signal_channel, wait_for, where_is,
};
pub(crate) use control_client::traffic;
pub(crate) use control_line::Output;
pub(crate) use end_mark::{mark_endings, unmark_endings};
pub(crate) use error::TmuxError;
pub(crate) use hook_check::{check_hooks, server_version};
pub(crate) use hook_wakeups::{HookWakeups, ReportedWindow, ReportedWindows};
pub(crate) use hooks::{forget_deaths, install, prepare_windows, uninstall, write_runs};
pub(crate) use idle::{Unless, end_idle_session, prune_windows};
pub(crate) use keys::{TypingResult, TypingTerms, is_key, type_into};
pub(crate) use launch::{
    find_launched, launch, launch_in, prepare, program, program_of_panes, unique_token,
};
pub(crate) use launch_lines::Slots;
pub(crate) use launch_rows::{LaunchAnswer, LiveRun, NewRun, check_name, contended, two_windows};
pub(crate) use look::{SessionIndex, Target, list_index, look};
pub(crate) use look_inquiry::LookKind;
pub(crate) use look_memory::LookMemory;
pub(crate) use nudge::nudge;
pub(crate) use output::{
    Extent, FirstLines, History, MAX_SLICED_READINGS, PaneEnd, Style, ask_output, complete,
    follow_output, read_asked, read_first_lines, read_log, read_log_end, read_output,
};
pub(crate) use own_clients::{end_clients_left_behind, own_clients};
pub(crate) use ownership::{Mark, MarkedSession, claim, list_marks};
pub(crate) use pane_origin::EXEC_PANE;
pub(crate) use probe::Probe;
pub(crate) use server::{Server, ServerChoice};
pub(crate) use shown::{AskingRow, PaneView, PromptPlace};
pub(crate) use task_exec::{
    Gate, complete_launch, environment_of, exec_task, forget_environments, kept_environment,
};
pub(crate) use viewers::{NOTICE_OPTION, Viewer, list_viewers, show_notice, show_window};
pub(crate) use window_options::read_spec;
