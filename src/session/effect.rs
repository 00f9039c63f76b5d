//! What a session wants done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::input::AskId;
use crate::model::{
    Bookmark, GoneReason, PaneId, Record, Seq, SessionLife, Snapshot, StatusCounts, Task, WindowId,
};
use crate::wire::{Checkpoint, Explanation, Response, RunRequest, SendRequest};

use super::wait_entry::Entry;

/// What is to be done, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Let the link run this job. Its outcome is an input; until then there is no other job.
    Run(Job),
    /// Follow the output of exactly these panes from here on; others that send output are paused.
    Follow(BTreeSet<PaneId>),
    /// These tasks were reported as waiting, and no others: what the kernel tells of their
    /// terminals is asked for more often.
    Waiting(BTreeSet<WindowId>),
    /// Make tmux ask the kernel how processes ended.
    Nudge(SessionLife),
    /// Write these records, all of them or none. They come with the session's name and where the
    /// look left the daemon.
    Append {
        /// The records.
        records: Vec<Record>,
        /// The session's name.
        session_name: String,
        /// Where the look left the daemon; `None` before the first.
        checkpoint: Option<Checkpoint>,
    },
    /// Tell readers of the feed that the counts have changed.
    Status(StatusCounts),
    /// Save the last look, which shows what all records so far say, and the number of the first event
    /// that is still to be delivered.
    Save(Box<Snapshot>, Bookmark, Option<Seq>),
    /// Answer a request, for good.
    Answer(AskId, Response),
    /// Say that a wait has begun.
    Begun(AskId),
    /// Say that a task's output follows.
    Following(AskId),
    /// Pass a piece of a task's output on.
    Output(AskId, String),
    /// Say that the run has ended, and that this was all of its output.
    OutputEnd(AskId),
    /// End a stream of output without an end of the run: some of it is missing.
    OutputCut(AskId),
    /// Leave, and end the session before if nothing runs in it and that is asked for.
    Leave,
}

/// What the link to tmux does, one job at a time.
#[derive(Debug)]
pub(crate) enum Job {
    /// Look.
    Look(LookOrder),
    /// Read a pane and follow it: what it prints after the reading is reported.
    Read {
        /// The pane.
        pane: PaneId,
        /// How much of its history is wanted.
        history: History,
        /// Whether its run has ended, so that nothing more of it arrives.
        is_over: bool,
        /// The run that has ended and whose last output is wanted: tmux may not have read all of it
        /// yet, which is waited for a short time.
        last_of: Option<Arc<Task>>,
        /// Waits that begin with it. They are judged where the pane is read, for that can take long.
        entries: Vec<Entry>,
    },
    /// Read the screen of a pane, and so many rows above it, without following it.
    ReadEnd(PaneId, usize),
    /// Wait until all output of followed panes has arrived.
    Drain,
    /// Start a task, or run it again in its slot.
    Launch(Box<RunRequest>),
    /// Type into a task, where the request says so only if it still asks what is explained here.
    Type(Arc<Task>, Option<Box<Explanation>>, SendRequest),
    /// End these windows.
    Kill(Vec<WindowId>),
    /// End the session.
    KillSession,
    /// Remove these windows if their panes are still dead.
    Prune(Vec<(WindowId, PaneId)>),
    /// End the session when no task in it is active.
    Cleanup,
    /// Say which session this is.
    Whereabouts,
    /// Cut tmux's record of deaths: these are recorded.
    ForgetDeaths(String),
    /// Keep the output of a run.
    Archive(Arc<Task>),
    /// Look for other sessions of the project that nobody follows any more.
    ScanOthers,
}

/// How much of a pane's history is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum History {
    /// Its last row.
    LastRow,
    /// All of it.
    Whole,
}

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Windows that were reported as changed, and those that are named; nothing if there are none.
    Reported,
    /// The same; where there are none, it makes sure that no window has changed.
    Sure,
    /// All windows: of those that were not reported it makes sure that they have not changed.
    Whole,
}

/// What a look is to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookOrder {
    /// How far it goes.
    pub(crate) scope: Scope,
    /// Windows to look at although nothing is reported of them.
    pub(crate) windows: BTreeSet<WindowId>,
    /// Whether to ask tmux for what it has still to report first.
    pub(crate) is_barrier: bool,
    /// Whether to read also what leaves no sign when it changes, such as options.
    pub(crate) refresh: Refresh,
    /// Windows that a command of ours has ended.
    pub(crate) killed: BTreeMap<WindowId, GoneReason>,
    /// Tasks that were reported as waiting.
    pub(crate) waiting: BTreeSet<WindowId>,
}

/// Whether a look reads what leaves no sign when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refresh {
    /// It does not.
    No,
    /// If that was done long ago.
    IfOld,
    /// It does.
    Yes,
}

impl LookOrder {
    /// Returns an order of this scope.
    #[must_use]
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            windows: BTreeSet::new(),
            is_barrier: false,
            refresh: Refresh::No,
            killed: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Returns an order that looks at these windows, and at what is reported.
    #[must_use]
    pub(crate) fn of(windows: impl IntoIterator<Item = WindowId>) -> Self {
        Self {
            windows: windows.into_iter().collect(),
            ..Self::new(Scope::Reported)
        }
    }

    /// Makes one order of two.
    pub(super) fn join(&mut self, other: Self) {
        let Self {
            scope,
            windows,
            is_barrier,
            refresh,
            killed,
            waiting,
        } = other;
        self.scope = self.scope.max(scope);
        self.windows.extend(windows);
        self.is_barrier |= is_barrier;
        self.refresh = self.refresh.max(refresh);
        self.killed.extend(killed);
        self.waiting.extend(waiting);
    }
}
