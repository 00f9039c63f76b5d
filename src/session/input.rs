//! The inputs of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{
    Bookmark, Checkpoint, LeftProcess, Level, Millis, Now, PaneId, Seq, SessionLife, Snapshot,
    WindowId,
};
use crate::terminal::{PaneLog, PaneOutput};
use crate::wire::{LaunchedRun, Request, Response, SearchResult};

use super::beginning::Beginning;
use super::listeners::RequestId;
use super::pending_restarts::RestartEnd;
use super::typing::Typing;

/// Everything that can make a session do something.
#[derive(Debug)]
pub(crate) enum Input {
    /// A request. Subscriptions to the feed are not included: they do not involve the session.
    Requested(RequestId, Request),
    /// The client of a request has disconnected or reads too slowly: its answer is not wanted any
    /// more.
    Left(RequestId),
    /// tmux or the kernel reports a change.
    Changed(Change),
    /// The running job has finished; an error says why it failed.
    Done(Result<JobOutcome, String>),
    /// How far the feed is on the disk.
    Stored(StoreState),
    /// The last look could not be saved: the disk is too far behind.
    NotSaved,
    /// How long a run usually takes.
    UsualDuration {
        window: WindowId,
        /// The number of the run.
        run: Option<u32>,
        millis: Millis,
    },
    /// The kernel has not reported yet that these processes of a run that is being ended are gone.
    RunWaits(WindowId, Vec<LeftProcess>),
    /// Nothing is left of a run that was to be ended, or only these processes, which cannot be ended.
    RunEnded(WindowId, Vec<LeftProcess>),
    /// Notices to record, with their levels.
    Notices(Vec<(Level, String)>),
    /// A deadline was reached.
    Due,
}

/// A change that tmux or the kernel reports.
#[derive(Debug)]
pub(crate) enum Change {
    /// Windows have changed, the session, or the connection to it: look now.
    Windows,
    /// A pane printed something: look soon.
    Output,
    /// Output of a followed pane.
    Printed {
        pane: PaneId,
        /// The output.
        bytes: Vec<u8>,
    },
    /// A pane that is not followed sends its output and has to be paused.
    Unfollowed,
    /// tmux has paused a followed pane: its further output does not arrive.
    Paused(PaneId),
    /// A pane was read that is followed already: the outcome of the first such read that is not
    /// finished.
    Read(Box<Result<JobOutcome, String>>),
    /// The client that follows output was lost, and some of the output with it.
    FollowerLost,
    /// Windows were resized.
    Layout,
    /// The kernel's evidence on the terminals of these windows has changed, and may change the
    /// judgement of their prompts.
    Terminals(BTreeSet<WindowId>),
}

impl Change {
    /// Returns what it is called in the log, without what it carries.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Output => "output",
            Self::Printed { .. } => "followed-output",
            Self::Unfollowed => "unfollowed",
            Self::Paused(_) => "paused",
            Self::Read(_) => "read",
            Self::FollowerLost => "follower-lost",
            Self::Layout => "layout",
            Self::Terminals(_) => "terminals",
        }
    }
}

/// Who has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameOwner {
    /// Our session, or nobody. Contains the session's present name, if it exists.
    Ours(Option<String>),
    /// Another session.
    Other,
}

/// Holds the command of a run that was started back until it is dropped, whoever drops it.
pub(crate) type HeldCommand = Box<dyn std::fmt::Debug + Send>;

/// The result of a job.
#[derive(Debug)]
pub(crate) enum JobOutcome {
    /// A look.
    Looked(Box<Look>),
    /// No look was needed: nothing was reported or named, or all windows were looked at and tmux has not
    /// run since.
    NotNeeded,
    /// A slice of all windows shows nothing new, and there are further slices.
    NothingNew,
    /// A pane was read and is followed from there on. What begins with it is judged.
    Read(Box<PaneOutput>, Beginning),
    /// A pane that is followed already is read: the outcome follows as a change, behind the output
    /// before it.
    Asked,
    /// The end of a pane's output, with so many of its last lines.
    End(Box<PaneLog>),
    /// All output that tmux had for followed panes has arrived.
    Drained,
    /// These windows were ended; the error is about the next one.
    Killed(BTreeSet<WindowId>, Result<(), String>),
    /// These windows belong to another session as well.
    Shared(BTreeSet<WindowId>),
    /// The session was ended. These of its windows live on in another one.
    SessionKilled(BTreeSet<WindowId>),
    /// Who has a name.
    Name(NameOwner),
    /// The answer to a command.
    Answered(Box<Response>),
    /// A run was started; its command is held back.
    Launched(Box<LaunchedRun>, HeldCommand),
    /// This is left to type later.
    Typing(Typing),
    /// A launch has started nothing: this window has a live run with this process, to be ended first.
    Live(WindowId, u32),
    /// The ports that runs listen on, by their first processes, and how long it took to find that out.
    Ports(BTreeMap<u32, BTreeSet<u16>>, Duration),
    /// How a restart went.
    Restarted(RestartEnd),
    /// The lines of a task's output that match.
    Matches(SearchResult),
    /// Done, without a result.
    Finished,
}

/// One look as a snapshot.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a finding of its own, and all combinations occur"
)]
pub(crate) struct Look {
    /// When it was taken.
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
    /// tmux's death record as it was read, to be cleared once the deaths are recorded; may be
    /// empty.
    pub(crate) death_record: String,
    /// The state of the link after it.
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
    /// The checkpoint to be recorded with the events of the look.
    pub(crate) checkpoint: Checkpoint,
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
    /// Whether so much waits for the disk that no look should be taken: the next one finds the
    /// changes.
    pub(crate) is_full: bool,
}
