//! Evidence on processes, windows and panes besides what tmux shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Exit, GoneReason, Millis, PaneId, WindowId};

/// What is known besides the look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// When processes started, by pid.
    pub started_at: Arc<BTreeMap<u32, Millis>>,
    /// Processes that have ended, even if tmux still shows them alive.
    pub ended: BTreeSet<u32>,
    /// How processes ended, by pid, as the kernel reported it. Runs that tmux ended by closing
    /// their window are not included: they disappeared.
    pub exits: BTreeMap<u32, Exit>,
    /// Processes ended by a hang-up, usually because tmux closed or respawned their pane.
    pub hung_up: BTreeSet<u32>,
    /// Possible reasons why windows are gone.
    pub gone: BTreeMap<WindowId, GoneReason>,
    /// How many bells of windows have been counted, where one has rung since the previous look. A window
    /// that is closed takes its count with it.
    pub bells: BTreeMap<WindowId, u64>,
    /// Panes that were primary at the previous look, are not any more and still exist, because
    /// panes were joined, broken out or swapped.
    pub moved_panes: BTreeSet<PaneId>,
}
