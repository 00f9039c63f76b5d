//! Looks at the session, with everything else that is known of it, and where windows, panes and the
//! server went that a look does not have; sets the options of windows that follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::control_clients::ControlClients;
use super::SessionLink;
use super::watched_windows;
use crate::clock::now;
use crate::model::{GoneReason, PaneId, Snapshot, WindowId};
use crate::process::{self, Process};
use crate::rules::observe::Evidence;
use crate::rules::protocol::rows::LookRows;
use crate::session::{self, LinkState, LookOrder, LookOutcome};
use crate::tmux::{self, Connection, LookKind, Probe, TmuxError};

/// The result of a look through the control client.
enum AttachedLook {
    /// The look; `None` when the session is gone.
    Taken(Option<LookRows>),
    /// There is nothing to look at, or a slice of a sweep shows nothing new.
    Skipped(LookOutcome),
}

impl SessionLink {
    /// Looks at windows as ordered, or at a slice of all windows. A screen that has been unchanged for
    /// `quiet` may wait for input. After an error the last look remains valid.
    pub(in crate::daemon) async fn look(
        &mut self,
        order: &LookOrder,
        kind: LookKind,
        quiet: Duration,
    ) -> Result<LookOutcome, TmuxError> {
        let mut has_trigger = false;
        let look = match self.attached_look(order, kind, &mut has_trigger).await {
            Ok(AttachedLook::Taken(look)) => look,
            Ok(AttachedLook::Skipped(outcome)) => return Ok(outcome),
            // A process would wait as long again.
            Err(TmuxError::TimedOut) => return Err(TmuxError::TimedOut),
            Err(_) => {
                tracing::debug!(plan = "Detached", windows = "all", "look planned");
                self.look_detached().await?
            }
        };
        let reading = self.server_run_time();
        // Attaching can take long; the look is of its end.
        let now = now();
        let mut evidence = Evidence::default();
        match &look {
            None => self.forget_session().await,
            Some(look) => {
                let life = &look.session.life;
                self.is_unreachable = false;
                if self.life.as_ref() != Some(life) || self.server_process.is_none() {
                    self.server_process = Process::open(life.server_pid);
                    self.life = Some(life.clone());
                }
                self.note_name(&look.session.name);
                self.root.clone_from(&look.session.root);
                evidence.started_at = self.processes.starts(look);
            }
        }
        evidence.moved_panes = self.moved_panes(look.as_ref()).await;
        has_trigger |= self.processes.learn_ends(&mut evidence);
        let mut is_any_paused = false;
        if let Some(clients) = &mut self.clients {
            evidence.bells = std::mem::take(&mut clients.activity.bells);
            is_any_paused = clients.activity.is_any_paused();
        }
        evidence.gone = self
            .gone(look.as_ref(), &order.killed, &evidence.ended)
            .await;
        let observed = self.observer.observe(look.as_ref(), &evidence, now);
        let mut snapshot = observed.snapshot;
        self.add_queued(&mut snapshot);
        self.terminals
            .add_to(&mut snapshot, look.as_ref(), quiet, now);
        self.watched_windows = watched_windows(&snapshot);
        self.run_panes = self.observer.run_panes();
        self.processes.watch(self.observer.live_pids());
        self.options.note_look(&snapshot, observed.write_runs);
        self.is_unsettled = observed.unsettled;
        let look = session::Look {
            at: now,
            snapshot,
            is_whole: look.is_none() || (kind == LookKind::Slice && !self.memory.is_sweeping()),
            has_trigger,
            is_unsettled: observed.unsettled,
            needs_nudge: observed.nudge,
            death_record: look.map(|look| look.death_record).unwrap_or_default(),
            link: LinkState {
                life: self.life.clone(),
                session_name: self.session_name(),
                bookmark: self.observer.bookmark(),
                is_connected: self.is_connected(),
                reports_respawns: self.reports_respawns,
                connection: self.connections,
                is_any_paused,
            },
        };
        if look.is_whole {
            self.idle.note_sweep(now.mono, reading);
        }
        let (windows, is_whole) = (look.snapshot.tasks.len(), look.is_whole);
        tracing::debug!(windows, is_whole, "looked");
        Ok(LookOutcome::Looked(Box::new(look)))
    }

    /// Adds which tasks wait for a place in their slots, and when the others began.
    fn add_queued(&mut self, snapshot: &mut Snapshot) {
        let tasks = &snapshot.tasks;
        self.began.retain(|window, (run, _)| {
            let task = tasks.get(window);
            task.is_some_and(|task| task.run == *run)
        });
        for (window, task) in &mut snapshot.tasks {
            if task.settings.slot.is_none() {
                continue;
            }
            let known = self.began.get(window).map(|(_, at)| (false, *at));
            let read = || process::queue_state(&self.paths.runtime, task);
            let (is_queued, at) = known.unwrap_or_else(read);
            if is_queued {
                Arc::make_mut(task).queued = true;
                continue;
            }
            self.began.insert(*window, (task.run, at));
            if at.is_some() {
                Arc::make_mut(task).started_at = at;
            }
        }
    }

    /// Looks through the control client, which is dropped when it fails. The look of an order that is a
    /// barrier includes everything that tmux had to report before the order. Notes whether it had a trigger
    /// just then.
    async fn attached_look(
        &mut self,
        order: &LookOrder,
        kind: LookKind,
        has_trigger: &mut bool,
    ) -> Result<AttachedLook, TmuxError> {
        // Its answer comes behind all reports. Where it may lack one, it is taken once more.
        let mut is_barrier = order.is_own_barrier();
        loop {
            let run_time = self.server_run_time();
            let (Some(clients), Some(life)) = (&mut self.clients, &self.life) else {
                return Err(TmuxError::Closed);
            };
            let mut synced = Ok(());
            if order.is_barrier && !order.is_own_barrier() {
                synced = clients.main.sync().await;
            }
            // The look includes whatever triggers it.
            *has_trigger |= clients.catch_up() | self.processes.catch_up();
            let mut closed = std::mem::take(&mut clients.activity.closed);
            // Of a window that came and went since the last look, it was reported that it came.
            closed.retain(|window| self.run_panes.contains_key(window));
            // What was reported before is on its way to the session, or waits for this look.
            let is_reported = clients.activity.are_windows_reported()
                || !self.processes.ended.is_empty()
                || !closed.is_empty();
            *has_trigger |= is_reported;
            let has_reports = is_reported || clients.activity.is_any_reported();
            let is_needed = match kind {
                LookKind::Windows => {
                    let is_named = !order.windows.is_empty() || !order.killed.is_empty();
                    is_named || has_reports || self.is_unsettled || synced.is_err()
                }
                LookKind::Slice => {
                    let is_swept = || self.idle.is_swept(Instant::now().into_std(), run_time);
                    self.memory.is_sweeping() || has_reports || !is_swept()
                }
            };
            if !is_needed {
                tracing::debug!(plan = ?kind, "look not taken");
                return Ok(AttachedLook::Skipped(LookOutcome::NotNeeded));
            }
            let ControlClients { main, activity, .. } = &mut **clients;
            // The look after this includes their output until then.
            main.continue_panes(activity.to_continue());
            let mut changed = std::mem::take(&mut activity.changed);
            changed.extend(&order.windows);
            tracing::debug!(plan = ?kind, windows = ?changed, "look planned");
            let hung_up = self.processes.hung_up();
            let ended = self.processes.ended.keys().copied().collect();
            self.memory.expect(activity.printed(), &ended, changed);
            if activity.are_all_reported {
                self.memory.expect_all();
            }
            self.memory.forget_hung_up(&hung_up);
            closed.extend(order.killed.keys());
            self.memory.forget_windows(&closed);
            let mut connection = Connection::Attached(main);
            let target = format!("{}:", life.id);
            let look = tmux::look(&mut connection, &target, &mut self.memory, kind).await;
            let look = match synced.and(look) {
                Ok(look) => look,
                Err(error) => {
                    self.lose_clients(&error);
                    return Err(error);
                }
            };
            // Each look queries the windows of paused panes.
            activity.record_look(look.iter().flat_map(LookRows::quietness));
            let is_last = kind == LookKind::Windows || !self.memory.is_sweeping();
            if !is_last && !has_reports && self.memory.is_same() {
                return Ok(AttachedLook::Skipped(LookOutcome::NothingNew));
            }
            if std::mem::replace(&mut is_barrier, false) {
                *has_trigger |= clients.catch_up();
                let is_ours = |window: &WindowId| self.run_panes.contains_key(window);
                if clients.activity.has_reports_since_look(is_ours) {
                    continue;
                }
            }
            return Ok(AttachedLook::Taken(look));
        }
    }

    /// Returns the panes of runs that are not their window's primary one in this look, and still exist.
    async fn moved_panes(&mut self, look: Option<&LookRows>) -> BTreeSet<PaneId> {
        let rows = look.into_iter().flat_map(|look| &look.windows);
        let replaced = rows.filter_map(|row| {
            let (was, is) = (self.run_panes.get(&row.window)?, row.pane.as_ref()?.pane);
            (*was != is).then_some(*was)
        });
        let replaced: BTreeSet<PaneId> = replaced.collect();
        if replaced.is_empty() {
            return replaced;
        }
        let existing = tmux::existing_panes(&mut self.connection(), &replaced).await;
        existing.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not ask where panes went");
            replaced
        })
    }

    /// Returns why windows are gone, where we or tmux know.
    async fn gone(
        &mut self,
        look: Option<&LookRows>,
        killed: &BTreeMap<WindowId, GoneReason>,
        ended: &BTreeSet<u32>,
    ) -> BTreeMap<WindowId, GoneReason> {
        let rows = look.into_iter().flat_map(|look| &look.windows);
        let present: BTreeSet<WindowId> = rows.map(|row| row.window).collect();
        let (mut reasons, mut unexplained) = (BTreeMap::new(), Vec::new());
        for (window, pid) in &self.watched_windows {
            if present.contains(window) {
                continue;
            }
            match killed.get(window) {
                Some(reason) => drop(reasons.insert(*window, *reason)),
                // A pane whose process has ended was not moved.
                None if pid.is_some_and(|pid| ended.contains(&pid)) => {}
                None => unexplained.push(*window),
            }
        }
        if !unexplained.is_empty() && self.server_listens() {
            match tmux::existing_windows(&mut self.connection(), &unexplained, None).await {
                Ok(found) => {
                    reasons.extend(found.into_iter().map(|window| (window, GoneReason::Moved)));
                }
                Err(error) => tracing::debug!(%error, "could not ask where windows went"),
            }
        }
        reasons
    }
}

/// How long a server may take to end after it has closed its socket.
const EXIT_TIME: Duration = Duration::from_millis(500);

impl SessionLink {
    /// Decides what it means that nothing listens on the server's socket: the server and the session are gone, unless
    /// the server runs and only its socket is missing.
    pub(super) async fn without_server(&mut self) -> Result<Option<LookRows>, TmuxError> {
        // A server that ends closes its socket a little earlier, and nothing reports its end to us without a handle.
        let deadline = Instant::now() + EXIT_TIME;
        while self.server_runs() && !self.is_unreachable {
            if Instant::now() >= deadline {
                self.is_unreachable = true;
                break;
            }
            tokio::time::sleep(EXIT_TIME / 100).await;
        }
        match &self.life {
            Some(life) if self.is_unreachable && self.server_runs() => {
                Err(TmuxError::Unreachable {
                    socket: self.server.socket().to_owned(),
                    pid: life.server_pid,
                })
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Whether the server of the last look still runs. It can take for ever to end, but the tasks in it do not.
    fn server_runs(&self) -> bool {
        let runs = |pid: &u32| Process::open(*pid).is_some_and(|process| process.is_running());
        let watched = self.watched_windows.iter();
        let mut tasks = watched.filter_map(|(_, pid)| pid.as_ref()).peekable();
        let server = self.server_process.as_ref();
        server.is_some_and(Process::is_running) && (tasks.peek().is_none() || tasks.any(runs))
    }

    /// Whether a server may have its socket, as the kernel says without a process.
    pub(super) fn server_listens(&self) -> bool {
        self.server.probe() != Probe::Absent
    }
}

impl SessionLink {
    /// Records a window that a launch has created or used again: its options are set, and its pane has changed.
    pub(in crate::daemon) fn note_launched(&mut self, window: WindowId, pane: Option<PaneId>) {
        self.options.note_launched(window);
        self.memory.expect(pane, &BTreeSet::new(), [window]);
    }

    /// Sets some options of new windows, and writes some run numbers.
    pub(in crate::daemon) async fn set_some_options(&mut self) {
        let settings = self.options.take_line(self.is_connected());
        let connection = &mut self.connection();
        if let Err(error) = tmux::set_window_options(connection, &settings).await {
            // The next look tries again.
            tracing::warn!(%error, "could not set the options of windows");
            return;
        }
        self.options.note_set(&settings);
        // A look that does not read these windows again finds the numbers in the memory.
        let runs = settings
            .iter()
            .filter_map(|set| Some((set.window, set.run?)));
        runs.for_each(|(window, run)| self.memory.note_run(window, run));
    }
}
