//! Which command a task is reported to run.

use crate::model::programs::{CommandReader, command_reader};
use crate::protocol::rows::WindowRow;

/// Returns the recorded command, else the pane's title when a shell runs in it, else the pane's
/// command, else the title.
pub(super) fn command(window: &WindowRow) -> Option<String> {
    if window.command.is_some() {
        return window.command.clone();
    }
    let pane = window.pane.as_ref()?;
    let title = (!pane.title.is_empty()).then(|| pane.title.clone());
    let current = pane.current_command.clone();
    let reader = current.as_deref().and_then(command_reader);
    if reader == Some(CommandReader::Shell) {
        title.or(current)
    } else {
        current.or(title)
    }
}
