//! Ending runs: the one way in which commands, time limits and launches end what is alive.
//!
//! A run is asked to end, and what is left of it after the grace time is killed. Only when the kernel
//! has reported that nothing is left does the window go, or the next run begin. Until then the run
//! counts as alive: its end is recorded once, together with what it was for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::ending_runs::{Ending, Stage, Then, TimeLimit, WaitingCommand};
use super::input::{Effect, LookOrder};
use super::job_queue::{AfterLook, Command};
use super::listeners::RequestId;
use super::machine::Session;
use crate::model::{
    EndOrder, Error, GoneReason, Launch, LeftProcess, Level, Now, Replaces, Snapshot, StopChoice,
    StopPlan, Task, WindowId,
};
use crate::wire::{EndedTask, EndingRun, Response};

/// How long tmux may take to report that a run's process has ended, at least: on a busy machine the look
/// that shows it can take longer. After that its window is closed all the same.
const REPORTED_WITHIN: Duration = Duration::from_secs(1);

impl Session {
    /// Ends the runs of these tasks, and does what follows when nothing is left of any of them.
    pub(super) fn end_runs(
        &mut self,
        tasks: Vec<Arc<Task>>,
        reasons: &BTreeMap<WindowId, GoneReason>,
        choice: &StopChoice,
        then: Then,
        now: Now,
    ) {
        let mut marks = Vec::new();
        for task in &tasks {
            let reason = reasons.get(&task.window).copied();
            let plan = self.plan_of(task, choice);
            if let Some(ending) = self.endings.runs.get_mut(&task.window) {
                let is_marked = ending.reason.is_some();
                ending.reason = ending.reason.or(reason);
                if let (false, Some(reason)) = (is_marked, reason) {
                    let known = Arc::make_mut(&mut ending.task);
                    known.asked_by.clone_from(&task.asked_by);
                    self.jobs
                        .push_command(Command::Mark(vec![(Arc::clone(task), reason)]));
                }
                // A shorter grace time counts.
                if ending.stage == Stage::Stopping {
                    self.stop_processes(task, plan, true);
                }
                continue;
            }
            let mut stage = Stage::Stopping;
            match (reason, task.pid) {
                (Some(reason), Some(_)) if task.is_alive() => {
                    marks.push((Arc::clone(task), reason));
                    stage = Stage::Marking;
                }
                (Some(_) | None, Some(_)) => self.stop_processes(task, plan.clone(), false),
                // tmux has forgotten the process of an ended run.
                (Some(_) | None, None) => stage = Stage::Ended(None),
            }
            self.endings.begin(Ending {
                task: Arc::clone(task),
                reason,
                stage,
                ended: None,
                is_looked_at: stage == Stage::Ended(None),
                is_window_gone: false,
                waits_for: Vec::new(),
            });
            if stage == Stage::Marking {
                self.stops.insert(task.window, plan);
            }
        }
        if !marks.is_empty() {
            self.jobs.push_command(Command::Mark(marks));
        }
        let open = tasks.iter().map(|task| task.window).collect();
        self.endings.orders.push(WaitingCommand {
            tasks,
            open,
            failed: Vec::new(),
            ended: BTreeMap::new(),
            then,
        });
        self.proceed_with_endings(now);
    }

    /// Starts a task, after the live run of its slot has ended if there is one. Launches into one slot
    /// follow each other. tmux is asked to launch first, and says which run is alive: nothing is ended for
    /// a launch that it refuses.
    pub(super) fn replace_run(&mut self, request_id: RequestId, request: Launch, now: Now) {
        if self.endings.launching.contains_key(&request.name) {
            self.endings.launches.push_back((request_id, request));
            return;
        }
        let name = request.name.clone();
        self.endings.launching.insert(name, request_id);
        let ending = self.endings.of_name(&request.name);
        let request = Box::new(request);
        if ending.is_empty() {
            let keep = Command::KeepReplaced(request_id, request.name.clone());
            self.jobs.push_command(keep);
            self.launch(request_id, request, Vec::new());
        } else {
            self.end_for_launch(ending, request_id, request, now);
        }
    }

    pub(super) fn launch(&mut self, request_id: RequestId, request: Box<Launch>, ended: Vec<u32>) {
        self.jobs
            .push_command(Command::Launch(request_id, request, ended));
    }

    /// Ends the live run that tmux has shown to a launch, unless its client has left meanwhile.
    pub(super) fn end_replaced(
        &mut self,
        request_id: RequestId,
        request: Box<Launch>,
        window: WindowId,
        pid: u32,
        now: Now,
    ) {
        if request.replaces == Replaces::Ended || self.look_problem.is_some() {
            self.launch_over(&request.name, now);
            let missing = self.missing();
            return self.refuse(request_id, missing);
        }
        match self.task(window).filter(|task| task.pid == Some(pid)) {
            Some(task) => self.end_for_launch(vec![task], request_id, request, now),
            None => {
                let then = AfterLook::Launch(request_id, request);
                self.order_then(LookOrder::of([window]), then);
            }
        }
    }

    fn end_for_launch(
        &mut self,
        tasks: Vec<Arc<Task>>,
        request_id: RequestId,
        request: Box<Launch>,
        now: Now,
    ) {
        let then = Then::Launch(request_id, request);
        let choice = StopChoice::default();
        self.end_runs(tasks, &BTreeMap::new(), &choice, then, now);
    }

    /// Processes that windows are marked: their runs are asked to end.
    pub(super) fn endings_marked(&mut self, marks: &[(Arc<Task>, GoneReason)], now: Now) {
        for (marked, _) in marks {
            let Some(ending) = self.endings.runs.get_mut(&marked.window) else {
                continue;
            };
            if ending.stage != Stage::Marking {
                continue;
            }
            ending.stage = Stage::Stopping;
            let task = Arc::clone(&ending.task);
            let plan = self.stops.remove(&marked.window);
            let plan = plan.unwrap_or_else(|| self.plan_of(&task, &StopChoice::default()));
            self.stop_processes(&task, plan, false);
        }
        self.save_within(Duration::ZERO, now);
    }

    /// Notes for whom is waited.
    pub(super) fn run_waits(&mut self, window: WindowId, left: Vec<LeftProcess>) {
        if let Some(ending) = self.endings.runs.get_mut(&window) {
            ending.waits_for = left;
        }
    }

    /// Processes that the kernel has reported the end of a run's processes, or what is left.
    pub(super) fn run_ended(&mut self, window: WindowId, left: &[LeftProcess], now: Now) {
        let Some(ending) = self.endings.runs.get_mut(&window) else {
            return;
        };
        if left.is_empty() && ending.is_window_gone {
            let ended = ending.ended.take();
            self.endings.runs.remove(&window);
            self.endings.settle(window, ended, None);
        } else if left.is_empty() {
            ending.stage = Stage::Ended(Some(now.mono + REPORTED_WITHIN));
            if ending.ended.is_some() {
                return self.proceed_with_endings(now);
            }
            let then = AfterLook::RunEnded(window);
            self.order_then(LookOrder::of([window]), then);
        } else {
            let failure = format!("{}: {}", label(&ending.task), LeftProcess::still_run(left));
            self.ending_failed(window, &failure);
            self.order(LookOrder::of([window]));
        }
        self.proceed_with_endings(now);
    }

    /// A look was taken after the run in this window had ended.
    pub(super) fn ended_run_looked_at(&mut self, window: WindowId, now: Now) {
        if let Some(ending) = self.endings.runs.get_mut(&window) {
            ending.is_looked_at = true;
        }
        self.proceed_with_endings(now);
    }

    /// Gives up to end the run in this window.
    fn ending_failed(&mut self, window: WindowId, failure: &str) {
        let Some(ending) = self.endings.runs.remove(&window) else {
            return;
        };
        self.stops.remove(&window);
        if ending.reason.is_some() && !ending.is_window_gone {
            self.jobs.push_command(Command::Unmark(vec![window]));
        }
        self.endings.settle(window, None, Some(failure));
    }

    /// Processes that windows were closed, or why the next of them could not be.
    pub(super) fn windows_closed(
        &mut self,
        windows: &[WindowId],
        closed: BTreeSet<WindowId>,
        failure: Option<String>,
        now: Now,
    ) {
        if let Some(failure) = failure {
            for window in windows.iter().filter(|window| !closed.contains(window)) {
                self.ending_failed(*window, &format!("{window}: {failure}"));
            }
        }
        let reasons = closed.iter().filter_map(|window| {
            let ending = self.endings.runs.get(window)?;
            Some((*window, ending.reason?))
        });
        let order = LookOrder {
            killed: reasons.collect(),
            ..LookOrder::of(windows.iter().copied())
        };
        self.order(order);
        self.proceed_with_endings(now);
    }

    /// Goes on with runs that have ended, and with commands that have waited for them.
    pub(super) fn proceed_with_endings(&mut self, now: Now) {
        let is_shown = |ending: &Ending| match ending.stage {
            Stage::Ended(until) => {
                let is_over = until.is_none() && ending.is_looked_at && !self.is_unsettled;
                ending.ended.is_some() || !ending.task.is_alive() || is_over
            }
            Stage::Marking | Stage::Stopping | Stage::Closing => false,
        };
        let shown: Vec<WindowId> = self
            .endings
            .runs
            .iter()
            .filter(|(_, ending)| is_shown(ending))
            .map(|(window, _)| *window)
            .collect();
        let mut closing = Vec::new();
        for window in shown {
            let is_kept = self.endings.is_window_kept(window);
            let Some(ending) = self.endings.runs.get_mut(&window) else {
                continue;
            };
            ending.stage = Stage::Closing;
            if ending.task.is_alive() {
                let run = ending.ended.as_ref().unwrap_or(&ending.task);
                let reason = match ending.reason {
                    Some(reason) => reason.shown_word(),
                    None => Some("replaced"),
                };
                let archive = Command::Archive(Arc::clone(run), reason);
                self.jobs.push_command(archive);
            }
            if is_kept {
                let ended = ending.ended.clone();
                self.endings.settle(window, ended, None);
            } else if ending.reason.is_some() {
                closing.push(window);
            } else {
                // Nothing needs its slot any more.
                self.endings.runs.remove(&window);
                self.endings.settle(window, None, None);
                self.order(LookOrder::of([window]));
            }
        }
        if !closing.is_empty() {
            let of_closing = |window| closing.contains(&window);
            self.jobs.archive_first(of_closing);
            self.jobs.push_command(Command::Close(closing));
        }
        let is_done = |order: &mut WaitingCommand| order.open.is_empty();
        let done: Vec<WaitingCommand> = self.endings.orders.extract_if(.., is_done).collect();
        for order in done {
            self.runs_ended(order, now);
        }
    }

    /// Does what follows when the runs of a command have ended.
    fn runs_ended(&mut self, order: WaitingCommand, now: Now) {
        let WaitingCommand {
            tasks,
            failed,
            ended,
            then,
            ..
        } = order;
        let refusal = (!failed.is_empty()).then(|| {
            Error::failed(format!("could not end {}", failed.join("; ")))
                .with_hint("what is another user's, that user has to end")
        });
        match then {
            Then::Close => {
                if let Some(refusal) = refusal {
                    self.notice(Level::Warning, refusal.message, now);
                }
            }
            Then::Answer(request_id) => {
                let gone: Vec<&Arc<Task>> = tasks
                    .iter()
                    .filter(|task| self.task(task.window).is_none_or(|now| now.run != task.run))
                    .collect();
                if !gone.is_empty() {
                    let names: Vec<String> = gone.iter().map(|task| label(task)).collect();
                    let text = format!("killed {}", list_of_tasks(&names));
                    self.notice(Level::Info, text, now);
                }
                match refusal {
                    Some(refusal) => self.refuse_when_stored(request_id, refusal),
                    None => {
                        let of = |task: &Arc<Task>| fields_of(task, ended.get(&task.window));
                        let tasks = tasks.iter().map(of).collect();
                        let moved = Vec::new();
                        self.answer_when_stored(request_id, Response::Ended { tasks, moved });
                    }
                }
            }
            Then::EndSession(request_id, killer) => match refusal {
                Some(refusal) => {
                    self.close_kept(&tasks, now);
                    self.refuse_when_stored(request_id, refusal);
                }
                None => {
                    let windows = self.tasks().iter().map(|task| task.window).collect();
                    self.jobs.archive_first(|_| true);
                    self.jobs
                        .push_command(Command::KillSession(request_id, killer, windows));
                }
            },
            Then::Abandon(name) => self.launch_over(&name, now),
            Then::Launch(request_id, request) => match refusal {
                Some(refusal) => {
                    self.launch_over(&request.name, now);
                    self.refuse_when_stored(request_id, refusal);
                }
                None => {
                    let ended = tasks.iter().filter_map(|task| task.pid).collect();
                    self.launch(request_id, request, ended);
                }
            },
        }
    }

    /// Closes the windows of runs that have ended and were to end with their session.
    fn close_kept(&mut self, tasks: &[Arc<Task>], now: Now) {
        let windows: Vec<WindowId> = tasks
            .iter()
            .map(|task| task.window)
            .filter(|window| self.endings.contain(*window))
            .collect();
        if !windows.is_empty() {
            self.jobs.push_command(Command::Close(windows));
            self.proceed_with_endings(now);
        }
    }

    /// A launch is over: the next one into the same slot begins. If a run was ended for it whose window
    /// it has not taken, that is told like any other end.
    pub(super) fn launch_over(&mut self, name: &str, now: Now) {
        let is_left =
            |_: &WindowId, ending: &mut Ending| ending.reason.is_none() && ending.task.name == name;
        let left = self.endings.runs.extract_if(.., is_left);
        let left: Vec<WindowId> = left.map(|(window, _)| window).collect();
        if !left.is_empty() {
            self.order(LookOrder::of(left));
        }
        self.endings.launching.remove(name);
        let mut launches = self.endings.launches.iter();
        let next = launches.position(|(_, request)| request.name == name);
        if let Some((request_id, request)) =
            next.and_then(|next| self.endings.launches.remove(next))
        {
            self.replace_run(request_id, request, now);
        }
    }

    /// Continues to end what an earlier daemon has begun to end.
    pub(super) fn resume_endings(&mut self, look: &Snapshot) {
        for task in look.tasks.values() {
            let Some(reason) = task.ending else { continue };
            let last = self
                .engine
                .last_look()
                .and_then(|last| last.tasks.get(&task.window));
            // The last daemon had not recorded its end.
            let was_alive = last.is_none_or(|last| last.is_alive());
            if self.endings.contain(task.window) || !(task.is_alive() || was_alive) {
                continue;
            }
            let mut before = Arc::clone(last.filter(|last| last.run == task.run).unwrap_or(task));
            let known = Arc::make_mut(&mut before);
            known.pid = known.pid.or(task.pid);
            known.asked_by.clone_from(&task.asked_by);
            let plan = self.plan_of(&before, &StopChoice::default());
            self.stop_processes(&before, plan, true);
            let stage = match before.pid {
                Some(_) => Stage::Stopping,
                None => Stage::Closing,
            };
            let window = task.window;
            self.endings.begin(Ending {
                task: before,
                reason: Some(reason),
                stage,
                ended: None,
                is_looked_at: false,
                is_window_gone: false,
                waits_for: Vec::new(),
            });
            if stage == Stage::Closing {
                self.jobs.push_command(Command::Close(vec![window]));
            }
        }
    }

    /// Notes until when the runs of this look may last.
    pub(super) fn note_time_limits(&mut self, now: Now) {
        let limits = std::mem::take(&mut self.endings.limits);
        for task in self.tasks() {
            let (Some(limit), Some(started_at)) = (task.settings.stop.kill_after, task.started_at)
            else {
                continue;
            };
            if !task.is_alive() || task.queued || self.endings.contain(task.window) {
                continue;
            }
            let known = limits
                .get(&task.window)
                .filter(|known| known.run == task.run);
            let at = known.map_or_else(
                || {
                    let lasted = now.wall.saturating_sub(started_at);
                    let lasted = Duration::from_millis(u64::try_from(lasted).unwrap_or(0));
                    now.mono + limit.saturating_sub(lasted)
                },
                |known| known.at,
            );
            let run = task.run;
            self.endings
                .limits
                .insert(task.window, TimeLimit { run, at });
        }
    }

    /// Ends the runs that have lasted as long as they may.
    pub(super) fn end_overdue(&mut self, now: Now) {
        for ending in self.endings.runs.values_mut() {
            if let Stage::Ended(until) = &mut ending.stage {
                until.take_if(|until| *until <= now.mono);
            }
        }
        let limits = self.endings.limits.iter();
        let due: Vec<WindowId> = limits
            .filter(|(_, limit)| limit.at <= now.mono)
            .map(|(window, _)| *window)
            .collect();
        let mut tasks = Vec::new();
        for window in due {
            self.endings.limits.remove(&window);
            tasks.extend(self.task(window).filter(|task| task.is_alive()));
        }
        if !tasks.is_empty() {
            let reasons = tasks
                .iter()
                .map(|task| (task.window, GoneReason::TimedOut))
                .collect();
            self.end_runs(tasks, &reasons, &StopChoice::default(), Then::Close, now);
        }
        self.proceed_with_endings(now);
    }

    /// Returns the runs of these tasks that are being ended; of all tasks if none is named. Kills what
    /// is left of them if that is asked for.
    pub(super) fn endings_of(&mut self, names: &[String], at_once: bool) -> Vec<EndingRun> {
        let is_named = |task: &Task| {
            let window = task.window.to_string();
            names.is_empty()
                || names
                    .iter()
                    .any(|name| *name == task.name || *name == window)
        };
        let runs = self.endings.runs.values();
        // One that is only closed with others has ended.
        let runs: Vec<(Arc<Task>, Stage, Vec<LeftProcess>)> = runs
            .filter(|ending| is_named(&ending.task) && ending.stage != Stage::Closing)
            .map(|ending| {
                let task = Arc::clone(&ending.task);
                (task, ending.stage, ending.waits_for.clone())
            })
            .collect();
        if at_once {
            for (task, stage, _) in &runs {
                if *stage == Stage::Stopping {
                    let plan = StopPlan {
                        grace: Duration::ZERO,
                        ..StopPlan::default()
                    };
                    self.stop_processes(task, plan, true);
                }
            }
        }
        runs.into_iter()
            .map(|(task, _, left)| EndingRun {
                window_id: task.window.to_string(),
                window_name: task.name.clone(),
                processes: left.iter().map(LeftProcess::words).collect(),
            })
            .collect()
    }

    /// Drops what a client waits for that has disconnected. What has begun to end is ended all the same.
    /// `was_queued` says that its launch was about to begin.
    pub(super) fn forget_ending(&mut self, request_id: RequestId, was_queued: bool, now: Now) {
        self.endings
            .launches
            .retain(|(other, _)| *other != request_id);
        for order in &mut self.endings.orders {
            if order.then.request() == Some(request_id) {
                match &order.then {
                    Then::Answer(_) => order.then = Then::Close,
                    // Its environment is gone with the client.
                    Then::Launch(_, request) => {
                        order.then = Then::Abandon(request.name.clone());
                    }
                    Then::EndSession(..) | Then::Close | Then::Abandon(_) => {}
                }
            }
        }
        if was_queued {
            let mut launching = self.endings.launching.iter();
            let name = launching.find(|(_, other)| **other == request_id);
            if let Some(name) = name.map(|(name, _)| name.clone()) {
                self.launch_over(&name, now);
            }
        }
    }

    fn plan_of(&self, task: &Task, choice: &StopChoice) -> StopPlan {
        StopPlan::of(&task.settings.stop, choice, &self.stop_defaults)
    }

    fn stop_processes(&mut self, task: &Task, plan: StopPlan, is_asked: bool) {
        let order = EndOrder::of(task, plan, is_asked);
        self.effects.extend(order.map(Effect::EndRun));
    }
}

/// Returns a task in words: `@12 (api)`.
pub(super) fn label(task: &Task) -> String {
    format!("{} ({})", task.window, task.name)
}

/// Returns tasks in words: `tasks @1 (a), @2 (b)`.
pub(super) fn list_of_tasks(names: &[String]) -> String {
    format!("task{} {}", plural(names.len()), names.join(", "))
}

pub(super) fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// Returns a task that was ended, with how its run ended where that is known.
pub(super) fn fields_of(task: &Task, ended: Option<&Arc<Task>>) -> EndedTask {
    let exit = ended.and_then(|ended| ended.exit());
    EndedTask {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
        exit_code: exit.and_then(|exit| exit.code),
        exit_signal: exit.and_then(|exit| exit.signal.as_ref().map(ToString::to_string)),
    }
}
