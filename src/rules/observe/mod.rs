//! Turns a look and other evidence into a snapshot. Only this module decides which run a task is
//! in, whether it is alive, and how it ended.

mod deaths;
mod observer;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use observer::{Observation, Observer};

use crate::model::programs::{CommandReader, command_reader};
use crate::model::{Exit, GoneReason, Millis, PaneId, RunAway, Task, WindowId};
use crate::rules::protocol::rows::{Death, PaneRow, WindowRow};

/// How long a dead pane may be without code and signal before its exit is reported as unknown. tmux
/// can show a pane as dead before it has collected the status.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(1);

/// How many looks have to show that as well. tmux is nudged after each of them: on a busy machine it may
/// not have run since the last one.
const SETTLE_LOOKS: u32 = 3;

/// A window as of the previous look.
#[derive(Debug, Clone)]
struct KnownWindow {
    /// The task as it was reported then, with the pane and the process of its run, also while another
    /// pane is the window's primary one.
    task: Arc<Task>,
    /// The row that it was derived from; `None` when it was restored and not looked at yet.
    row: Option<Arc<WindowRow>>,
    run: u32,
    /// The name that this number belongs to: the window's, unless its present name had this number
    /// already.
    run_name: String,
    /// Whether the exit of its run was in the death record.
    is_recorded: bool,
    /// The terminal of its pane; `None` when it was restored and not looked at yet.
    terminal: Option<String>,
    /// `@tmux_task_started` at that time. If it has not changed, it belongs to an earlier run.
    started_option: Option<Millis>,
    /// Whether the process has ended without tmux reporting how, or that it did.
    unsettled: Option<UnsettledEnd>,
}

/// An end of which tmux has not reported how, or that it was one.
#[derive(Debug, Clone, Copy)]
struct UnsettledEnd {
    since: Instant,
    looks: u32,
}

impl UnsettledEnd {
    /// A further look at this time shows it.
    fn seen(before: Option<Self>, now: Instant) -> Self {
        let (since, looks) = before.map_or((now, 0), |before| (before.since, before.looks));
        let looks = looks.saturating_add(1);
        Self { since, looks }
    }

    fn is_open(self, now: Instant) -> bool {
        now < self.since + SETTLE_LIMIT || self.looks < SETTLE_LOOKS
    }
}

impl KnownWindow {
    fn was_alive(&self) -> bool {
        self.task.is_alive()
    }

    /// Returns the window's primary pane if its run is in another one.
    fn other_primary_pane(&self) -> Option<&PaneRow> {
        let pane = self.row.as_ref()?.pane.as_ref()?;
        (Some(pane.pane) != self.task.pane).then_some(pane)
    }

    /// Returns where the run is, if that is not the window's primary pane.
    fn away(&self) -> Option<RunAway> {
        self.other_primary_pane()?;
        let pane = self.task.pane?;
        let pid = self.task.pid;
        Some(RunAway { pane, pid })
    }

    /// Returns the task as the window shows it: with its primary pane.
    fn shown(&self) -> Arc<Task> {
        let mut task = Arc::clone(&self.task);
        if let Some(pane) = self.other_primary_pane() {
            let shown = Arc::make_mut(&mut task);
            (shown.pane, shown.pid) = (Some(pane.pane), pane.pid);
        }
        task
    }

    /// Whether nothing has been reported of it since, so that it is unchanged.
    fn is_unchanged(&self, row: &Arc<WindowRow>, record: &[Death], evidence: &Evidence) -> bool {
        let is_touched = |pid| evidence.ended.contains(&pid) || evidence.exits.contains_key(&pid);
        self.row
            .as_ref()
            .is_some_and(|before| Arc::ptr_eq(before, row))
            && self.unsettled.is_none()
            && record
                .iter()
                .all(|death| death.window != row.window && Some(death.pane) != self.task.pane)
            && !self.task.pid.is_some_and(is_touched)
    }
}

/// Returns the recorded command, else the pane's title (first if a shell runs there) or command.
fn command(window: &WindowRow) -> Option<String> {
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
