//! The edge to tmux: finding the server, talking to it in control mode, and every command line
//! we ever send it.

mod capture;
mod client;
mod control;
mod error;
mod hooks;
mod launch;
mod look;
mod nonce;
mod one_shot;
mod script;
mod server;
#[cfg(test)]
mod tests;
mod version;
mod waiter;

pub use capture::Captures;
pub use client::{Client, Connection};
pub use control::{
    ClientRow, SessionListed, history, kill_session, kill_windows, list_clients, list_sessions,
    prune_windows, set_session_option, show_notice, where_is, write_runs,
};
pub use error::TmuxError;
pub use hooks::{forget_deaths, install, nudge, prepare_windows, uninstall};
pub use launch::{Launch, LaunchError, Launched, check_name, launch};
pub use look::{Target, look};
pub use script::CommandWords;
pub use server::{Server, ServerChoice};
pub use version::Version;
pub use waiter::Waiter;
