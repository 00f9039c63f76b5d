//! Respawning a pane without crashing the server.
//!
//! A respawn gives the pane an empty buffer, but up to tmux 3.7c the offsets of control clients
//! still point into the old one. A client that has not consumed all of the old output makes the
//! server crash at the next byte, even if the old run ended long ago. Pausing a pane for a client
//! disables the client's offset, and continuing resets it to the present position. In one line with
//! the respawn, no old offset is ever used. From 3.8 on tmux resets the offsets itself, and no client is
//! paused.

use std::sync::LazyLock;

use crate::model::PaneId;
use crate::rules::protocol::{Command, Frame, literal_argument};

use super::version::IS_BEFORE_3_8;

/// A format for the names of all clients that are attached to any session, as one word, before 3.8. A
/// client of another session may get a pane's output as well: sessions can be grouped, and windows linked.
pub(super) static ATTACHED_CLIENTS: LazyLock<String> = LazyLock::new(|| {
    let listed = "#{S:#{?session_attached_list,#{session_attached_list}+,}}";
    format!("{NONE}#{{?{IS_BEFORE_3_8},{listed},}}")
});

/// What that is without any.
const NONE: &str = "+";

/// Returns a format that is true as long as the same clients are attached as when tmux expanded
/// [`ATTACHED_CLIENTS`] to this. A client that has come since is not among those that a line pauses
/// the pane for.
pub(super) fn are_attached(clients: &str) -> String {
    let listed = &*ATTACHED_CLIENTS;
    format!("#{{==:{listed},{}}}", literal_argument(clients))
}

/// Lists the control clients of the server, for [`read_control_clients`].
pub(super) fn list_control_clients() -> Command {
    Command::new("list-clients").args(["-F", "#{client_control_mode} #{client_name}"])
}

/// Parses the names of the control clients for which a pane has to be paused. `attached` is what tmux
/// has expanded [`ATTACHED_CLIENTS`] to: only a client that is attached gets output.
pub(super) fn read_control_clients(frame: &Frame, attached: &str) -> Vec<String> {
    if attached == NONE {
        return Vec::new();
    }
    let text = frame.text();
    let names = text.lines().filter_map(|line| line.strip_prefix("1 "));
    names.map(str::to_owned).collect()
}

/// Returns a command on the pane for each of these clients. It is paused for them before the respawn, and
/// continued behind that, in the same line. The line fails if a client is gone by then.
pub(super) fn for_clients(
    command: fn(PaneId) -> Command,
    clients: &[String],
    pane: PaneId,
) -> impl Iterator<Item = Command> {
    let clients = clients.iter();
    clients.map(move |client| command(pane).args(["-t", client]))
}
