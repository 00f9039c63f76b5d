//! The look: everything of a session, in as few and as short lines of commands as it takes.
//!
//! Not everything is asked each time. Of windows that may have changed all rows are asked and screens
//! are captured; of the others a sign shows that they have not, and what is remembered still holds.
//! A window is shown by one line, so as it was at one instant.

use std::time::Instant;

use super::client::Connection;
use super::error::TmuxError;
use super::look_lines::ROOM;
use super::look_memory::{Inquiry, LookKind, LookMemory};
use super::rows::Formats;
use crate::rules::protocol::rows::LookRows;

/// Looks at a session, `$3:` or `=NAME:`; `None` when there is no such session, or no server. An attached
/// client belongs to the daemon for which [`super::install`] has prepared the session: tmux has stored the
/// formats there. After [`TmuxError::Confused`], when the answer does not fit the question, the caller
/// connects again.
pub(crate) async fn look(
    connection: &mut Connection<'_>,
    session: &str,
    memory: &mut LookMemory,
    kind: LookKind,
) -> Result<Option<LookRows>, TmuxError> {
    let (room, formats) = match connection {
        Connection::Attached(_) => (ROOM, Formats::noted()),
        Connection::OneShot(_) => {
            // Each line costs a process, and nothing has been reported.
            memory.expect_all();
            (usize::MAX, Formats::whole())
        }
    };
    let mut inquiry = Inquiry::new(memory, kind, room);
    let asked = ask(connection, session, formats, &mut inquiry).await;
    TmuxError::if_there(asked.and_then(|()| inquiry.finish()))
}

/// Asks everything.
async fn ask(
    connection: &mut Connection<'_>,
    session: &str,
    formats: Formats,
    inquiry: &mut Inquiry<'_>,
) -> Result<(), TmuxError> {
    // tmux serves others between two lines: the next one is sent when the answer has come.
    while let Some(line) = inquiry.next_line() {
        let commands = line.commands(session, formats);
        let asked_at = Instant::now();
        let frames = connection.frames(&commands).await?;
        tracing::debug!(
            index = line.index,
            windows = line.windows.len(),
            took = ?asked_at.elapsed(),
            "line"
        );
        match line.read(&commands, frames)? {
            Some(answer) => inquiry.take(&line, answer),
            None => inquiry.ask_again(&line),
        }
    }
    Ok(())
}
