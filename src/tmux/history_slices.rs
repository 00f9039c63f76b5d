//! Reads a long history in slices: a line of commands each, between which tmux serves other clients.
//!
//! tmux counts rows from the top of the screen, so their numbers change while a pane prints. Counted
//! from the oldest row of the history they stay the same, until tmux removes the oldest tenth of a
//! full history. So a pane may print meanwhile as long as its history is smaller than tmux leaves a
//! full one. Other panes have to be quiet: the program has ended, or nothing was printed from the
//! second on in which the end of the output was read until the last slice was. tmux notes the second
//! of the last output. That nobody has resized the window, cleared the history or started another
//! program is seen by the pane's state; except that a history which was cleared and has grown beyond
//! its former size between two lines looks like one that has grown.

use super::banner::BANNER;
use super::client::Connection;
use super::error::TmuxError;
use crate::model::PaneId;
use crate::protocol::{Command, Frame};
use crate::terminal::PaneOutput;

/// How many lines in a row may get nothing because the pane printed too much before them.
const MAX_MISSES: usize = 5;

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

/// Reads the rows of the history from this one on, counted from the oldest one, up to those that
/// `end` has. These are the last rows of the history, one slice, and the screen, and were read at
/// this second. `None` when the rows cannot be known any more: see the module.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(super) async fn read_older(
    connection: &mut Connection<'_>,
    pane: PaneId,
    end: &PaneOutput,
    read_at: i64,
    from: usize,
    capture: Capture,
) -> Result<Option<Vec<Slice>>, TmuxError> {
    let id = pane.to_string();
    let activity = Command::new("display-message").args(["-p", "-t", &id, "#{window_activity}"]);
    let mut slices = Vec::new();
    // The size of the history as last seen, by which rows are asked for.
    let mut history = end.history;
    let mut missing = end.history.saturating_sub(capture.slice);
    let mut n_misses = 0;
    while missing > from && n_misses < MAX_MISSES {
        let oldest = missing.saturating_sub(capture.slice).max(from);
        let (first, last) = (history - oldest, history - missing + 1);
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
        let is_known = now.is_dead || is_before(activity, read_at) || now.has_first_row();
        if !is_known || !has_only_printed(end, &now) || now.history < history {
            return Ok(None);
        }
        // What was asked for has moved up by what was printed since: the answer lacks as many of the
        // oldest rows, and has rows that are read already.
        let n_printed = now.history - history;
        history = now.history;
        let n_read = (missing - oldest).saturating_sub(n_printed);
        if n_read == 0 || (capture.is_joined && n_printed > 0) {
            // Of joined rows it is not known which line has which rows.
            n_misses += 1;
            continue;
        }
        n_misses = 0;
        let mut rows = rows.body.clone();
        if !capture.is_joined {
            rows.truncate(n_read);
        }
        slices.push(Slice {
            rows,
            is_continued: border.iter().any(|border| border.body.len() == 1),
        });
        missing -= n_read;
    }
    slices.reverse();
    Ok((missing <= from).then_some(slices))
}

/// Whether a pane is the same as before but for what it has printed.
fn has_only_printed(before: &PaneOutput, now: &PaneOutput) -> bool {
    let kind = |pane: &PaneOutput| {
        let size = (pane.width, pane.height);
        (size, pane.pid, pane.is_alternate, pane.is_dead)
    };
    kind(before) == kind(now)
}

/// Whether the printed time, in seconds, is before this one.
fn is_before(printed: &Frame, time: i64) -> bool {
    let printed = printed.text().trim().parse::<i64>();
    printed.is_ok_and(|printed| printed < time)
}

/// Prints a pane's dimensions and state.
pub(super) fn shape_command(pane: PaneId) -> Command {
    Command::new("display-message").args(["-p", "-t", &pane.to_string(), &shape_format()])
}

/// The format for a pane's dimensions and state, and for the banner of a dead pane.
fn shape_format() -> String {
    format!(
        "#{{history_size}} #{{history_limit}} #{{pane_width}} #{{pane_height}} #{{cursor_x}} \
         #{{cursor_y}} #{{alternate_on}} #{{pane_dead}} p#{{pane_pid}} {BANNER}"
    )
}

/// Reads what [`shape_command`] has printed: everything but the rows, and the banner of a dead pane.
pub(super) fn read_state(shape: &Frame) -> Result<(PaneOutput, String), TmuxError> {
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
    let output = PaneOutput {
        rows: Vec::new(),
        lines: Vec::new(),
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

pub(super) fn unreadable() -> TmuxError {
    TmuxError::Confused {
        detail: "a pane's shape cannot be read".to_owned(),
    }
}
