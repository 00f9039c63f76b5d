//! The look: everything of a session, in as few and as short lines of commands as it takes.
//!
//! Not everything is asked each time. Of windows that may have changed all rows are asked and screens
//! are captured; of the others a sign shows that they have not, and what is remembered still holds.
//! A window is shown by one line, so as it was at one instant.

use std::time::Instant;

use super::client::Connection;
use super::error::TmuxError;
use super::look_inquiry::{Inquiry, Limit, LookKind};
use super::look_memory::LookMemory;
use super::rows::{Formats, own_options_commands};
use super::window_options::check_command;
use crate::model::SessionId;
use crate::protocol::rows::LookRows;
use crate::protocol::{Command, Frame};

/// The session to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// This session, also after a rename.
    Id(SessionId),
    /// A session that [`super::install`] has prepared for this very process: tmux has stored the
    /// formats there.
    Own(SessionId),
    /// The session with exactly this name.
    Name(String),
}

impl Target {
    /// Returns the target for commands that need a pane or a window.
    pub(super) fn pane(&self) -> String {
        match self {
            Self::Id(id) | Self::Own(id) => format!("{id}:"),
            Self::Name(name) => format!("={name}:"),
        }
    }

    fn formats(&self) -> Formats {
        match self {
            Self::Own(_) => Formats::noted(),
            Self::Id(_) | Self::Name(_) => Formats::whole(),
        }
    }
}

/// Looks at the session; `None` when there is no such session, or no server.
///
/// # Errors
///
/// [`TmuxError::Confused`] when the answer does not fit the question: the caller connects again.
/// Whatever else keeps an answer from coming.
pub(crate) async fn look(
    connection: &mut Connection<'_>,
    target: &Target,
    memory: &mut LookMemory,
    kind: LookKind,
) -> Result<Option<LookRows>, TmuxError> {
    let limit = match connection {
        Connection::Attached(_) => Limit::Short,
        Connection::OneShot(_) | Connection::Unseen(_) => Limit::None,
    };
    let mut inquiry = memory.inquire(kind, limit);
    let inherited = match ask(connection, target, memory, &mut inquiry).await {
        Err(error) if error.is_missing() => return Ok(None),
        answer => answer?,
    };
    take_own_options(connection, memory, &mut inquiry, inherited).await?;
    let mut look = memory
        .finish_look(inquiry)
        .ok_or_else(|| TmuxError::confused("no session"))?;
    if inherited {
        // A hook cannot tell what it finds.
        for death in &mut look.deaths {
            (death.run, death.owner) = (None, None);
        }
    }
    Ok(Some(look))
}

/// Asks everything. Returns whether all windows inherit options.
async fn ask(
    connection: &mut Connection<'_>,
    target: &Target,
    memory: &LookMemory,
    inquiry: &mut Inquiry,
) -> Result<bool, TmuxError> {
    let (session, formats) = (target.pane(), target.formats());
    let mut is_inherited = false;
    // tmux serves others between two lines: the next one is sent when the answer has come.
    while let Some(line) = memory.next_line(inquiry) {
        let commands = line.commands(&session, formats);
        // Their options are read in the same line as what all windows inherit.
        let check = line.in_full().next().map(|_| check_command());
        let words = commands.iter().map(|(_, command)| command.clone());
        let words: Vec<Command> = check.clone().into_iter().chain(words).collect();
        let asked_at = Instant::now();
        let mut frames = connection.frames(&words).await?;
        tracing::debug!(
            index = line.index,
            windows = line.windows.len(),
            took = ?asked_at.elapsed(),
            "line"
        );
        if let Some(check) = check {
            if frames.is_empty() {
                return Err(TmuxError::confused("no frame"));
            }
            let frame = frames.remove(0);
            if !frame.ok {
                return Err(TmuxError::from_reply(check.name(), &frame.text()));
            }
            is_inherited |= !frame.text().trim().is_empty();
        }
        inquiry.take(&line, &commands, frames)?;
    }
    Ok(is_inherited)
}

/// Queries the own options of the windows that may inherit some. Each takes another line, but only where a
/// format has found options that no launcher of ours has set.
async fn take_own_options(
    connection: &mut Connection<'_>,
    memory: &LookMemory,
    inquiry: &mut Inquiry,
    inherited: bool,
) -> Result<(), TmuxError> {
    for (window, found) in inquiry.with_inherited(inherited, |window| memory.row(window)) {
        let commands: Vec<Command> = own_options_commands(window).collect();
        match connection.run(&commands).await {
            Ok(frames) => {
                let printed: Vec<String> = frames.iter().map(Frame::text).collect();
                found.take_own_options(&printed);
            }
            // The window has gone meanwhile.
            Err(TmuxError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
