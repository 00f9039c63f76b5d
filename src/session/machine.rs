//! The session's state, and how each input is handled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ending_runs::{EndedRuns, Endings, UsualDurations};
use super::input::{Change, Effect, Input, JobOutcome, LinkState, LogEntry, LookOrder, StoreState};
use super::job_queue::{AfterLook, Chore, HeldAnswer, JobQueue, Next, Purpose, QueuedLook};
use super::listeners::{Listeners, Piece, RequestId};
use super::look_schedule::{LookSchedule, PortLooks};
use super::pending_restarts::{AnnouncedRestarts, PendingRestarts};
use crate::engine::{self, Engine};
use crate::model::{
    Bookmark, DeliveredEvent, Event, Level, Now, OpenQuestion, PaneId, Seq, StatusCounts, StopPlan,
    Task, WindowId,
};
use crate::wire::Response;

/// How long saving is delayed for changes that are also in the feed, so that not every bell causes
/// a write.
pub(super) const SAVE_WITHIN: Duration = Duration::from_secs(1);

/// One task session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) engine: Engine,
    pub(super) listeners: Listeners,
    pub(super) schedule: LookSchedule,
    pub(super) jobs: JobQueue,
    pub(super) ended_runs: EndedRuns,
    /// How far the feed is on the disk.
    pub(super) store: StoreState,
    /// Its name for records.
    pub(super) session_name: String,
    /// The state of the link after the last look.
    pub(super) link: LinkState,
    /// Whether there was a look.
    pub(super) has_looked: bool,
    /// What the next look has to decide.
    pub(super) doubts: Doubts,
    /// Why the last look failed; `None` when it succeeded.
    pub(super) look_problem: Option<String>,
    pub(super) counts: Counts,
    /// Waits that are about to begin.
    pub(super) beginning: BTreeSet<RequestId>,
    /// Answers that wait for records to be written, in the order in which they are sent.
    pub(super) held: Vec<HeldAnswer>,
    /// Whether the last look has shown an ended run of which tmux has not reported how it ended.
    pub(super) is_unsettled: bool,
    /// When tmux is nudged next, and until when nudging continues.
    pub(super) nudges: Option<(Instant, Instant)>,
    /// When the last look is saved; `None` when it is saved, or would be the same.
    pub(super) save_at: Option<Instant>,
    /// When an event that a safety look has found counts as not reported; `None` without one.
    pub(super) unreported_at: Option<Instant>,
    /// tmux's death record, and the sequence number that has to be on the disk before it is
    /// cleared.
    pub(super) death_record: Option<(Seq, String)>,
    /// The panes that the link was asked to follow; `None` when it has to be asked again.
    followed: Option<BTreeSet<PaneId>>,
    /// What the tasks ask, as far as the link knows.
    pub(super) questions: BTreeMap<WindowId, OpenQuestion>,
    /// Launched runs about which no look has decided whether they have to be reported as gone.
    pub(super) unseen: Vec<Task>,
    /// The tasks that are about to be run again.
    pub(super) restarts: PendingRestarts,
    /// The ends that were delivered as notices because restarts follow.
    pub(super) announced: AnnouncedRestarts,
    /// The runs that are being ended.
    pub(super) endings: Endings,
    /// How runs are ended that are being marked for it.
    pub(super) stops: BTreeMap<WindowId, StopPlan>,
    /// How runs are ended whose launch says nothing.
    pub(super) stop_defaults: StopPlan,
    /// When the ports of runs that are waited for are looked at.
    pub(super) port_looks: PortLooks,
    /// How long runs usually take, by their windows.
    pub(super) usual: UsualDurations,
    /// The effects of the present input.
    pub(super) effects: Vec<Effect>,
}

/// What the next look has to decide.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Whether the client that follows output was lost.
    pub(super) is_follower_lost: bool,
    /// Whether terminal models of followed panes may differ from the panes.
    pub(super) are_sizes_unknown: bool,
}

/// The initial state of a session.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The engine, with its restored state.
    pub(crate) engine: Engine,
    /// The session, by the name that the daemon was started with.
    pub(crate) session_name: String,
    /// The longest time between two looks.
    pub(crate) longest_pause: Duration,
    /// How much of tmux's data had been processed at the engine's last look.
    pub(crate) bookmark: Bookmark,
    /// How runs are ended whose launch says nothing.
    pub(crate) stop: StopPlan,
    /// The ends after which earlier daemons have announced restarts that have not happened.
    pub(crate) announced: Vec<DeliveredEvent>,
    /// How far the feed is on the disk.
    pub(crate) store: StoreState,
}

/// Counters for status and diagnosis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) looks: u64,
    /// Sweeps that have come to their end.
    pub(crate) whole_looks: u64,
    /// Safety looks: looks without a trigger.
    pub(crate) safety_looks: u64,
    /// Looks that were ordered and not taken, because an earlier one had covered all reports.
    pub(crate) skipped_looks: u64,
    /// Sweeps that were due and not begun, because tmux had not run since the last one.
    pub(crate) unchanged_looks: u64,
    /// Safety looks that found an event which nothing reported.
    pub(crate) found_late: u64,
}

impl Session {
    /// Returns a session that has not looked yet.
    pub(crate) fn new(setup: Setup, now: Now) -> Self {
        let Setup {
            mut engine,
            session_name,
            longest_pause,
            mut bookmark,
            stop,
            announced,
            store,
        } = setup;
        let announced = AnnouncedRestarts::new(engine.last_look(), announced);
        engine.tried(store.tried);
        Self {
            engine,
            listeners: Listeners::new(std::mem::take(&mut bookmark.searched)),
            schedule: LookSchedule::new(longest_pause, now.mono),
            jobs: JobQueue::default(),
            ended_runs: EndedRuns::default(),
            store,
            session_name,
            link: LinkState {
                bookmark,
                ..LinkState::default()
            },
            has_looked: false,
            doubts: Doubts::default(),
            look_problem: None,
            counts: Counts::default(),
            beginning: BTreeSet::new(),
            held: Vec::new(),
            is_unsettled: false,
            nudges: None,
            save_at: Some(now.mono),
            unreported_at: None,
            death_record: None,
            followed: None,
            questions: BTreeMap::new(),
            unseen: Vec::new(),
            restarts: PendingRestarts::default(),
            announced,
            endings: Endings::default(),
            stops: BTreeMap::new(),
            stop_defaults: stop,
            port_looks: PortLooks::default(),
            usual: UsualDurations::default(),
            effects: Vec::new(),
        }
    }

    /// Handles an input. Returns the effects, in order.
    #[must_use]
    pub(crate) fn handle(&mut self, input: Input, now: Now) -> Vec<Effect> {
        match input {
            Input::Requested(request_id, request) => self.handle_request(request_id, request, now),
            Input::Left(request_id) => self.leave(request_id, now),
            Input::Changed(change) => self.change(change, now),
            Input::Done(outcome) => self.done(outcome, now),
            Input::Stored(store) => self.stored(store, now),
            Input::NotSaved => self.save_within(SAVE_WITHIN, now),
            Input::UsualDuration {
                window,
                run,
                millis,
            } => self.usual_duration_found(window, run, millis, now),
            Input::RunWaits(window, left) => self.run_waits(window, left),
            Input::RunEnded(window, left) => self.run_ended(window, &left, now),
            Input::Notices(notices) => {
                for (level, text) in notices {
                    self.notice(level, text, now);
                }
            }
            Input::Due => self.due(now),
        }
        self.go_on(now)
    }

    /// Delivers all gatherings, due or not, because the daemon stops.
    #[must_use]
    pub(crate) fn deliver_all(&mut self, now: Now) -> Vec<Effect> {
        let delivered = self.engine.deliver(now);
        self.perform(delivered);
        std::mem::take(&mut self.effects)
    }

    /// Saves the last look, because the daemon stops.
    #[must_use]
    pub(crate) fn save_all(&mut self) -> Vec<Effect> {
        self.save();
        std::mem::take(&mut self.effects)
    }

    /// Takes the runs whose output is not archived yet.
    pub(crate) fn take_archives(&mut self) -> Vec<Arc<Task>> {
        self.jobs.take_archives()
    }

    /// Starts a scan for other sessions of the project.
    #[must_use]
    pub(crate) fn scan_others(&mut self, now: Now) -> Vec<Effect> {
        self.jobs.push_chore(Chore::ScanOthers);
        self.go_on(now)
    }

    /// Whether a user's rule mutes the event: it is recorded and not delivered.
    pub(crate) fn mutes(&self, event: &Event) -> bool {
        self.engine.mutes(event)
    }

    /// Returns the counts of tasks; `None` before the first look.
    pub(crate) fn status(&self) -> Option<StatusCounts> {
        self.engine.counts()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns how many waits are in progress.
    pub(crate) fn n_waits(&self) -> usize {
        let is_of_wait = |held: &&HeldAnswer| matches!(held.response, Response::Waited(_));
        self.listeners.n_waits() + self.held.iter().filter(is_of_wait).count()
    }

    /// Returns the session's present name.
    pub(crate) fn name(&self) -> &str {
        &self.session_name
    }

    /// Returns the name that it had in the last look; `None` while it is missing.
    pub(crate) fn present_name(&self) -> Option<&str> {
        self.link.session_name.as_deref()
    }

    /// Returns what keeps it from working now, if anything.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.look_problem.as_deref()
    }

    /// Whether there was a look, or a failed one.
    pub(crate) fn has_begun(&self) -> bool {
        self.engine.counts().is_some() || self.look_problem.is_some()
    }

    /// Does everything that has become possible, and returns the effects.
    fn go_on(&mut self, now: Now) -> Vec<Effect> {
        self.release_held();
        self.forget_deaths();
        // A later look finds the changes.
        let may_look = !self.store.is_full;
        while let Some(next) = self.jobs.next(may_look, now.mono, is_over(&self.engine)) {
            match next {
                Next::Run(job, purpose) => {
                    self.jobs.running = Some(purpose);
                    self.effects.push(Effect::Run(job));
                }
                Next::Judge => self.judge_waits(now),
                Next::TakeLook(held) => self.take_held(held, now),
                Next::KeepReplaced(name) => self.keep_replaced(&name),
            }
        }
        // Answers that need no record, or whose records are stored already.
        self.release_held();
        self.follow_only_listened();
        let pieces = self.listeners.take_pieces().into_iter();
        self.effects.extend(pieces.map(|piece| match piece {
            Piece::Text(request_id, text) => Effect::Output(request_id, text),
            Piece::End(request_id) => Effect::OutputEnd(request_id),
            Piece::Cut(request_id) => Effect::OutputCut(request_id),
        }));
        std::mem::take(&mut self.effects)
    }

    fn change(&mut self, change: Change, now: Now) {
        match change {
            Change::Windows => {
                self.unreported_at = None;
                self.order(LookOrder::default());
            }
            Change::Output => {
                self.schedule.printed();
                if self.schedule.next_look() <= now.mono && !self.jobs.has_look() {
                    self.order(LookOrder::default());
                }
            }
            Change::Printed { pane, bytes } => {
                let ended = self.listeners.print(pane, &bytes, now);
                if self.listeners.is_guess(pane) && !self.doubts.are_sizes_unknown {
                    self.doubts.are_sizes_unknown = true;
                    let window = self.task_in(pane).map(|task| task.window);
                    self.order(LookOrder::of(window));
                }
                self.finish(ended, now);
                self.report_matches(now);
            }
            Change::Unfollowed => self.followed = None,
            Change::Paused(pane) => {
                // The last read of a run pauses its pane itself.
                if self.listeners.pause(pane) && !self.jobs.is_reading_last_output(pane) {
                    self.order_take_up(pane, 0);
                }
            }
            Change::Read(outcome) => {
                if let Some(read) = self.jobs.asked.pop_front() {
                    self.followed = None;
                    self.pane_read(read, *outcome, now);
                }
            }
            Change::FollowerLost => {
                self.lose_asked(now);
                // A look finds out whether their windows or the session are gone as well.
                let panes = self.listeners.panes();
                self.doubts.is_follower_lost = !panes.is_empty();
                let windows = panes.into_iter().filter_map(|pane| self.task_in(pane));
                let windows: Vec<WindowId> = windows.map(|task| task.window).collect();
                self.order(LookOrder::of(windows));
            }
            Change::Layout => self.read_sizes(),
            Change::Terminals(windows) => {
                self.order(LookOrder::of(windows));
            }
        }
    }

    /// Orders a look with a trigger.
    pub(super) fn order(&mut self, order: LookOrder) -> &mut QueuedLook {
        let look = self.jobs.order(order);
        look.is_safety = false;
        look
    }

    /// Orders a look, and what to do after it.
    pub(super) fn order_then(&mut self, order: LookOrder, then: AfterLook) {
        self.order(order).then.push(then);
    }

    fn leave(&mut self, request_id: RequestId, now: Now) {
        self.listeners.leave(request_id);
        let was_queued = self.jobs.forget_request(request_id);
        self.beginning.remove(&request_id);
        self.held.retain(|held| held.request_id != request_id);
        self.forget_ending(request_id, was_queued, now);
    }

    fn done(&mut self, outcome: Result<JobOutcome, String>, now: Now) {
        let Some(purpose) = self.jobs.running.take() else {
            return;
        };
        match purpose {
            Purpose::Look(look) => self.looked(look, outcome, now),
            Purpose::Sweep => self.swept(outcome, now),
            Purpose::LastOutput(pane, task, rows) => {
                self.followed = None;
                self.last_output_read(pane, &task, rows, outcome, now);
            }
            Purpose::End(end) => self.end_read(end, outcome, now),
            Purpose::Read(read) => {
                // The link follows every pane that it has read.
                self.followed = None;
                self.pane_read(read, outcome, now);
            }
            Purpose::Command(command) => self.command_done(command, outcome, now),
            Purpose::Drain | Purpose::Archive | Purpose::Chore => {}
        }
    }

    /// Adds an entry to the daemon's log.
    pub(super) fn log(&mut self, entry: LogEntry) {
        self.effects.push(Effect::Log(entry));
    }

    /// Converts effects of the engine.
    pub(super) fn perform(&mut self, effects: Vec<engine::EngineEffect>) {
        for effect in effects {
            match effect {
                engine::EngineEffect::Append(records) => {
                    self.ended_runs.add(&records);
                    self.effects.push(Effect::Append {
                        records,
                        session_name: self.session_name.clone(),
                        checkpoint: self.has_looked.then(|| self.link.checkpoint.clone()),
                    });
                }
                engine::EngineEffect::Status(counts) => self.effects.push(Effect::Status(counts)),
            }
        }
    }

    /// Records a notice without events.
    pub(super) fn notice(&mut self, level: Level, text: String, now: Now) {
        // With a disk that is too far behind there is no room for it.
        if !self.store.is_full {
            let effects = self.engine.notice(level, text, now);
            self.perform(effects);
        }
    }

    /// Makes tmux clear the deaths that are recorded by now.
    fn forget_deaths(&mut self) {
        let written = self.store.written;
        if let Some((_, record)) = self.death_record.take_if(|(seq, _)| *seq <= written) {
            self.jobs.push_chore(Chore::ForgetDeaths(record));
        }
    }

    /// Sends the link the set of panes to follow, if it has changed.
    fn follow_only_listened(&mut self) {
        let mut panes = self.listeners.panes();
        panes.extend(self.jobs.beginning());
        if self.followed.as_ref() != Some(&panes) {
            self.followed = Some(panes.clone());
            self.effects.push(Effect::Follow(panes));
        }
    }

    /// Sends the link what the tasks ask, if it has changed.
    pub(super) fn note_questions(&mut self) {
        let questions = self.engine.open_questions();
        if questions != self.questions {
            self.questions.clone_from(&questions);
            self.effects.push(Effect::Questions(questions));
        }
    }

    /// Returns all tasks of the last look.
    pub(super) fn tasks(&self) -> Vec<Arc<Task>> {
        let look = self.engine.last_look();
        look.map(|look| look.tasks.values().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns a task of the last look.
    pub(super) fn task(&self, window: WindowId) -> Option<Arc<Task>> {
        self.engine.last_look()?.tasks.get(&window).cloned()
    }

    /// Returns the task whose primary pane this is.
    pub(super) fn task_in(&self, pane: PaneId) -> Option<Arc<Task>> {
        task_in(&self.engine, pane).cloned()
    }
}

fn task_in(engine: &Engine, pane: PaneId) -> Option<&Arc<Task>> {
    let tasks = &engine.last_look()?.tasks;
    tasks.values().find(|task| task.pane == Some(pane))
}

/// Returns whether a pane's run has ended.
fn is_over(engine: &Engine) -> impl Fn(PaneId) -> bool {
    |pane| task_in(engine, pane).is_some_and(|task| !task.is_alive())
}
