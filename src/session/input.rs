//! What goes into a session, inputs, and what comes out, effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::listeners::RequestId;
use super::promise::Resolver;
use super::typing::Typing;
use crate::model::*;
use crate::rules::terminal::{Extent, PaneOutput};
use crate::rules::wire::{Answer, LaunchedRun, LogRequest, RequestLine, TaskBoard, TaskLog};

/// Everything that can make a session do something.
#[derive(Debug)]
pub(crate) enum Input {
    /// A request. Subscriptions to the feed are not included: they do not involve the session.
    Requested(RequestId, RequestLine),
    /// The client of a request has disconnected or reads too slowly: it needs no answer.
    Left(RequestId),
    Changed(Change),
    /// The running job is done, and its outcome is set; or why it failed.
    Done(Result<(), Error>),
    /// How far the feed is on the disk.
    Stored(StoreState),
    /// The last look could not be saved: the disk is too far behind.
    NotSaved,
    /// How long the run of this task usually takes.
    UsualDuration(Arc<Task>, Millis),
    /// What is left of a run that is being ended.
    Ending(EndReport),
    /// Notices to record, with their levels.
    Notices(Vec<(Level, String)>),
    Due,
}

/// A change that tmux or the kernel reports.
#[derive(Debug)]
pub(crate) enum Change {
    /// Windows have changed, the session, or the connection to it: look now.
    Windows,
    /// A pane printed something: look soon.
    Output,
    Printed {
        pane: PaneId,
        bytes: Vec<u8>,
    },
    /// A pane that is not followed sends its output and has to be paused.
    Unfollowed,
    /// tmux has paused a followed pane: its further output does not arrive.
    Paused(PaneId),
    /// A pane was read that is followed already: the outcome of the first such read that is not finished.
    Read(PaneRead),
    /// The client that follows output was lost, and some of the output with it.
    FollowerLost,
    /// Windows were resized.
    Layout,
    /// The kernel's evidence on the terminals of these windows may change the judgement of their prompts.
    Terminals(BTreeSet<WindowId>),
}

/// Holds the command of a run that was started back until it is dropped, whoever drops it.
pub(crate) type HeldCommand = Box<dyn std::fmt::Debug + Send>;

/// What comes of a look.
#[derive(Debug)]
pub(crate) enum LookOutcome {
    Looked(Box<Look>),
    /// Nothing was reported or named, or all windows were looked at and tmux has not run since.
    NotNeeded,
    /// A slice of all windows shows nothing new, and there are further slices.
    NothingNew,
}

/// What a pane contains, or why it could not be read.
pub(crate) type PaneRead = Result<Box<PaneOutput>, Error>;

/// What comes of a launch.
#[derive(Debug)]
pub(crate) enum LaunchOutcome {
    /// A run was started; its command is held back.
    Started(Box<LaunchedRun>, HeldCommand),
    /// Nothing: this window has a live run with this process, to be ended first.
    Live(WindowId, u32),
}

/// Which windows were closed; and why the next one could not be.
pub(crate) type ClosedWindows = (BTreeSet<WindowId>, Option<Error>);

/// One look as a snapshot.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) at: Now,
    pub(crate) snapshot: Snapshot,
    /// Whether all windows were looked at: by this slice and those before it.
    pub(crate) is_whole: bool,
    /// Whether a report that triggers a look has arrived since the one before it.
    pub(crate) has_trigger: bool,
    /// A run has ended and tmux has not reported how: another look is needed soon.
    pub(crate) is_unsettled: bool,
    /// Whether tmux may have missed that a process has ended, and should collect its children.
    pub(crate) needs_nudge: bool,
    /// tmux's death record as it was read, to be cleared once the deaths are recorded; may be empty.
    pub(crate) death_record: String,
    pub(crate) link: LinkState,
}

/// The state of the link to tmux.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkState {
    /// The life of the session; `None` while it is missing.
    pub(crate) life: Option<SessionLife>,
    /// The session's present name; `None` while it is missing.
    pub(crate) session_name: Option<String>,
    /// How much of tmux's data has been processed.
    pub(crate) bookmark: Bookmark,
    /// Whether changes are reported, so that polling is not necessary.
    pub(crate) is_connected: bool,
    /// Whether tmux reports respawns of dead panes, as from 3.8 on, and loses no signal of an end.
    pub(crate) reports_respawns: bool,
    /// The number of the connection: output of an earlier connection may be incomplete.
    pub(crate) connection: u64,
    /// Whether panes are paused for our client, so that only looks show their output.
    pub(crate) is_any_paused: bool,
}

/// How far the feed is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoreState {
    /// The sequence number of the last record that is on the disk.
    pub(crate) written: Seq,
    /// The sequence number of the last record that the disk has accepted or refused.
    pub(crate) tried: Seq,
    /// Whether so much waits for the disk that no look should be taken: a later one finds the changes.
    pub(crate) is_full: bool,
}

/// An action to carry out, in order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Run this job on the link. Its outcome is an input; until then there is no other job.
    Run(Job),
    /// Follow the output of exactly these panes from here on. Others that send output are paused.
    Follow(BTreeSet<PaneId>),
    /// End the processes of this run. The result is an input. A later, shorter grace time counts.
    EndRun(EndOrder),
    /// What the tasks ask now, reported or not: the terminals of those that were reported are examined
    /// more often, and output beside a question does not keep a terminal from being examined.
    Questions(BTreeMap<WindowId, OpenQuestion>),
    /// Make tmux collect children that have ended.
    Nudge(SessionLife),
    /// Write these records, all of them or none, with the session's name and the checkpoint of the look.
    Append {
        records: Vec<Record>,
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
    /// Save the last look, which includes all records so far.
    Save(Box<SavedLook>),
    Reply(RequestId, Reply),
    /// Write this to the daemon's log. The session does not write it: it has no world.
    Log(LogLevel, String),
    Leave,
}

/// What the client of a request gets.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A wait has begun, or a task's output follows.
    Begun,
    /// A piece of a task's output; `None` when the run has ended and its output is complete.
    Output(Option<String>),
    /// The output ends before the end of the run: some of it is missing.
    Cut,
    /// The answer; of a launch with its command, which is held back. It is small: the queue has room for many.
    Answer(Box<Answer>, Option<HeldCommand>),
}

/// A job of the link to tmux, and where its outcome goes. One job runs at a time.
#[derive(Debug)]
pub(crate) enum Job {
    Look(LookOrder, Resolver<LookOutcome>),
    /// Look at the next slice of all windows.
    Sweep(Resolver<LookOutcome>),
    /// Read a pane and follow it: output after the reading is reported.
    Read {
        pane: PaneId,
        extent: Extent,
        /// Whether its run has ended, so that no more output arrives.
        is_over: bool,
        /// The ended run whose last output is wanted, which tmux may need a moment to read.
        last_of: Option<Arc<Task>>,
        /// `None` if the pane is followed already: what is read follows as a change, behind earlier output.
        outcome: Resolver<Option<Box<PaneOutput>>>,
    },
    /// Read the screen of a pane and at least this many of its last lines, without following it.
    ReadEnd(PaneId, usize, Resolver<Box<PaneOutput>>),
    /// Read the output of a task's present run.
    ReadLog(Arc<Task>, LogRequest, Resolver<TaskLog>),
    /// Read what the last launch of a window's task has said, if that is recorded.
    ReadRecord(WindowId, Resolver<Option<TaskSpec>>),
    /// Find out on which ports runs listen, and no other process does: by the port that is wanted, or any, and their
    /// first processes.
    FindPorts(
        BTreeMap<Option<u16>, BTreeSet<u32>>,
        Resolver<BTreeMap<u32, BTreeSet<u16>>>,
    ),
    /// Wait until all output of followed panes has arrived.
    Drain(Resolver<()>),
    /// Start a task, or run it again in its slot, for which the runs with these processes were ended.
    Launch(Box<Launch>, Vec<u32>, Resolver<LaunchOutcome>),
    /// Run a task again in its window, unless that has changed, as a look shows. With which restart in a row that is,
    /// from 1. `Some` is why that can never succeed.
    Restart(Arc<Task>, u32, Resolver<Option<String>>),
    /// Forget the environments kept for restarts of launches that are not present, and those of launches gone.
    ForgetEnvironments(BTreeSet<String>, BTreeSet<String>, Resolver<()>),
    /// Type the next part into a task, if it shows the prompt that the request names. What is left comes of it.
    Type(Typing, Resolver<Typing>),
    /// Note on these tasks' windows why their runs are about to be ended; without a reason, that they are not.
    MarkEndings(Vec<(Arc<Task>, Option<GoneReason>)>, Resolver<()>),
    /// End windows, unless they have later runs than these.
    Kill(Vec<(WindowId, Option<u32>)>, Resolver<ClosedWindows>),
    /// Find out which of these windows belong to another session as well.
    FindShared(Vec<WindowId>, Resolver<BTreeSet<WindowId>>),
    /// End the session, and find out which of these windows live on in another one.
    KillSession(Vec<WindowId>, Resolver<BTreeSet<WindowId>>),
    /// Remove these windows if their panes are still dead.
    Prune(Vec<(WindowId, PaneId)>, Resolver<()>),
    /// End the session when no task in it is active.
    Cleanup(Resolver<()>),
    /// Find out the session's present name, or that [another session](crate::model::ErrorKind::OtherSession) has this.
    FindName(String, Resolver<Option<String>>),
    /// Clear tmux's death record: these deaths are recorded.
    ForgetDeaths(String, Resolver<()>),
    /// Archive the output of a run, with why it was ended.
    Archive(Arc<Task>, Option<&'static str>, Resolver<()>),
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

    /// Returns an order for everything that tmux has reported by now, and for these windows.
    pub(super) fn barrier(windows: impl IntoIterator<Item = WindowId>) -> Self {
        Self {
            is_barrier: true,
            ..Self::of(windows)
        }
    }

    /// Whether the look at the windows that it names is its barrier: tmux sends its reports before the
    /// answer. This saves a round trip where nothing was reported; otherwise the look is repeated.
    pub(crate) fn is_own_barrier(&self) -> bool {
        self.is_barrier && !self.windows.is_empty()
    }

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}
