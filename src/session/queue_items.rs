//! What the queue of the link's jobs contains.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::beginning::Beginning;
use super::effect::{Job, LookOrder, PortQuery, RowsToRead};
use super::ended_by::Killer;
use super::input::{HeldCommand, Look};
use super::listeners::{EndedWait, RequestId};
use super::look_schedule::Due;
use super::pending_restarts::{DueRestart, EnvironmentCleanup};
use super::typing::Typing;
use super::wait_entry::WatchEntry;
use crate::engine::WaitReturn;
use crate::model::{GoneReason, Launch, PaneId, Seq, StopChoice, Task, WindowId};
use crate::terminal::Pattern;
use crate::wire::{LaunchedRun, LogRequest, Request, Response, SearchResult};

/// Steps that come before everything else, in order.
#[derive(Debug)]
pub(super) enum Urgent {
    /// Let all output that tmux has arrive.
    Drain,
    /// Read the last output of the ended run of this pane.
    LastOutput(PaneId, Arc<Task>, RowsToRead),
    /// Search the output of an ended run, which was not followed.
    Search(PaneId, Arc<Task>, Box<WatchEntry>),
    /// All output before this look has been searched: take it.
    TakeLook(HeldLook),
    /// All output before the last look has been processed: judge waits by it.
    Judge,
}

/// A look that is taken when all output before it has been searched.
#[derive(Debug)]
pub(super) struct HeldLook {
    pub(super) look: Box<Look>,
    pub(super) why: Due,
    pub(super) then: Vec<AfterLook>,
}

/// A look at windows to take, and what to do after it.
#[derive(Debug)]
pub(super) struct QueuedLook {
    pub(super) order: LookOrder,
    /// Whether it is a safety look.
    pub(super) is_safety: bool,
    pub(super) then: Vec<AfterLook>,
}

/// What to do after a look.
#[derive(Debug)]
pub(super) enum AfterLook {
    /// Answer a request about the present state.
    Answer(RequestId, Request),
    /// A command of ours has ended the session with these tasks. The windows are those that live on in
    /// another session.
    SessionKilled(RequestId, Vec<Arc<Task>>, BTreeSet<WindowId>),
    /// Start a task: tmux has shown a live run of its slot that no look has.
    Launch(RequestId, Box<Launch>),
    /// Send the answer of a launch, and report its run as gone if no look has contained its window.
    Launched(RequestId, Box<Launch>, Box<LaunchedRun>, HeldCommand),
    /// Windows of ended tasks were removed.
    Pruned(RequestId, Vec<Arc<Task>>),
    /// The run in this window has ended before: how is shown now, if tmux reports it.
    RunEnded(WindowId),
    /// Read a pane that was paused, with the number of attempts so far.
    TakeUp(PaneId, usize),
    /// A restart has started nothing because this window seemed to have changed.
    Superseded(WindowId),
    /// The session was ended if possible, and the daemon stops.
    Leave(RequestId),
}

/// A job that a request or a restart needs. They are run in the order in which they were queued.
#[derive(Debug)]
pub(super) enum Command {
    /// Start a task; with the processes of the live runs of its slot that were ended for it.
    Launch(RequestId, Box<Launch>, Vec<u32>),
    /// Mark the windows of tasks whose runs are about to be ended.
    Mark(Vec<(Arc<Task>, GoneReason)>),
    /// Remove the marks of runs that could not be ended.
    Unmark(Vec<WindowId>),
    /// Close the windows of runs that have ended.
    Close(Vec<WindowId>),
    Type(RequestId, Typing),
    /// Find out which of these windows would live on without the session, to end the runs of the others
    /// and then the session.
    FindShared(RequestId, Killer, StopChoice, Vec<WindowId>),
    /// End the session, which has these windows.
    KillSession(RequestId, Killer, Vec<WindowId>),
    Prune(RequestId, Vec<Arc<Task>>),
    Cleanup(RequestId),
    /// Resolve the name of a request whose session had another name in the last look.
    Resolve(RequestId, String, Box<Request>),
    /// Read the output of a task's run.
    ReadLog(RequestId, Arc<Task>, LogRequest),
    /// Read how a task was last launched.
    ReadRecord(RequestId, Arc<Task>),
    /// Find out on which ports the runs listen that are waited for.
    FindPorts(Vec<PortQuery>),
    Search(Box<Search>),
    /// Run a task again that has failed.
    Restart(Arc<DueRestart>),
    /// Forget the kept environments of launches that are gone.
    ForgetEnvironments(EnvironmentCleanup),
    /// Archive the output of the ended runs of this name before the next command, which may replace them.
    KeepReplaced(RequestId, String),
    /// Archive the output of this run before the next command, with why it was ended.
    Archive(Arc<Task>, Option<&'static str>),
}

impl Command {
    /// Returns the request that it carries out, if that may be given up before it has begun.
    pub(super) fn request(&self) -> Option<RequestId> {
        match self {
            Self::Launch(request_id, ..)
            | Self::FindShared(request_id, ..)
            | Self::Prune(request_id, _)
            | Self::Resolve(request_id, ..)
            | Self::ReadLog(request_id, ..)
            | Self::ReadRecord(request_id, _)
            | Self::KeepReplaced(request_id, ..) => Some(*request_id),
            Self::Type(request_id, typing) if !typing.progress.has_begun => Some(*request_id),
            Self::Search(search) => Some(search.request_id),
            // The daemon stops, whoever asked for it.
            Self::Cleanup(_)
            // Its runs have been ended.
            | Self::KillSession(..)
            // Half an answer would be another one.
            | Self::Type(..)
            | Self::Mark(_)
            | Self::Unmark(_)
            | Self::Close(_)
            | Self::FindPorts(_)
            | Self::Restart(_)
            | Self::ForgetEnvironments(..)
            | Self::Archive(..) => None,
        }
    }
}

/// A search in the output of tasks, one after the other.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) request_id: RequestId,
    pub(super) pattern: Arc<Pattern>,
    /// The task to search next.
    pub(super) task: Arc<Task>,
    /// Those after it, in reverse order.
    pub(super) rest: Vec<Arc<Task>>,
    pub(super) found: SearchResult,
}

/// The read of a pane that is followed from there on.
#[derive(Debug)]
pub(super) struct PaneRead {
    pub(super) pane: PaneId,
    pub(super) rows: RowsToRead,
    pub(super) why: ReadReason,
}

#[derive(Debug)]
pub(super) enum ReadReason {
    /// This begins with it. The link has it while it reads; then these are the requests.
    Begin(Beginning, Vec<RequestId>),
    /// It was paused; with the number of attempts so far, and its task.
    TakeUp(usize, Option<Arc<Task>>),
    /// It may have been resized.
    Resize,
}

/// The read of the end of a pane's output, and the requests that need it.
#[derive(Debug)]
pub(super) struct EndRead {
    pub(super) pane: PaneId,
    /// How many of its last lines.
    pub(super) lines: usize,
    pub(super) task: Arc<Task>,
    pub(super) waits: Vec<EndedWait>,
    pub(super) cursors: Vec<RequestId>,
}

/// An answer that waits for records to be written.
#[derive(Debug)]
pub(super) struct HeldAnswer {
    /// The sequence number of the last of them; 0 when it contains none.
    pub(super) rests_on: Seq,
    /// The window of a launch, whose run's output has to be followed if it is searched: until then the
    /// launcher holds the command back.
    pub(super) launched: Option<WindowId>,
    pub(super) request_id: RequestId,
    pub(super) response: Response,
    /// The command of a launch.
    pub(super) held: Option<HeldCommand>,
    /// The event that the client learns from it.
    pub(super) wait_return: Option<WaitReturn>,
}

/// Jobs that can be delayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chore {
    /// Recorded deaths can be cleared.
    ForgetDeaths(String),
    /// A scan for other sessions of the project.
    ScanOthers,
}

/// The purpose of the running job.
#[derive(Debug)]
pub(super) enum Purpose {
    Look(QueuedLook),
    Sweep,
    LastOutput(PaneId, Arc<Task>, RowsToRead),
    Drain,
    End(EndRead),
    Read(PaneRead),
    Command(Command),
    Chore,
    Archive,
}

impl Purpose {
    /// Whether this request is carried out only after the job.
    pub(super) fn precedes(&self, request_id: RequestId) -> bool {
        let Self::Command(
            command @ (Command::Resolve(..) | Command::FindShared(..) | Command::Search(_)),
        ) = self
        else {
            return false;
        };
        command.request() == Some(request_id)
    }
}

/// The next step.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and nearly all are the largest"
)]
pub(super) enum Next {
    /// A job for the link, and its purpose.
    Run(Job, Purpose),
    /// Judge waits by the last look.
    Judge,
    /// Take a look: all output before it has been searched.
    TakeLook(HeldLook),
    /// Archive the output of the ended runs of this name, which the next command may replace.
    KeepReplaced(String),
}
