//! The dimensions and the state of a pane, without its rows.

use super::banner::BANNER;
use super::error::TmuxError;
use crate::model::PaneId;
use crate::protocol::{Command, Frame};
use crate::terminal::PaneOutput;

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
