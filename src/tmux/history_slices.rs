//! Reads a long history in slices: a line of commands each, between which tmux serves other clients.
//!
//! Rows are counted from the top of the screen, so they move while a pane prints, and tmux removes
//! the oldest ones of a full history. So this is done only while the pane prints nothing: its
//! program has ended, or nothing was printed from the second on in which the end of the output was
//! read until the last slice was. tmux notes the second of the last output. That nobody has resized
//! the window, cleared the history or started another program is seen by the pane's state.

use super::client::Connection;
use super::error::TmuxError;
use super::pane_state::{read_state, shape_command};
use crate::model::PaneId;
use crate::protocol::{Command, Frame};
use crate::terminal::PaneOutput;

/// Consecutive rows of a history, as captured.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) rows: Vec<Vec<u8>>,
    /// Whether the last row is continued by the one behind the slice. Known only of joined rows.
    pub(super) is_continued: bool,
}

/// How the rows are captured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capture {
    /// Options of `capture-pane`.
    pub(super) flags: &'static [&'static str],
    /// Whether wrapped rows are joined.
    pub(super) is_joined: bool,
    /// How many rows one line captures.
    pub(super) slice: usize,
}

impl Capture {
    /// Captures rows, given by the numbers that tmux counts up from the top of the screen.
    fn command(self, pane: PaneId, first: usize, last: usize) -> Command {
        let (first, last) = (format!("-{first}"), format!("-{last}"));
        Command::new("capture-pane")
            .args(self.flags.iter().copied())
            .args(["-p", "-t", &pane.to_string(), "-S", &first, "-E", &last])
    }
}

/// Reads the history above the rows that `end` has, which are one slice and were read at this
/// second; `None` when the pane may have printed or changed since.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(super) async fn read_older(
    connection: &mut Connection<'_>,
    pane: PaneId,
    end: &PaneOutput,
    read_at: i64,
    capture: Capture,
) -> Result<Option<Vec<Slice>>, TmuxError> {
    let state = PaneOutput {
        rows: Vec::new(),
        ..end.clone()
    };
    let id = pane.to_string();
    let activity = Command::new("display-message").args(["-p", "-t", &id, "#{window_activity}"]);
    let mut slices = Vec::new();
    let mut first = state.history;
    while first > capture.slice {
        let last = (first + 1)
            .saturating_sub(capture.slice)
            .max(capture.slice + 1);
        let mut commands = vec![
            shape_command(pane),
            activity.clone(),
            capture.command(pane, first, last),
        ];
        if capture.is_joined {
            // One line if the first of these two rows is continued by the second.
            commands.push(capture.command(pane, last, last - 1));
        }
        let frames = connection.run(&commands).await?;
        let [shape, activity, rows, border @ ..] = &frames[..] else {
            return Ok(None);
        };
        let (now, _) = read_state(shape)?;
        if now != state || !(state.is_dead || is_before(activity, read_at)) {
            return Ok(None);
        }
        slices.push(Slice {
            rows: rows.body.clone(),
            is_continued: border.iter().any(|border| border.body.len() == 1),
        });
        first = last - 1;
    }
    Ok(Some(slices))
}

/// Whether the printed time, in seconds, is before this one.
fn is_before(printed: &Frame, time: i64) -> bool {
    let printed = printed.text().trim().parse::<i64>();
    printed.is_ok_and(|printed| printed < time)
}
