//! Respawning a pane without harm to the server.
//!
//! A respawn gives the pane an empty buffer, but up to tmux 3.7c the offsets of control clients keep
//! pointing into the old one. A client that has not consumed all of the old output makes the server
//! crash at the next byte, also when the old run ended long ago. Pausing a pane for a client takes
//! the client's offset out of account and continuing sets it to where the pane is. Done in one line
//! with the respawn, that leaves no moment in which an old offset counts.

use crate::model::PaneId;
use crate::protocol::{Command, Frame};

use super::client::{continue_command, pause_command};

/// Lists the control clients of the server, for [`pause_for`] and [`continue_for`].
pub(super) fn list_control_clients() -> Command {
    Command::new("list-clients").args(["-F", "#{client_control_mode} #{client_name}"])
}

/// Reads the names of the control clients from the answer.
pub(super) fn read_control_clients(frame: &Frame) -> Vec<String> {
    frame
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("1 "))
        .map(str::to_owned)
        .collect()
}

/// Pauses the pane for these clients: to be run before the respawn, in one line with it. A client
/// that has gone by then fails the line.
pub(super) fn pause_for(clients: &[String], pane: PaneId) -> impl Iterator<Item = Command> {
    clients
        .iter()
        .map(move |client| pause_command(pane).args(["-t", client]))
}

/// Continues the pane for these clients: to be run after the respawn, in one line with it.
pub(super) fn continue_for(clients: &[String], pane: PaneId) -> impl Iterator<Item = Command> {
    clients
        .iter()
        .map(move |client| continue_command(pane).args(["-t", client]))
}
