//! All of a pane's output that tmux has, at one instant.

use super::banner::{BANNER, drop_banner, drop_joined_banner};
use super::client::{Client, Connection, continue_command, pause_command};
use super::error::TmuxError;
use super::tabs;
use crate::model::PaneId;
use crate::protocol::{Command, Frame};
use crate::terminal::PaneOutput;

/// The format for a pane's dimensions and state, and for the banner of a dead pane.
fn shape_format() -> String {
    format!(
        "#{{history_size}} #{{history_limit}} #{{pane_width}} #{{pane_height}} #{{cursor_x}} \
         #{{cursor_y}} #{{alternate_on}} #{{pane_dead}} p#{{pane_pid}} {BANNER}"
    )
}

/// How much of the history to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    /// All of it.
    Whole,
    /// Its last row only.
    LastRow,
    /// This many of its last rows.
    LastRows(usize),
}

impl History {
    /// Returns the row that a capture begins with, as tmux counts.
    fn first_row(self) -> String {
        match self {
            Self::Whole => "-".to_owned(),
            Self::LastRow => "-1".to_owned(),
            Self::LastRows(rows) => format!("-{rows}"),
        }
    }
}

/// What happens to output that tmux has not sent yet when the pane is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnsentOutput {
    /// It arrives before the answer.
    Kept,
    /// tmux discards it, so that a pane that prints faster than its output is read does not delay
    /// its own answer. After the end of a run nothing more arrives, and discarding makes the pane
    /// safe to respawn (tmux up to 3.7c).
    Dropped,
}

/// Reads the screen and the history of the pane.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn read_output(
    connection: &mut Connection<'_>,
    pane: PaneId,
    history: History,
) -> Result<PaneOutput, TmuxError> {
    let frames = connection.run(&reading(pane, history)).await?;
    read_frames(&frames)
}

/// The same with the client that follows the pane's output: it receives all output from that
/// instant on, even if the pane was paused for it. The answer separates output from before the
/// reading from output after it.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn follow_output(
    client: &mut Client,
    pane: PaneId,
    history: History,
    pending: UnsentOutput,
) -> Result<PaneOutput, TmuxError> {
    // A line runs without interruption: the pane prints nothing between these two.
    let pause = match pending {
        UnsentOutput::Kept => None,
        UnsentOutput::Dropped => Some(pause_command(pane)),
    };
    let n_before = pause.iter().len();
    let mut commands: Vec<Command> = pause.into_iter().collect();
    commands.extend(reading(pane, history));
    commands.push(continue_command(pane));
    let frames = Connection::Attached(client).run(&commands).await?;
    read_frames(frames.get(n_before..).unwrap_or_default())
}

fn reading(pane: PaneId, history: History) -> [Command; 2] {
    let id = pane.to_string();
    let start = history.first_row();
    [
        Command::new("capture-pane").args(["-p", "-t", &id, "-S", &start, "-E", "-"]),
        Command::new("display-message").args(["-p", "-t", &id, &shape_format()]),
    ]
}

fn read_frames(frames: &[Frame]) -> Result<PaneOutput, TmuxError> {
    let [rows, shape, ..] = frames else {
        return Err(unreadable());
    };
    read_shape(rows, shape).map(|(output, _)| output)
}

/// Whether a log includes escape sequences for colours and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Sanitised text only.
    Plain,
    /// With escape sequences.
    Raw,
}

/// A pane's output for reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// The history that was read and the screen, with wrapped rows joined, without the blank rows
    /// at the end and without tmux's banner of a dead pane.
    pub lines: Vec<String>,
    /// The end of the output.
    pub end: PaneOutput,
}

/// Reads a pane's output for reading: the screen, and this much of the history.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn read_log(
    connection: &mut Connection<'_>,
    pane: PaneId,
    style: Style,
    history: History,
) -> Result<Log, TmuxError> {
    let id = pane.to_string();
    let start = history.first_row();
    let capture =
        Command::new("capture-pane").args(["-p", "-J", "-t", &id, "-S", &start, "-E", "-"]);
    let commands = [
        match style {
            Style::Plain => capture,
            Style::Raw => capture.arg("-e"),
        },
        Command::new("capture-pane").args(["-p", "-t", &id, "-S", "-1", "-E", "-"]),
        Command::new("display-message").args(["-p", "-t", &id, &shape_format()]),
    ];
    let frames = connection.run(&commands).await?;
    let [joined, rows, shape] = frames.as_slice() else {
        return Err(unreadable());
    };
    let (end, banner) = read_shape(rows, shape)?;
    let mut lines: Vec<String> = joined
        .body
        .iter()
        .map(|line| match style {
            Style::Plain => tabs::row(line, end.width),
            Style::Raw => String::from_utf8_lossy(line).trim_end().to_owned(),
        })
        .collect();
    if end.is_dead {
        drop_banner(&mut lines, &banner);
        drop_joined_banner(&mut lines, &banner);
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if style == Style::Raw {
        reset_at_end(&mut lines);
    }
    Ok(Log { lines, end })
}

/// tmux writes attributes and the character set only where they change, and no end for the last ones:
/// without a reset the reader's terminal would continue in that colour, or draw lines.
fn reset_at_end(lines: &mut [String]) {
    const RESET: &str = "\u{1b}[m";
    const SHIFT_OUT: char = '\u{e}';
    const SHIFT_IN: char = '\u{f}';
    let has_escapes = lines.iter().any(|line| line.contains('\u{1b}'));
    let shifts = [SHIFT_OUT, SHIFT_IN];
    let last_shift = lines
        .iter()
        .rev()
        .find_map(|line| line.chars().rfind(|c| shifts.contains(c)));
    let Some(last) = lines.last_mut() else { return };
    if last_shift == Some(SHIFT_OUT) {
        last.push(SHIFT_IN);
    }
    if has_escapes && !last.ends_with(RESET) {
        last.push_str(RESET);
    }
}

fn read_shape(rows: &Frame, shape: &Frame) -> Result<(PaneOutput, String), TmuxError> {
    let shape = shape.text();
    let mut fields = shape.splitn(10, ' ');
    let numbers: Vec<usize> = fields
        .by_ref()
        .take(8)
        .map_while(|number| number.parse().ok())
        .collect();
    let pid = fields.next().and_then(|pid| pid.strip_prefix('p'));
    let pid = pid.and_then(|pid| pid.parse().ok());
    let banner = fields.next().unwrap_or_default();
    let [history, limit, width, height, x, y, alternate, dead] = numbers[..] else {
        return Err(unreadable());
    };
    let mut rows: Vec<String> = rows.body.iter().map(|row| tabs::row(row, width)).collect();
    if dead != 0 {
        drop_banner(&mut rows, banner);
    }
    let output = PaneOutput {
        rows,
        history,
        limit,
        width,
        height,
        cursor: (x, y),
        is_alternate: alternate != 0,
        is_dead: dead != 0,
        pid,
    };
    Ok((output, banner.to_owned()))
}

fn unreadable() -> TmuxError {
    TmuxError::Confused {
        detail: "a pane's shape cannot be read".to_owned(),
    }
}
