//! The order to end a run's processes, and what is left of them.

use super::{StopPlan, Task, WindowId};

/// A run whose processes are to be ended.
#[derive(Debug, Clone)]
pub struct EndOrder {
    /// Its window.
    pub window: WindowId,
    /// The process that tmux started in its pane.
    pub leader: u32,
    /// Whether that process has ended, so that its number may be another's.
    pub is_over: bool,
    /// How they are ended.
    pub plan: StopPlan,
    /// Whether the signal was sent before.
    pub is_asked: bool,
}

impl EndOrder {
    /// Returns the order for a task's run; `None` if tmux has forgotten its process.
    pub fn of(task: &Task, plan: StopPlan, is_asked: bool) -> Option<Self> {
        Some(Self {
            window: task.window,
            leader: task.pid?,
            is_over: !task.is_alive(),
            plan,
            is_asked,
        })
    }
}

/// What became of a run that was to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReport {
    /// These processes have not ended after a second.
    Waiting(WindowId, Vec<LeftProcess>),
    /// It has ended, or what is left of it cannot be ended.
    Ended(WindowId, Vec<LeftProcess>),
}

/// A process that is left of a run that was to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftProcess {
    /// Its process id.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// Whether it may not be signalled: it is another user's.
    pub is_anothers: bool,
}

impl LeftProcess {
    /// Returns it in words: `postgres (pid 71)`.
    pub fn words(&self) -> String {
        let name = &self.name;
        let pid = self.pid;
        if self.is_anothers {
            format!("{name} (pid {pid}, another user's)")
        } else {
            format!("{name} (pid {pid})")
        }
    }

    /// Returns in words that these still run: `postgres (pid 71) still runs`.
    pub fn still_run(left: &[Self]) -> String {
        let names: Vec<String> = left.iter().map(Self::words).collect();
        let s = if left.len() == 1 { "s" } else { "" };
        format!("{} still run{s}", names.join(", "))
    }
}
