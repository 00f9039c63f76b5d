//! All that tmux has of a pane's output, at one instant.

use super::client::Connection;
use super::error::TmuxError;
use crate::model::{PaneId, text};
use crate::protocol::Command;

/// The rows of a pane's history and screen, and where things stand in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneOutput {
    /// History, as far as it was asked for, and screen, one string a row, as wrapped there; blank
    /// rows at the end stay.
    pub rows: Vec<String>,
    /// How many rows of history there are.
    pub history: usize,
    /// How many rows of history the pane keeps.
    pub limit: usize,
    /// The pane's width in columns.
    pub width: usize,
    /// The pane's height in rows.
    pub height: usize,
    /// The cursor's column and row on the screen, from 0.
    pub cursor: (usize, usize),
    /// Whether a full-screen program has the alternate screen.
    pub is_alternate: bool,
}

impl PaneOutput {
    /// Returns the rows of the screen.
    #[must_use]
    pub fn screen(&self) -> &[String] {
        &self.rows[self.rows.len().saturating_sub(self.height)..]
    }

    /// Returns the row that the cursor is on, counted from the top of the history.
    #[must_use]
    pub fn cursor_row(&self) -> usize {
        self.history + self.cursor.1
    }

    /// Returns the number of the first of [`PaneOutput::rows`], counted from the top of the history.
    #[must_use]
    pub fn first_row(&self) -> usize {
        (self.history + self.height).saturating_sub(self.rows.len())
    }
}

/// How much of the history to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// All of it.
    Whole,
    /// Its last row only.
    LastRow,
}

/// Reads the screen and the history of the pane. Its output is told again from that very instant on,
/// when it was hushed before; the answer stands between what the client is told before and after.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub async fn read_output(
    connection: &mut Connection<'_>,
    pane: PaneId,
    history: History,
) -> Result<PaneOutput, TmuxError> {
    let id = pane.to_string();
    let shape = "#{history_size} #{history_limit} #{pane_width} #{pane_height} #{cursor_x} \
                 #{cursor_y} #{alternate_on}";
    let start = match history {
        History::Whole => "-",
        History::LastRow => "-1",
    };
    let mut commands = vec![
        Command::new("capture-pane").args(["-p", "-t", &id, "-S", start, "-E", "-"]),
        Command::new("display-message").args(["-p", "-t", &id, shape]),
    ];
    match connection {
        Connection::Attached(_) => commands
            .push(Command::new("refresh-client").args(["-A".to_owned(), format!("{id}:continue")])),
        Connection::OneShot(_) => {}
    }
    let frames = connection.run(&commands).await?;
    let confused = || TmuxError::Confused {
        detail: "a pane's shape cannot be read".to_owned(),
    };
    let [rows, shape, ..] = frames.as_slice() else {
        return Err(confused());
    };
    let shape = shape.text();
    let numbers: Vec<usize> = shape
        .split(' ')
        .map_while(|number| number.parse().ok())
        .collect();
    let [history, limit, width, height, x, y, alternate] = numbers[..] else {
        return Err(confused());
    };
    Ok(PaneOutput {
        rows: rows.body.iter().map(|row| text::row(row)).collect(),
        history,
        limit,
        width,
        height,
        cursor: (x, y),
        is_alternate: alternate != 0,
    })
}
