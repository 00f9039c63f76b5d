//! What a pane shows, in its place among the changes that tmux reports.

use crate::session::Change;
use crate::terminal::PaneOutput;

/// A pane's output at one instant.
#[derive(Debug)]
pub(super) struct PaneReading {
    pub(super) output: PaneOutput,
    /// Changes that arrived until then. If the pane's output is incomplete, they include a pause.
    pub(super) before: Vec<Change>,
    /// Changes that have arrived since.
    pub(super) after: Vec<Change>,
}
