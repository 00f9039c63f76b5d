//! What a session is told.

use std::collections::BTreeSet;

use crate::model::{Bookmark, Level, Now, PaneId, Seq, SessionLife, Snapshot, WindowId};
use crate::terminal::PaneOutput;
use crate::wire::{Checkpoint, Request, Response, Whereabouts};

use super::wait_entry::Entry;

/// Names a request under way, until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AskId(pub u64);

/// Everything that can make a session do something.
#[derive(Debug)]
pub(crate) enum Input {
    /// A request. Subscriptions to the feed are not among them: the session has no part in those.
    Asked(AskId, Request),
    /// Whoever asked has left, or reads too slowly: no answer is wanted any more.
    Left(AskId),
    /// tmux or the kernel reports a change.
    Changed(Change),
    /// The running job is done; an error says why it could not be done.
    Done(Result<Outcome, String>),
    /// How far the feed is on the disk.
    Stored(StoreState),
    /// The last look could not be saved: the disk is too far behind.
    NotSaved,
    /// A deadline has come.
    Due,
}

/// What tmux or the kernel reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A run ended, a bell rang, a window came or went: look now.
    Task,
    /// The same of windows that are known: there is no need to look at others.
    Windows,
    /// A pane printed something: look soon.
    Output,
    /// A pane that is followed printed this.
    Printed {
        /// The pane.
        pane: PaneId,
        /// What it printed.
        bytes: Vec<u8>,
    },
    /// A pane that is not followed sends its output: it is to be paused.
    Unfollowed,
    /// tmux has paused a followed pane: what it prints from here on does not arrive.
    Paused(PaneId),
    /// The client that follows output has gone, and some of the output with it.
    FollowerLost,
    /// Windows have other sizes than before.
    Layout,
    /// What the kernel says of the terminals of these windows has changed what is to be made of
    /// their prompts.
    Terminals(BTreeSet<WindowId>),
}

/// What a job brought.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A look; `None` when nothing was reported, so that there was nothing to look at.
    Looked(Option<Box<Look>>),
    /// A pane was read and is followed from there on. With the entries of the job, judged.
    Read(Box<PaneOutput>, Vec<Entry>),
    /// The last rows of a pane.
    End(Box<PaneOutput>),
    /// All output that tmux had for followed panes has arrived.
    Drained,
    /// These windows were ended; the error is about the next one.
    Killed(BTreeSet<WindowId>, Result<(), String>),
    /// Which session this is.
    Whereabouts(Whereabouts),
    /// The answer to a command, and the window that it has changed.
    Answered(Box<Response>, Option<WindowId>),
    /// Notices that a job has for the feed, with their level.
    Notices(Vec<(Level, String)>),
    /// It is done, and there is nothing to say of it.
    Finished,
}

/// One look, judged.
#[derive(Debug)]
pub(crate) struct Look {
    /// When it was taken.
    pub(crate) at: Now,
    /// What it shows.
    pub(crate) snapshot: Snapshot,
    /// Whether every task was looked at.
    pub(crate) is_whole: bool,
    /// Whether something called for it, just when it was taken.
    pub(crate) was_called_for: bool,
    /// A run has ended and tmux has not said how: another look is needed soon.
    pub(crate) is_unsettled: bool,
    /// tmux's record of deaths as it was read, to be cut once they are recorded; may be empty.
    pub(crate) death_record: String,
    /// How the link stands after it.
    pub(crate) link: LinkState,
}

/// How the link to tmux stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkState {
    /// Which life of the session it is; `None` while there is none.
    pub(crate) life: Option<SessionLife>,
    /// The session's name now; `None` while there is none.
    pub(crate) session_name: Option<String>,
    /// How far tmux's own notes were read.
    pub(crate) bookmark: Bookmark,
    /// Where the look leaves the daemon, to be recorded with its events.
    pub(crate) checkpoint: Checkpoint,
    /// Whether changes are reported, so that looks need not be taken to find them.
    pub(crate) is_connected: bool,
    /// Counts the connections: output that came by an earlier one may not be whole.
    pub(crate) connection: u64,
    /// Whether panes are paused for our client, so that only looks see what they print.
    pub(crate) is_any_paused: bool,
}

/// How far the feed is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoreState {
    /// The number of the last record that is on the disk.
    pub(crate) written: Seq,
    /// The number of the last record that the disk has taken or refused.
    pub(crate) tried: Seq,
    /// Whether so much waits for the disk that no look should be taken: the next one finds what
    /// changes meanwhile.
    pub(crate) is_full: bool,
}
