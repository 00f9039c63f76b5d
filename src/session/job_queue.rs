//! The queue of the link's jobs and what it contains: one job at a time, the most urgent first.
//!
//! Answers and rules rely on this order: first the last output of a run, so that its waits can be
//! judged; then the ends of output for answers, looks, commands, the reads with which waits begin,
//! jobs that can be delayed, slices of sweeps, and last archiving.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::ending_runs::Killer;
use super::input::{HeldCommand, Job, Look, LookOrder, PortQuery, RowsToRead};
use super::listeners::{Beginning, EndedWait, RequestId};
use super::look_schedule::Due;
use super::pending_restarts::{DueRestart, EnvironmentCleanup};
use super::typing::Typing;
use super::wait_entry::WatchEntry;
use crate::engine::WaitReturn;
use crate::model::{GoneReason, Launch, PaneId, Replaces, Seq, StopChoice, Task, WindowId};
use crate::terminal::Pattern;
use crate::wait::Spec;
use crate::wire::{LaunchedRun, LogRequest, Request, Response, SearchResult};

/// The next slice of a sweep.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum NextSlice {
    /// There is none, or it runs.
    #[default]
    None,
    /// It is ordered at this time: until then tmux serves others.
    At(Instant),
    Queued,
}

#[derive(Debug, Default)]
pub(super) struct JobQueue {
    /// The purpose of the running job; `None` while the link is idle.
    pub(super) running: Option<Purpose>,
    urgent: VecDeque<Urgent>,
    ends: Vec<EndRead>,
    look: Option<QueuedLook>,
    /// The next slice of a look at all windows.
    slice: NextSlice,
    pub(super) commands: VecDeque<Command>,
    reads: VecDeque<PaneRead>,
    /// Reads whose outcomes come with the output of their panes, in order.
    pub(super) asked: VecDeque<PaneRead>,
    chores: VecDeque<Chore>,
    archives: VecDeque<Arc<Task>>,
}

impl JobQueue {
    /// Takes the next step, while no job runs. Looks without a request stay queued unless
    /// `may_look`. `is_over` says whether a pane's run has ended.
    pub(super) fn next(
        &mut self,
        may_look: bool,
        now: Instant,
        is_over: impl Fn(PaneId) -> bool,
    ) -> Option<Next> {
        if self.running.is_some() {
            return None;
        }
        if let Some(urgent) = self.urgent.pop_front() {
            return Some(match urgent {
                Urgent::Judge => Next::Judge,
                Urgent::Drain => Next::Run(Job::Drain, Purpose::Drain),
                Urgent::LastOutput(pane, task, rows) => {
                    let job = Job::Read {
                        pane,
                        rows,
                        is_over: true,
                        last_of: Some(Arc::clone(&task)),
                        begins: Beginning::default(),
                    };
                    Next::Run(job, Purpose::LastOutput(pane, task, rows))
                }
                Urgent::Search(pane, task, entry) => {
                    let job = Job::Read {
                        pane,
                        rows: RowsToRead::All,
                        is_over: true,
                        last_of: Some(task),
                        begins: Beginning {
                            watches: vec![*entry],
                            ..Beginning::default()
                        },
                    };
                    let why = ReadReason::Begin(Beginning::default(), Vec::new());
                    let rows = RowsToRead::All;
                    Next::Run(job, Purpose::Read(PaneRead { pane, rows, why }))
                }
                Urgent::TakeLook(held) => Next::TakeLook(held),
            });
        }
        if !self.ends.is_empty() {
            let end = self.ends.remove(0);
            return Some(Next::Run(
                Job::ReadEnd(end.pane, end.lines),
                Purpose::End(end),
            ));
        }
        if let Some(look) = self.look.take_if(|look| may_look || !look.then.is_empty()) {
            return Some(Next::Run(
                Job::Look(look.order.clone()),
                Purpose::Look(look),
            ));
        }
        if let Some(command) = self.next_command(now) {
            return Some(job_of(command));
        }
        if let Some(mut read) = self.next_read() {
            let job = Job::Read {
                pane: read.pane,
                rows: read.rows,
                is_over: is_over(read.pane),
                last_of: None,
                begins: match &mut read.why {
                    ReadReason::Begin(begins, requests) => {
                        *requests = begins.requests();
                        std::mem::take(begins)
                    }
                    ReadReason::TakeUp(..) | ReadReason::Resize => Beginning::default(),
                },
            };
            return Some(Next::Run(job, Purpose::Read(read)));
        }
        if let Some(chore) = self.chores.pop_front() {
            let job = match chore {
                Chore::ForgetDeaths(record) => Job::ForgetDeaths(record),
                Chore::ScanOthers => Job::ScanOthers,
            };
            return Some(Next::Run(job, Purpose::Chore));
        }
        match self.slice {
            NextSlice::Queued if may_look => {
                self.slice = NextSlice::None;
                return Some(Next::Run(Job::Sweep, Purpose::Sweep));
            }
            NextSlice::At(_) => return None,
            NextSlice::None | NextSlice::Queued => {}
        }
        let task = self.archives.pop_front()?;
        Some(Next::Run(Job::Archive(task, None), Purpose::Archive))
    }

    /// Takes the next read. Only one at a time is asked of a pane that is followed already: others are
    /// combined meanwhile.
    fn next_read(&mut self) -> Option<PaneRead> {
        let is_next = |read: &PaneRead| {
            let is_asked = || self.asked.iter().any(|asked| asked.pane == read.pane);
            matches!(read.why, ReadReason::TakeUp(..)) || !is_asked()
        };
        let at = self.reads.iter().position(is_next)?;
        self.reads.remove(at)
    }

    /// Whether a look at windows is queued or running.
    pub(super) fn has_look(&self) -> bool {
        self.look.is_some() || matches!(self.running, Some(Purpose::Look(_)))
    }

    /// Whether a sweep has begun, or is queued.
    pub(super) fn has_sweep(&self) -> bool {
        self.slice != NextSlice::None || matches!(self.running, Some(Purpose::Sweep))
    }

    /// Orders a sweep, or its next slice: everything but archiving goes first.
    pub(super) fn order_sweep(&mut self) {
        self.slice = NextSlice::Queued;
    }

    /// Orders the next slice of a sweep, for this time.
    pub(super) fn order_slice_at(&mut self, at: Instant) {
        self.slice = NextSlice::At(at);
    }

    /// Returns when the next slice of a sweep is to be ordered.
    pub(super) fn slice_at(&self) -> Option<Instant> {
        match self.slice {
            NextSlice::At(at) => Some(at),
            NextSlice::None | NextSlice::Queued => None,
        }
    }

    /// Orders a look. A queued look is combined with it; a running one is not, because it may have
    /// begun before the trigger.
    pub(super) fn order(&mut self, order: LookOrder) -> &mut QueuedLook {
        let look = self.look.get_or_insert_with(|| QueuedLook {
            order: LookOrder::default(),
            is_safety: true,
            then: Vec::new(),
        });
        look.order.join(order);
        look
    }

    pub(super) fn push_urgent(&mut self, urgent: Urgent) {
        self.urgent.push_back(urgent);
    }

    /// Whether waits are not judged by the last look yet.
    pub(super) fn is_judging(&self) -> bool {
        !self.urgent.is_empty()
            || matches!(self.running, Some(Purpose::Drain | Purpose::LastOutput(..)))
    }

    /// Whether the last output of this pane's run is being read.
    pub(super) fn is_reading_last_output(&self, pane: PaneId) -> bool {
        matches!(&self.running, Some(Purpose::LastOutput(read, ..)) if *read == pane)
    }

    /// Continues with the last output of a run, before everything else.
    pub(super) fn push_first(&mut self, urgent: Urgent) {
        self.urgent.push_front(urgent);
    }

    pub(super) fn push_command(&mut self, command: Command) {
        self.commands.push_back(command);
    }

    /// Takes the next command. What one request types into a task stays together.
    fn next_command(&mut self, now: Instant) -> Option<Command> {
        let mut typed_into = BTreeSet::new();
        let at = self.commands.iter().position(|command| {
            let Command::Type(_, Typing { task, progress, .. }) = command else {
                return true;
            };
            typed_into.insert(task.window) && progress.due.is_none_or(|at| at <= now)
        })?;
        self.commands.remove(at)
    }

    /// Returns when typing goes on, while no job runs.
    pub(super) fn typing_at(&self) -> Option<Instant> {
        let due = self.commands.iter().filter_map(|command| {
            let Command::Type(_, typing) = command else {
                return None;
            };
            typing.progress.due
        });
        due.min().filter(|_| self.running.is_none())
    }

    /// Reads the end of a task's output for an answer; once for all answers that need it.
    pub(super) fn read_end(&mut self, read: EndRead) {
        let same =
            |other: &&mut EndRead| other.pane == read.pane && other.task.run == read.task.run;
        match self.ends.iter_mut().find(same) {
            Some(other) => {
                other.lines = other.lines.max(read.lines);
                other.waits.extend(read.waits);
                other.cursors.extend(read.cursors);
            }
            None => self.ends.push(read),
        }
    }

    /// Whether the answer to such a wait is not sent yet.
    pub(super) fn is_answering(&self, is_it: impl Fn(&EndedWait) -> bool) -> bool {
        let running = match &self.running {
            Some(Purpose::End(end)) => Some(end),
            Some(_) | None => None,
        };
        let ends = self.ends.iter().chain(running);
        ends.flat_map(|end| &end.waits).any(is_it)
    }

    /// Drops what a request waits for, because its client has disconnected. A command that has not
    /// begun is not carried out: the client has given up, and the user may give it again. Returns whether
    /// that was a launch.
    pub(super) fn forget_request(&mut self, request_id: RequestId) -> bool {
        let (mut end, mut look) = (None, None);
        match &mut self.running {
            Some(Purpose::End(running)) => end = Some(running),
            Some(Purpose::Look(running)) => look = Some(running),
            // What it finds out is not needed any more.
            Some(running) if running.precedes(request_id) => *running = Purpose::Chore,
            // It may have started a run, but nothing is ended for it any more.
            Some(Purpose::Command(Command::Launch(of, request, _))) if *of == request_id => {
                request.replaces = Replaces::Ended;
            }
            Some(_) | None => {}
        }
        for end in self.ends.iter_mut().chain(end) {
            end.waits
                .retain(|ended| ended.active.request_id != request_id);
        }
        let held = self.urgent.iter_mut().filter_map(|urgent| match urgent {
            Urgent::TakeLook(held) => Some(&mut held.then),
            Urgent::Drain | Urgent::LastOutput(..) | Urgent::Search(..) | Urgent::Judge => None,
        });
        let looks = self.look.iter_mut().chain(look);
        for then in looks.map(|look| &mut look.then).chain(held) {
            then.retain(|then| match then {
                AfterLook::Answer(of, _) => *of != request_id,
                AfterLook::SessionKilled(..)
                | AfterLook::Launch(..)
                | AfterLook::Launched(..)
                | AfterLook::Pruned(..)
                | AfterLook::RunEnded(_)
                | AfterLook::TakeUp(..)
                | AfterLook::Superseded(_)
                | AfterLook::Leave(_) => true,
            });
        }
        let is_launch =
            |command: &Command| matches!(command, Command::Launch(of, ..) if *of == request_id);
        let was_queued = self.commands.iter().any(is_launch);
        self.commands
            .retain(|command| command.request() != Some(request_id));
        was_queued
    }

    /// Returns what begins with the queued read of a pane, one for all of it.
    pub(super) fn begin_with(&mut self, pane: PaneId, rows: RowsToRead) -> &mut Beginning {
        let is_same =
            |read: &PaneRead| read.pane == pane && matches!(read.why, ReadReason::Begin(..));
        let at = self.reads.iter().position(is_same).unwrap_or_else(|| {
            let why = ReadReason::Begin(Beginning::default(), Vec::new());
            self.reads.push_back(PaneRead { pane, rows, why });
            self.reads.len() - 1
        });
        let read = &mut self.reads[at];
        read.rows = read.rows.max(rows);
        match &mut read.why {
            ReadReason::Begin(begins, _) => begins,
            ReadReason::TakeUp(..) | ReadReason::Resize => unreachable!("it is such a read"),
        }
    }

    /// Returns the panes that waits and output streams begin to follow.
    pub(super) fn beginning(&self) -> impl Iterator<Item = PaneId> {
        let queued = self.reads.iter().chain(&self.asked);
        let running = match &self.running {
            Some(Purpose::Read(read)) => Some(read),
            Some(_) | None => None,
        };
        let reads = queued.chain(running);
        reads
            .filter(|read| matches!(read.why, ReadReason::Begin(..)))
            .map(|read| read.pane)
    }

    /// Returns the parameters of the waits that begin with a queued read.
    pub(super) fn beginning_specs(&self) -> impl Iterator<Item = &Spec> {
        let waits = self.reads.iter().flat_map(|read| match &read.why {
            ReadReason::Begin(begins, _) => begins.waits.as_slice(),
            ReadReason::TakeUp(..) | ReadReason::Resize => &[],
        });
        waits.map(|active| &active.wait.spec)
    }

    /// Reads a paused pane, before the reads for new listeners.
    pub(super) fn take_up(&mut self, pane: PaneId, tries: usize, task: Option<Arc<Task>>) {
        self.reads.push_front(PaneRead {
            pane,
            rows: RowsToRead::All,
            why: ReadReason::TakeUp(tries, task),
        });
    }

    /// Reads the size of a pane, unless that is queued already.
    pub(super) fn resize(&mut self, pane: PaneId) {
        let is_queued =
            |read: &PaneRead| read.pane == pane && matches!(read.why, ReadReason::Resize);
        if !self.reads.iter().any(is_queued) {
            self.reads.push_back(PaneRead {
                pane,
                rows: RowsToRead::LastRow,
                why: ReadReason::Resize,
            });
        }
    }

    /// Adds a job that can be delayed. It replaces a queued one of its kind.
    pub(super) fn push_chore(&mut self, chore: Chore) {
        let kind = std::mem::discriminant(&chore);
        self.chores
            .retain(|other| std::mem::discriminant(other) != kind);
        self.chores.push_back(chore);
    }

    pub(super) fn archive(&mut self, task: Arc<Task>) {
        self.archives.push_back(task);
    }

    /// Archives the output of the runs in these windows before the next command, which changes
    /// them.
    pub(super) fn archive_first(&mut self, is_changed: impl Fn(WindowId) -> bool) {
        let (first, rest) = std::mem::take(&mut self.archives)
            .into_iter()
            .partition(|task| is_changed(task.window));
        self.archives = rest;
        self.commands
            .extend(VecDeque::into_iter(first).map(|task| Command::Archive(task, None)));
    }

    /// Archives the output of the runs in these windows and of `others` before the queued commands.
    pub(super) fn archive_next(&mut self, windows: &BTreeSet<WindowId>) {
        let (next, rest): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.archives)
            .into_iter()
            .partition(|task| windows.contains(&task.window));
        self.archives = rest;
        for task in next.into_iter().rev() {
            self.commands.push_front(Command::Archive(task, None));
        }
    }

    /// Takes the runs whose output is not archived yet.
    pub(super) fn take_archives(&mut self) -> Vec<Arc<Task>> {
        self.archives.drain(..).collect()
    }
}

fn job_of(command: Command) -> Next {
    let job = match &command {
        Command::Launch(_, request, ended) => Job::Launch(request.clone(), ended.clone()),
        Command::Mark(marks) => Job::MarkEndings(marks.clone()),
        Command::Unmark(windows) => Job::UnmarkEndings(windows.clone()),
        Command::Close(windows) => Job::Kill(windows.clone()),
        Command::Type(_, typing) => Job::Type(typing.clone()),
        Command::FindShared(_, _, _, windows) => Job::FindShared(windows.clone()),
        Command::KillSession(_, _, windows) => Job::KillSession(windows.clone()),
        Command::Prune(_, dead) => {
            let panes = dead.iter();
            Job::Prune(
                panes
                    .filter_map(|task| Some((task.window, task.pane?)))
                    .collect(),
            )
        }
        Command::Cleanup(_) => Job::Cleanup,
        Command::Resolve(_, name, _) => Job::FindName(name.clone()),
        Command::ReadLog(_, task, request) => Job::ReadLog(Arc::clone(task), request.clone()),
        Command::ReadRecord(_, task) => Job::ReadRecord(Arc::clone(task)),
        Command::FindPorts(queries) => Job::FindPorts(queries.clone()),
        Command::Search(search) => {
            Job::Search(Arc::clone(&search.task), Arc::clone(&search.pattern))
        }
        Command::Restart(due) => Job::Restart(Arc::clone(due)),
        Command::ForgetEnvironments(cleanup) => Job::ForgetEnvironments(cleanup.clone()),
        Command::Archive(task, reason) => Job::Archive(Arc::clone(task), *reason),
        Command::KeepReplaced(_, name) => return Next::KeepReplaced(name.clone()),
    };
    Next::Run(job, Purpose::Command(command))
}

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
