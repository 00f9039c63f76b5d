//! How a user's terminal gets to a task's window.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::OpsError;
use super::lookup;
use super::session::Session;

/// The variable in which tmux names its server to the programs in its panes.
const TMUX: &str = "TMUX";

/// The command that shows a session to the user.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// tmux, with its arguments.
    pub(crate) command: Command,
    /// Whether it needs the caller's terminal, and ends when the user detaches. Otherwise the
    /// caller's tmux client switches to the session.
    pub(crate) takes_terminal: bool,
}

/// Returns the command that shows a session, or one of its tasks.
pub(crate) async fn attachment(
    session: &Session,
    task: Option<&str>,
) -> Result<Attachment, OpsError> {
    let look = session.look().await?;
    if !look.exists {
        return Err(session.missing());
    }
    let target = match task {
        Some(name) => format!("={}:{}", session.name, look.find_task(name)?.window),
        None => format!("={}:", session.name),
    };
    let takes_terminal = match surrounding_server() {
        None => true,
        Some(socket) if is_same_file(&socket, session.server.socket()) => false,
        Some(socket) => return Err(OpsError::OtherServer(socket)),
    };
    let mut command = Command::new(session.server.program());
    command.arg("-S").arg(session.server.socket());
    command.arg(if takes_terminal {
        "attach-session"
    } else {
        "switch-client"
    });
    command.args(["-t", &target]);
    Ok(Attachment {
        command,
        takes_terminal,
    })
}

/// Returns the socket of the tmux server that the caller's terminal is a pane of.
fn surrounding_server() -> Option<PathBuf> {
    let value = lookup(TMUX)?.into_string().ok()?;
    let (socket, _) = value.split_once(',')?;
    (!socket.is_empty()).then(|| socket.into())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
