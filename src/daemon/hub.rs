//! The loop: wait, decide, act. Owner of the engine; everybody else sends it something.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::backlog::Backlog;
use super::connection::Ask;
use super::control_clients::Change;
use super::endpoint::{Endpoint, Standing};
use super::feed_publisher::{FeedPublisher, Publication};
use super::look_schedule::LookSchedule;
use super::notices::Sinks;
use super::refresh::{Looked, Why};
use super::session_link::SessionLink;
use super::signals::Stopping;
use super::waiting::HeldAnswer;
use super::waits::Waits;
use super::{Options, commands, launches, run_archiver, typing, waiting};
use crate::archive::Limits;
use crate::clock::now;
use crate::config::LogsConfig;
use crate::engine::{Effect, Engine, ExpectedWait};
use crate::model::{GoneReason, Level, Millis, Now, PaneId, WindowId};
use crate::paths::Paths;
use crate::store::{Archiver, StoreGone};
use crate::tmux::{self, Extent};
use crate::wire::{
    DaemonStatus, LsTask, LsView, Refusal, RefusalKind, Request, Response, SnapshotLine, TaskFields,
};

/// How many requests may wait for the hub; further ones wait in their connections.
pub(super) const ASKS_QUEUED: usize = 32;

/// An autostarted daemon without session and readers leaves after this long.
const USELESS_AFTER: Duration = Duration::from_secs(600);

/// How often tmux is nudged after a run has ended, and for how long. A window that is run again at
/// once is in danger: of the next run nobody tells but its end, and the signal that tells tmux of the
/// end can be lost while it is still busy with the beginning (3.3a).
const NUDGE_EVERY: Duration = Duration::from_millis(15);
const NUDGE_FOR: Duration = Duration::from_millis(500);

/// How often at most tmux is asked to send notifications that it may hold back. Asked only when a
/// deadline wakes the hub anyway, which with live tasks is every two seconds.
const FLUSH_EVERY: Duration = Duration::from_millis(1500);

/// How long what the feed tells as well need not be saved, so that it is not written at each bell.
pub(super) const SAVE_WITHIN: Duration = Duration::from_secs(1);

/// How long a command that launches a task and then waits for it may take from the one to the other.
const WAIT_BEGINS_WITHIN: Duration = Duration::from_secs(5);

/// The state of a running daemon.
pub(super) struct Hub {
    pub(super) paths: Paths,
    pub(super) watch: SessionLink,
    pub(super) engine: Engine,
    pub(super) recorder: FeedPublisher,
    sinks: Sinks,
    pub(super) pace: LookSchedule,
    pub(super) waits: Waits,
    /// Answers of waits that rest on records which the disk has yet to take.
    pub(super) held_answers: Vec<HeldAnswer>,
    /// Keeps the output of runs that ended.
    pub(super) archiver: Archiver,
    /// How much is kept of the output of runs that ended.
    pub(super) kept: Limits,
    /// What was told and is still to be taken account of, in order.
    pub(super) backlog: Backlog,
    /// Whether panes may have other sizes than the terminals that waits hear them by.
    pub(super) is_layout_changed: bool,
    /// When tmux was last asked to send what it may hold back.
    flushed: Instant,
    /// Whether the client that follows output has gone since the last look.
    pub(super) is_follower_lost: bool,
    /// Panes that somebody hears and that were paused: what they print is to be taken up again.
    pub(super) paused: Vec<PaneId>,
    /// The connection that waits hear by.
    pub(super) heard_connection: u64,
    started_at: Millis,
    leaves_when_useless: bool,
    /// Since when there has been neither session nor reader.
    useless_since: Option<Instant>,
    /// Why the last look failed; `None` when it did not.
    pub(super) look_problem: Option<String>,
    /// How often a look that nobody called for found something that should have been told.
    pub(super) found_late: u64,
    /// When tmux is to be nudged next, and until when that is to go on.
    nudges: Option<(Instant, Instant)>,
    /// When the last look is to be saved; `None` when it is, or would be the same.
    save_at: Option<Instant>,
    /// That it is to stop.
    stopping: Stopping,
}

/// What woke the hub. All of it: this is what can make the daemon do something.
enum Wake {
    Asked(Ask),
    /// tmux or the kernel says that something has changed.
    Changed(Change),
    /// The store has written something, or the disk has refused it.
    Stored(Result<(), StoreGone>),
    /// A deadline of ours has come.
    Due,
    /// A signal, or whoever reads our stdout has gone.
    Stop,
}

/// What an answered request means for the loop.
pub(super) enum Next {
    GoOn,
    Leave,
}

impl Hub {
    pub(super) fn new(
        options: &Options,
        watch: SessionLink,
        mut engine: Engine,
        recorder: FeedPublisher,
        archiver: Archiver,
    ) -> Self {
        engine.tried(recorder.tried_seq());
        Self {
            paths: options.paths.clone(),
            watch,
            engine,
            recorder,
            sinks: Sinks::new(&options.config),
            pace: LookSchedule::new(options.interval),
            waits: Waits::default(),
            held_answers: Vec::new(),
            archiver,
            kept: limits(&options.config.logs),
            backlog: Backlog::default(),
            is_layout_changed: false,
            flushed: Instant::now(),
            is_follower_lost: false,
            paused: Vec::new(),
            heard_connection: 0,
            started_at: now().wall,
            leaves_when_useless: options.leaves_when_useless,
            useless_since: None,
            look_problem: None,
            found_late: 0,
            nudges: None,
            save_at: Some(Instant::now()),
            stopping: Stopping::new(),
        }
    }

    pub(super) fn stopping(&self) -> &Stopping {
        &self.stopping
    }

    /// Serves until it is told to stop.
    pub(super) async fn run(&mut self, presence: &mut Endpoint, asked: &mut mpsc::Receiver<Ask>) {
        let stopping = self.stopping.clone();
        loop {
            if let Some(pane) = self.paused.pop() {
                waiting::take_up(self, pane).await;
                continue;
            }
            if let Some(change) = self.backlog.pop() {
                self.on_change(change).await;
                continue;
            }
            let due = self.next_deadline().min(presence.next_deadline());
            // Losing an arm mid-await is safe: receiving and reading notifications
            // take nothing before they are done, and that it is to stop is remembered.
            let wake = tokio::select! {
                () = stopping.asked() => Wake::Stop,
                Some(ask) = asked.recv() => Wake::Asked(ask),
                change = self.watch.changed() => Wake::Changed(change),
                stored = self.recorder.changed() => Wake::Stored(stored),
                () = tokio::time::sleep_until(due) => Wake::Due,
            };
            let next = match wake {
                Wake::Stop => Next::Leave,
                Wake::Changed(change) => {
                    self.on_change(change).await;
                    Next::GoOn
                }
                Wake::Stored(Ok(())) => {
                    self.on_stored().await;
                    Next::GoOn
                }
                Wake::Stored(Err(error)) => {
                    // The next daemon carries on from what is written.
                    tracing::error!(%error, "leaving");
                    Next::Leave
                }
                Wake::Due => match presence.keep() {
                    Standing::Ours => self.on_deadline().await,
                    Standing::Theirs => Next::Leave,
                },
                Wake::Asked(ask) => self.answer(ask).await,
            };
            match next {
                Next::GoOn => {}
                Next::Leave => return,
            }
        }
    }

    fn next_deadline(&self) -> Instant {
        [
            Some(self.pace.next_look()),
            self.look_at(),
            self.watch.terminals.next_deadline().map(Instant::from_std),
            self.engine.deliver_at().map(Instant::from_std),
            self.save_at,
            self.nudges.map(|(next, _)| next),
            self.waits.next_deadline().map(Instant::from_std),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or_else(|| self.pace.next_look())
    }

    /// Returns when the engine wants a look. None is taken while the disk is too far behind.
    fn look_at(&self) -> Option<Instant> {
        let at = self.engine.look_at().map(Instant::from_std);
        at.filter(|_| !self.recorder.is_full())
    }

    async fn on_change(&mut self, change: Change) {
        match change {
            Change::Task => {
                // As a rule it is about what was told with it. If not, everything is looked at.
                if self.look_at_told().await == Looked::FoundNothing {
                    self.look().await;
                }
            }
            Change::Windows => drop(self.look_at_told().await),
            Change::Output => self.on_output().await,
            Change::Printed { pane, bytes } => waiting::printed(self, pane, &bytes).await,
            Change::Paused(_) | Change::Unfollowed | Change::FollowerLost => {
                let done = waiting::hear(self, vec![change]);
                waiting::finish(self, done).await;
            }
            Change::Layout => waiting::relayout(self).await,
        }
    }

    async fn on_output(&mut self) {
        self.watch.pause_busy().await;
        self.pace.printed();
        if self.pace.next_look() <= Instant::now() {
            self.look_at_told().await;
        }
    }

    async fn on_deadline(&mut self) -> Next {
        let at = Instant::now();
        let effects = self.engine.deliver_due(now());
        self.perform(effects);
        self.save_if_due();
        self.nudge_if_due();
        waiting::tick(self).await;
        let engine = &self.engine;
        let waits = |window| engine.prompt_of(window).is_some();
        let teaching = engine.teaching();
        let terminal_changed = self.watch.terminals.ask_due(waits, teaching, at.into_std());
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flushed = Instant::now();
            self.watch.flush().await;
        }
        let look_due = terminal_changed
            || self.pace.next_look() <= at
            || self
                .engine
                .look_at()
                .is_some_and(|due| Instant::from_std(due) <= at);
        if look_due {
            let for_safety = !terminal_changed
                && self.watch.is_told()
                && self.pace.is_safety(at)
                && self
                    .engine
                    .look_at()
                    .is_none_or(|due| Instant::from_std(due) > at);
            let why = if for_safety { Why::Safety } else { Why::Called };
            if for_safety {
                self.watch.ask_for_all_again();
            }
            // What is waited for concerns windows that somebody has told of: those that print, and
            // those of which tmux has still to say how their run ended.
            let extent = if for_safety || terminal_changed {
                Extent::Whole
            } else {
                Extent::Told
            };
            self.look_because(why, extent, &BTreeMap::new()).await;
        }
        if self.is_useless_for_long() {
            Next::Leave
        } else {
            Next::GoOn
        }
    }

    /// Saves the last look, so that the next daemon carries on from it.
    pub(super) fn save(&mut self) {
        let Some(look) = self.engine.before() else {
            self.save_at = None;
            return;
        };
        let first_undelivered = self.engine.first_undelivered();
        let bookmark = self.watch.bookmark();
        let is_taken = self.recorder.save(look, bookmark, first_undelivered);
        self.save_at = (!is_taken).then(|| Instant::now() + SAVE_WITHIN);
    }

    /// Waits until the disk has taken or refused what was recorded by now, and the counts are
    /// published, but no longer than that.
    pub(super) async fn settle(&mut self, limit: Duration) {
        let (seq, counts) = (self.recorder.given_seq(), self.recorder.given_counts());
        let deadline = Instant::now() + limit;
        while !self.recorder.has_tried(seq, counts) {
            match timeout_at(deadline, self.recorder.changed()).await {
                Ok(Ok(())) => self.on_stored().await,
                // It is for the loop to leave, if the store has gone.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// Does what waited for a report of the store: answers, deliveries, notices.
    async fn on_stored(&mut self) {
        let Publication { shown, counts } = self.recorder.publish();
        waiting::answer_held(self);
        self.engine.tried(self.recorder.tried_seq());
        let effects = self.engine.deliver_due(now());
        self.perform(effects);
        if let (Some(counts), Some(life)) = (counts, self.watch.life()) {
            let id = life.id;
            self.sinks
                .status(&mut self.watch.connection(), id, counts.line().as_deref())
                .await;
        }
        self.show(shown).await;
        if self.recorder.is_settled() {
            self.watch.forget_deaths().await;
        }
    }

    /// Nudges tmux for a while: a run has ended, and another may follow at once.
    pub(super) fn nudge_for_a_while(&mut self) {
        let now = Instant::now();
        self.nudges = Some((now + NUDGE_EVERY, now + NUDGE_FOR));
    }

    fn nudge_if_due(&mut self) {
        let now = Instant::now();
        if let Some((next, until)) = self.nudges.filter(|(next, _)| *next <= now) {
            if let Some(life) = self.watch.life() {
                tmux::nudge(life.server_pid);
            }
            self.nudges = (next < until).then_some((now + NUDGE_EVERY, until));
        }
    }

    /// Takes note that what was saved is out of date.
    pub(super) fn save_within(&mut self, pause: Duration) {
        let at = Instant::now() + pause;
        self.save_at = Some(self.save_at.map_or(at, |before| before.min(at)));
    }

    pub(super) fn save_if_due(&mut self) {
        if self.save_at.is_some_and(|at| at <= Instant::now()) {
            self.save();
        }
    }

    /// Hands records and counts to the store.
    pub(super) fn perform(&mut self, effects: Vec<Effect>) {
        self.recorder.perform(effects);
    }

    async fn show(&mut self, shown: Vec<super::feed_publisher::Shown>) {
        let id = self.watch.life().map(|life| life.id);
        let session = self.recorder.context().session_name.clone();
        for notice in shown {
            self.sinks
                .show(&mut self.watch.connection(), id, &session, &notice)
                .await;
        }
    }

    /// Records a notice that speaks of no event.
    pub(super) fn notice(&mut self, level: Level, text: String) {
        if self.recorder.is_full() {
            tracing::warn!("the disk is too far behind for a notice to be recorded");
            return;
        }
        let effects = self.engine.notice(level, text, now());
        self.perform(effects);
    }

    async fn answer(&mut self, ask: Ask) -> Next {
        match ask {
            Ask::Wait {
                request,
                begun,
                reply,
            } => {
                waiting::begin(self, request, begun, reply).await;
                Next::GoOn
            }
            Ask::Follow { window, raw, reply } => {
                let following = waiting::follow(self, &window, raw).await;
                drop(reply.send(following));
                Next::GoOn
            }
            Ask::Request(request, reply) => {
                let (response, next) = self.respond(request).await;
                drop(reply.send(response));
                next
            }
        }
    }

    async fn respond(&mut self, request: Request) -> (Response, Next) {
        match request {
            Request::Whereabouts => {
                // A rename of this very instant counts.
                if let Some(change) = self.watch.catch_up().await {
                    self.on_change(change).await;
                }
                let whereabouts = self.watch.whereabouts().await;
                (Response::Whereabouts(whereabouts), Next::GoOn)
            }
            Request::Status => (Response::Status(self.status()), Next::GoOn),
            Request::Look {
                launching,
                will_wait,
                owner,
            } => {
                self.look_at_all().await;
                if let Some(name) = launching {
                    if will_wait {
                        self.expect_wait(name.clone(), owner);
                    }
                    run_archiver::keep_replaced(self, &name).await;
                }
                (Response::Done, Next::GoOn)
            }
            Request::Run(request) => (launches::run(self, request).await, Next::GoOn),
            Request::Send(request) => (typing::send(self, request).await, Next::GoOn),
            Request::List => {
                self.look_at_all_of_few().await;
                (Response::List(self.view()), Next::GoOn)
            }
            Request::Count => {
                self.catch_up().await;
                let counts = self.engine.counts().unwrap_or_default();
                (Response::Counted(counts.into()), Next::GoOn)
            }
            Request::Find { task } => (commands::find(self, &task).await, Next::GoOn),
            Request::Kill { tasks, owner } => {
                let response = commands::kill(self, &tasks, reason(owner.as_deref())).await;
                (response, Next::GoOn)
            }
            Request::KillAll { owner } => {
                let response = commands::kill_all(self, reason(owner.as_deref())).await;
                (response, Next::GoOn)
            }
            Request::Explain { task } => (commands::explain(self, &task).await, Next::GoOn),
            Request::Prune => (commands::prune(self).await, Next::GoOn),
            Request::Stop { cleanup } => {
                if cleanup {
                    commands::cleanup(self).await;
                }
                (Response::Done, Next::Leave)
            }
            Request::Cursor { window } => (waiting::cursor(self, &window).await, Next::GoOn),
            Request::Subscribe { .. } | Request::Wait(_) | Request::Follow { .. } => {
                let message = "this has no answer at once".to_owned();
                (
                    Response::Refused(Refusal::new(RefusalKind::Usage, message)),
                    Next::GoOn,
                )
            }
        }
    }

    /// Takes note that a command which launches this task goes on to wait for it.
    pub(super) fn expect_wait(&mut self, task: String, owner: Option<String>) {
        let now = now();
        let expected = ExpectedWait {
            task,
            owner,
            until: now.mono + WAIT_BEGINS_WITHIN,
        };
        self.engine.expect_wait(expected, now);
    }

    fn view(&self) -> LsView {
        let look = self.engine.before().cloned().unwrap_or_default();
        let now = now();
        LsView::new(SnapshotLine::from(&look), |task| self.listed(task, now))
    }

    /// Returns a task with what is known of it besides.
    pub(super) fn listed(&self, task: TaskFields, now: Now) -> LsTask {
        let window: Option<WindowId> = task.window_id.parse().ok();
        let prompt = window.and_then(|window| self.engine.prompt_of(window));
        let stalled = window.and_then(|window| self.engine.stalled_for(window, now));
        let waiting_for = prompt.map(|prompt| prompt.text.clone());
        let stalled_ms = stalled.and_then(|stood| u64::try_from(stood.as_millis()).ok());
        LsTask::new(task, waiting_for, stalled_ms)
    }

    fn status(&self) -> DaemonStatus {
        let counts = self.engine.counts().unwrap_or_default();
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session_name: self.recorder.context().session_name.clone(),
            server: self.watch.server().socket().display().to_string(),
            exists: counts.exists,
            started_at: self.started_at,
            epoch: self.recorder.context().epoch.clone(),
            last_seq: self.recorder.last_seq(),
            feed: self.paths.feed().display().to_string(),
            log: self.paths.log().display().to_string(),
            problems: self.problems(),
            readers: self.n_readers(),
            waits: self.waits.under_way() + self.held_answers.len(),
            looks: self.watch.looks(),
            found_late: self.found_late,
            running: counts.running,
            waiting: counts.waiting,
            dead: counts.dead,
            stalled: counts.stalled,
        }
    }

    /// Returns what keeps us from our work now.
    fn problems(&self) -> Vec<String> {
        let of_feed = self.recorder.problem();
        of_feed
            .into_iter()
            .chain(self.look_problem.clone())
            .collect()
    }

    fn n_readers(&self) -> usize {
        self.recorder.live().readers().n()
    }

    fn is_useless_for_long(&mut self) -> bool {
        let exists = self.engine.counts().is_some_and(|counts| counts.exists);
        if exists || self.n_readers() > 0 || !self.leaves_when_useless {
            self.useless_since = None;
            return false;
        }
        self.useless_since
            .get_or_insert_with(Instant::now)
            .elapsed()
            >= USELESS_AFTER
    }

    /// Delivers what is gathered, saves, and takes our things out of tmux. For each there is a limit:
    /// what stays in a tmux that hangs, the next daemon takes over or removes, and what a disk that
    /// hangs has not taken by the deadline, it finds again.
    pub(super) async fn close(&mut self, limit: Duration, deadline: Instant) {
        let delivered = self.engine.deliver(now());
        self.perform(delivered);
        self.save();
        // A slow disk has more time while tmux is asked.
        let written = timeout(limit / 2, self.recorder.close()).await;
        let farewell = async {
            self.on_stored().await;
            if let Some(id) = self.watch.life().map(|life| life.id) {
                self.sinks.clear(&mut self.watch.connection(), id).await;
            }
            self.watch.close().await;
            self.sinks.close().await;
        };
        if timeout(limit, farewell).await.is_err() {
            tracing::warn!("tmux does not answer: our hooks and options stay in it");
        }
        let rest = async {
            if written.is_err() {
                self.recorder.close().await;
            }
            self.archiver.close().await;
        };
        if timeout_at(deadline, rest).await.is_err() {
            tracing::warn!("the disk does not answer: the last records may not be on it");
        }
    }
}

/// Returns why a task goes that the command of this owner ends.
fn reason(owner: Option<&str>) -> GoneReason {
    match owner {
        Some(_) => GoneReason::AgentKilled,
        None => GoneReason::UserKilled,
    }
}

/// Returns the bounds that the configuration sets.
fn limits(logs: &LogsConfig) -> Limits {
    let size = |n| usize::try_from(n).unwrap_or(usize::MAX);
    Limits {
        lines: size(logs.keep_lines),
        runs: size(logs.keep_runs),
        bytes: logs.keep_mib << 20,
    }
}
