//! How a user's terminal gets to a task's window.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::list::look;
use super::lookup;
use super::session::TaskSession;
use crate::env;
use crate::model::{Error, SessionId};
use crate::tmux::{self, Viewer};

/// The variable in which tmux names its server and a session to programs in its panes and popups.
const TMUX: &str = "TMUX";

/// The variable in which tmux names a pane to its programs. Programs in a popup have none.
const TMUX_PANE: &str = "TMUX_PANE";

/// The command that shows a session to the user.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// tmux, with its arguments.
    pub(crate) command: Command,
    /// Whether it needs the caller's terminal. Else the caller's tmux client switches to the session.
    pub(crate) takes_terminal: bool,
    /// Whether the caller is in a popup of tmux, which covers what the client switches to.
    pub(crate) is_covered: bool,
}

/// The tmux server that the caller's terminal belongs to.
struct Surroundings {
    socket: PathBuf,
    /// The session of the caller's pane, or from which its popup was opened.
    session: Option<SessionId>,
}

/// Returns the command that shows a session, or one of its tasks.
pub(crate) async fn attachment(
    session: &TaskSession,
    task: Option<&str>,
) -> Result<Attachment, Error> {
    let look = look(session).await?;
    if !look.exists {
        return Err(session.missing());
    }
    let target = match task {
        Some(name) => format!("={}:{}", session.name, look.find_task(name)?.window),
        None => format!("={}:", session.name),
    };
    let mut command = Command::new(session.server.program());
    env::pass_on(&mut command);
    command.arg("-S").arg(session.server.socket());
    let surroundings = surroundings();
    match &surroundings {
        None => {
            command.arg("attach-session");
        }
        Some(around) if is_same_file(&around.socket, session.server.socket()) => {
            command.arg("switch-client");
            // tmux itself might choose a control client, such as the daemon's.
            let viewers = tmux::list_viewers(&mut session.connection()).await?;
            if let Some(viewer) = user_of(&viewers, around.session) {
                command.args(["-c", &viewer.name]);
            }
        }
        Some(around) => {
            let other = around.socket.display();
            let hint = "`env -u TMUX tmux-task attach` attaches inside it";
            return Err(Error::failed(format!(
                "this terminal is a pane of another tmux server, {other}"
            ))
            .with_hint(hint));
        }
    }
    command.args(["-t", &target]);
    Ok(Attachment {
        command,
        takes_terminal: surroundings.is_none(),
        is_covered: surroundings.is_some() && lookup(TMUX_PANE).is_none_or(|pane| pane.is_empty()),
    })
}

/// Returns the terminal that was used last, of those that show this session if there are any.
fn user_of(viewers: &[Viewer], session: Option<SessionId>) -> Option<&Viewer> {
    viewers
        .iter()
        .max_by_key(|viewer| (Some(viewer.session) == session, viewer.last_used))
}

/// Returns what tmux says of the caller's terminal; `None` outside tmux.
fn surroundings() -> Option<Surroundings> {
    let value = lookup(TMUX)?.into_string().ok()?;
    // The path may have commas.
    let mut fields = value.rsplitn(3, ',');
    let session = fields.next().and_then(|number| number.parse().ok());
    let socket = fields.nth(1).filter(|socket| !socket.is_empty())?;
    Some(Surroundings {
        socket: socket.into(),
        session: session.map(SessionId),
    })
}

/// Returns the pane that this command runs in, where it is of the session's server.
pub(crate) fn own_pane(session: &TaskSession) -> Option<String> {
    let around = surroundings()?;
    let is_here = is_same_file(&around.socket, session.server.socket());
    lookup(TMUX_PANE)?.into_string().ok().filter(|_| is_here)
}

pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WindowId;

    #[test]
    fn the_terminal_in_the_callers_session_switches_else_the_one_used_last() {
        let viewer = |name: &str, session: u32, last_used: i64| Viewer {
            name: name.to_owned(),
            session: SessionId(session),
            window: WindowId(1),
            last_used,
            is_focused: true,
            tty: name.to_owned(),
            terminal: String::new(),
            is_utf8: true,
            wants_notices: false,
        };
        let viewers = [viewer("a", 1, 50), viewer("b", 2, 70), viewer("c", 1, 60)];
        let names = [Some(1), Some(2), Some(3), None].map(|session| {
            let found = user_of(&viewers, session.map(SessionId));
            found.unwrap().name.as_str()
        });
        assert_eq!(names, ["c", "b", "b", "b"]);
        assert_eq!(user_of(&[], None), None);
    }
}
