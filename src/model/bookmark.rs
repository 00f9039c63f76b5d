//! How far a daemon has read what tmux keeps for it.

use std::collections::BTreeMap;

use super::{Millis, WindowId};

/// What a snapshot does not show and the next daemon needs all the same, so that it tells nothing
/// twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The number of the last death in tmux's record of deaths that a snapshot accounts for.
    pub deaths_read: Option<u64>,
    /// When each window's task was launched last, as the launcher noted it on the window: an equal
    /// note says nothing of a later run.
    pub launched_at: BTreeMap<WindowId, Millis>,
}
