//! What is known of processes, windows and panes besides what tmux shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Exit, GoneReason, Millis, PaneId, WindowId};

/// What is known besides the look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// When processes started, by pid.
    pub started_at: Arc<BTreeMap<u32, Millis>>,
    /// Processes that have ended, whatever tmux says of them yet.
    pub ended: BTreeSet<u32>,
    /// How processes ended, by pid, where the kernel told. An end that tmux itself brought about,
    /// by closing the window, does not belong here: that run disappeared.
    pub exits: BTreeMap<u32, Exit>,
    /// Processes that a hang-up ended: as a rule because tmux closed or respawned their pane.
    pub hung_up: BTreeSet<u32>,
    /// Why windows may have gone.
    pub gone: BTreeMap<WindowId, GoneReason>,
    /// Panes that were their windows' primary ones at the look before, are not any more, and still
    /// exist: somebody joined, broke out or swapped panes.
    pub moved_panes: BTreeSet<PaneId>,
}
