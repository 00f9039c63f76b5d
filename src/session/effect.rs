//! The effects of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::beginning::Beginning;
use super::input::HeldCommand;
use super::listeners::RequestId;
use super::log_entry::LogEntry;
use super::pending_restarts::{DueRestart, EnvironmentCleanup};
use super::typing::Typing;
use crate::model::{
    Bookmark, Checkpoint, EndOrder, GoneReason, Launch, OpenQuestion, PaneId, Record, Seq,
    SessionLife, Snapshot, StatusCounts, Task, WindowId,
};
use crate::terminal::Pattern;
use crate::wire::{LogRequest, Response, TaskBoard};

/// An action to carry out, in order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Run this job on the link. Its outcome is an input; until then there is no other job.
    Run(Job),
    /// Follow the output of exactly these panes from here on. Others that send output are paused.
    Follow(BTreeSet<PaneId>),
    /// End the processes of this run. The result is an input. A later order with a shorter
    /// grace time shortens that.
    EndRun(EndOrder),
    /// What the tasks ask now, reported or not: the terminals of those that were reported are examined
    /// more often, and output beside a question does not keep a terminal from being examined.
    Questions(BTreeMap<WindowId, OpenQuestion>),
    /// Make tmux collect children that have ended.
    Nudge(SessionLife),
    /// Write these records, all of them or none, with the session's name and the checkpoint of the
    /// look.
    Append {
        records: Vec<Record>,
        /// The session's name.
        session_name: String,
        /// The checkpoint; `None` before the first look.
        checkpoint: Option<Checkpoint>,
    },
    /// Publish the counts, which have changed.
    Status(StatusCounts),
    /// Publish the tasks of the last look to their subscribers.
    Tasks(TaskBoard),
    /// Find out how long this run usually takes. If that is known, it is an input.
    FindUsualDuration(Arc<Task>),
    /// Save the last look, which includes all records so far, and the sequence number of the first
    /// event that is not delivered yet.
    Save(Box<Snapshot>, Bookmark, Option<Seq>),
    /// Send the final answer to a request.
    Answer(RequestId, Response),
    /// Report to the client that a wait has begun.
    Begun(RequestId),
    /// Answer a launch. Its command is held back.
    Launched(RequestId, Response, HeldCommand),
    /// Report to the client that a task's output follows.
    Following(RequestId),
    /// Send a piece of a task's output.
    Output(RequestId, String),
    /// Report that the run has ended and its output is complete.
    OutputEnd(RequestId),
    /// End a stream of output before the end of the run: some of it is missing.
    OutputCut(RequestId),
    /// Write this to the daemon's log.
    Log(LogEntry),
    /// Stop.
    Leave,
}

/// A job of the link to tmux. One job runs at a time.
#[derive(Debug)]
pub(crate) enum Job {
    /// Look at windows.
    Look(LookOrder),
    /// Look at the next slice of all windows.
    Sweep,
    /// Read a pane and follow it: output after the reading is reported.
    Read {
        pane: PaneId,
        /// How much of its history to read.
        rows: RowsToRead,
        /// Whether its run has ended, so that no more output arrives.
        is_over: bool,
        /// The ended run whose last output is wanted. tmux may not have read all of it yet; the job
        /// waits for a short time.
        last_of: Option<Arc<Task>>,
        /// What begins with it.
        begins: Beginning,
    },
    /// Read the screen of a pane and at least this many of its last lines, without following it.
    ReadEnd(PaneId, usize),
    /// Read the output of a task's present run.
    ReadLog(Arc<Task>, LogRequest),
    /// Read how a task was last launched.
    ReadRecord(Arc<Task>),
    /// Find out on which ports these runs listen.
    FindPorts(Vec<PortQuery>),
    /// Search the output of a task's present run.
    Search(Arc<Task>, Arc<Pattern>),
    /// Wait until all output of followed panes has arrived.
    Drain,
    /// Start a task, or run it again in its slot, for which the runs with these processes were ended.
    Launch(Box<Launch>, Vec<u32>),
    /// Run a task again in its window, unless the window has changed.
    Restart(Arc<DueRestart>),
    /// Forget the kept environments of launches that are gone.
    ForgetEnvironments(EnvironmentCleanup),
    /// Type the next part into a task. If the request names a prompt, only while the task shows it.
    Type(Typing),
    /// Note on the windows of these tasks that their runs are about to be ended.
    MarkEndings(Vec<(Arc<Task>, GoneReason)>),
    /// Remove that note: the runs could not be ended.
    UnmarkEndings(Vec<WindowId>),
    /// Close these windows.
    Kill(Vec<WindowId>),
    /// Find out which of these windows belong to another session as well.
    FindShared(Vec<WindowId>),
    /// End the session, and find out which of these windows live on in another one.
    KillSession(Vec<WindowId>),
    /// Remove these windows if their panes are still dead.
    Prune(Vec<(WindowId, PaneId)>),
    /// End the session when no task in it is active.
    Cleanup,
    /// Find out who has this name.
    FindName(String),
    /// Clear tmux's death record: these deaths are recorded.
    ForgetDeaths(String),
    /// Archive the output of a run, with why it was ended.
    Archive(Arc<Task>, Option<&'static str>),
    /// Look for other sessions of the project. Notices of those that are ended or in use are
    /// inputs.
    ScanOthers,
}

/// The run whose ports are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortQuery {
    pub(super) window: WindowId,
    pub(super) run: Option<u32>,
    /// Its first process.
    pub(crate) leader: u32,
    /// The port that is waited for; `None` for any.
    pub(crate) port: Option<u16>,
}

/// Which rows of a pane to read, besides its screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowsToRead {
    LastRow,
    All,
    /// This many of its last lines; for waits, all of it as well.
    Lines(usize),
}

/// A look at windows: those that were reported as changed, and those that are named. If there are none,
/// there is nothing to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LookOrder {
    /// Windows to query in full, whether anything was reported of them or not.
    pub(crate) windows: BTreeSet<WindowId>,
    /// Whether the look must include everything that tmux had to report before it.
    pub(crate) is_barrier: bool,
    /// Windows that a command of ours has ended.
    pub(crate) killed: BTreeMap<WindowId, GoneReason>,
}

impl LookOrder {
    /// Returns an order for these windows and everything reported.
    pub(crate) fn of(windows: impl IntoIterator<Item = WindowId>) -> Self {
        Self {
            windows: windows.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Whether the look at the windows that it names is its barrier: tmux sends its reports before the
    /// answer. This saves a round trip where nothing was reported; otherwise the look is repeated.
    pub(crate) fn is_own_barrier(&self) -> bool {
        self.is_barrier && !self.windows.is_empty()
    }

    /// Combines two orders into one.
    pub(super) fn join(&mut self, other: Self) {
        let Self {
            windows,
            is_barrier,
            killed,
        } = other;
        self.windows.extend(windows);
        self.is_barrier |= is_barrier;
        self.killed.extend(killed);
    }
}
