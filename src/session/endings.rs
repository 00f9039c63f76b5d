//! Ending runs: the one way in which commands, time limits and launches end what is alive.
//!
//! A run is asked to end, and what is left of it after the grace time is killed. Only when the kernel
//! has reported that nothing is left does the window go, or the next run begin. Until then the run
//! counts as alive: its end is recorded once, together with what it was for.
//!
//! The window is marked in tmux first, so that the next daemon finishes what a killed one had begun; the
//! command that waits asks it again (`Request::repeated`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::ending_runs::{Ending, RunEnd, Stage, WaitingCommand};
use super::input::{ClosedWindows, Effect, Job, LogLevel, LookOrder};
use super::promise::{Promise, promise};
use super::state::{Cx, State};
use super::stories::turn_to_change;
use crate::model::*;
use crate::rules::wire::{EndedTask, EndingRun};

/// How long tmux may take to report that a run's process has ended, on a busy machine, before its window is
/// closed all the same.
const REPORTED_WITHIN: Duration = Duration::from_secs(1);

/// Ends the runs of these tasks, and waits until nothing is left of any of them. `reasons` says why
/// their windows are closed, also without who waits for it; the windows of the others, and all if
/// `keeps_windows`, stay as they are when their runs have ended. Returns the tasks as they were at their ends, as
/// far as that is known; or why some could not be ended.
pub(super) async fn end_runs(
    cx: &Cx,
    tasks: &[Arc<Task>],
    reasons: &BTreeMap<WindowId, GoneReason>,
    choice: &StopChoice,
    keeps_windows: bool,
) -> Result<BTreeMap<WindowId, Arc<Task>>, Error> {
    let ends = cx.with(|state| state.order_ends(tasks, reasons, choice, keeps_windows));
    let (mut known, mut failed) = (BTreeMap::new(), Vec::new());
    for (window, end) in ends {
        match end.await {
            Ok(ended) => known.extend(ended.map(|ended| (window, ended))),
            Err(failure) => failed.push(failure),
        }
    }
    if failed.is_empty() {
        return Ok(known);
    }
    let error = Error::failed(format!("could not end {}", failed.join("; ")));
    Err(error.with_hint("what is another user's, that user has to end"))
}

/// Ends runs that have lasted as long as they may.
async fn end_runs_out_of_time(cx: Cx, tasks: Vec<Arc<Task>>) {
    let out_of_time = |task: &Arc<Task>| (task.window, GoneReason::TimedOut);
    let reasons = tasks.iter().map(out_of_time).collect();
    let over = end_runs(&cx, &tasks, &reasons, &StopChoice::default(), false).await;
    if let Err(Error { message, .. }) = over {
        cx.with(|state| state.notice(Level::Warning, message, state.now));
    }
}

/// Marks windows whose runs are about to be ended; then those with a plan are asked to end.
async fn mark(
    cx: Cx,
    marks: Vec<(Arc<Task>, Option<GoneReason>)>,
    plans: BTreeMap<WindowId, StopPlan>,
) {
    if let Err(Error { message, .. }) = cx.run(|outcome| Job::MarkEndings(marks, outcome)).await {
        let text = format!("could not mark windows whose runs are ended error={message:?}");
        cx.with(|state| state.log(LogLevel::Warn, text));
    }
    cx.with(|state| {
        for (window, plan) in plans {
            let ending = state.endings.runs.get_mut(&window);
            if let Some(ending) = ending.filter(|ending| ending.stage == Stage::Marking) {
                ending.stage = Stage::Stopping;
                let task = Arc::clone(&ending.task);
                state.stop_processes(&task, plan, false);
            }
        }
        state.save_within(Duration::ZERO, state.now);
    });
}

pub(super) async fn close(cx: Cx, windows: Vec<WindowId>) {
    let link = turn_to_change(&cx, |_, task| windows.contains(&task.window)).await;
    // A window that has its next run stays.
    let closing = cx.with(|state| {
        let run_of = |window: &WindowId| Some((*window, state.endings.runs.get(window)?.task.run));
        windows.iter().filter_map(run_of).collect()
    });
    let done = link.run(|outcome| Job::Kill(closing, outcome)).await;
    let done = done.unwrap_or_else(|error| (BTreeSet::new(), Some(error)));
    cx.with(|state| state.windows_closed(&windows, done));
}

/// Looks at the window of a run that has ended: how is shown now, if tmux reports it in time.
async fn look_at_end(cx: Cx, window: WindowId, run: Option<u32>) {
    let until = cx.with(|state| state.now.mono) + REPORTED_WITHIN;
    cx.look(LookOrder::of([window])).await;
    cx.sleep_until(until).await;
    cx.with(|state| {
        let ending = state.endings.runs.get_mut(&window);
        if let Some(ending) = ending.filter(|ending| ending.task.run == run) {
            ending.is_overdue = true;
        }
        state.proceed_with_endings();
    });
}

impl State {
    fn order_ends(
        &mut self,
        tasks: &[Arc<Task>],
        reasons: &BTreeMap<WindowId, GoneReason>,
        choice: &StopChoice,
        keeps_window: bool,
    ) -> Vec<(WindowId, Promise<RunEnd>)> {
        let (mut marks, mut plans, mut ends) = (Vec::new(), BTreeMap::new(), Vec::new());
        for task in tasks {
            let (done, end) = promise();
            ends.push((task.window, end));
            let waiting = WaitingCommand { keeps_window, done };
            let reason = reasons.get(&task.window).copied();
            let plan = self.plan_of(task, choice);
            if let Some(ending) = self.endings.runs.get_mut(&task.window) {
                ending.waiting.push(waiting);
                let is_marked = ending.reason.is_some();
                ending.reason = ending.reason.or(reason);
                if !is_marked && reason.is_some() {
                    let known = Arc::make_mut(&mut ending.task);
                    known.asked_by.clone_from(&task.asked_by);
                    marks.push((Arc::clone(task), reason));
                }
                // A shorter grace time counts.
                if ending.stage == Stage::Stopping {
                    self.stop_processes(task, plan, true);
                }
                continue;
            }
            let mut stage = Stage::Stopping;
            match (reason, task.pid) {
                (Some(_), Some(_)) if task.is_alive() => {
                    marks.push((Arc::clone(task), reason));
                    stage = Stage::Marking;
                }
                (Some(_) | None, Some(_)) => self.stop_processes(task, plan.clone(), false),
                // tmux has forgotten the process of an ended run.
                (Some(_) | None, None) => stage = Stage::Ended,
            }
            self.endings.begin(Ending {
                is_overdue: stage == Stage::Ended,
                waiting: vec![waiting],
                ..Ending::new(Arc::clone(task), reason, stage)
            });
            if stage == Stage::Marking {
                plans.insert(task.window, plan);
            }
        }
        if !marks.is_empty() {
            self.spawn(|cx| mark(cx, marks, plans));
        }
        self.proceed_with_endings();
        ends
    }

    pub(super) fn ending_reported(&mut self, report: EndReport) {
        let (window, left) = match report {
            EndReport::Waiting(window, left) => {
                if let Some(ending) = self.endings.runs.get_mut(&window) {
                    ending.waits_for = left;
                }
                return;
            }
            EndReport::Ended(window, left) => (window, left),
        };
        let Some(ending) = self.endings.runs.get_mut(&window) else {
            return;
        };
        if left.is_empty() && ending.is_window_gone {
            let ended = ending.ended.take();
            ending.settle(&Ok(ended));
            self.endings.runs.remove(&window);
        } else if left.is_empty() {
            ending.stage = Stage::Ended;
            if ending.ended.is_none() {
                let run = ending.task.run;
                self.spawn(move |cx| look_at_end(cx, window, run));
            }
        } else {
            let failure = format!("{}: {}", label(&ending.task), LeftProcess::still_run(&left));
            self.ending_failed(window, failure);
            self.order(LookOrder::of([window]));
        }
        self.proceed_with_endings();
    }

    fn ending_failed(&mut self, window: WindowId, failure: String) {
        let Some(mut ending) = self.endings.runs.remove(&window) else {
            return;
        };
        ending.settle(&Err(failure));
        if ending.reason.is_some() && !ending.is_window_gone {
            self.spawn(move |cx| async move {
                let unmark = |outcome| Job::MarkEndings(vec![(ending.task, None)], outcome);
                // The next daemon ends what is marked and can be ended.
                cx.run(unmark).await.ok();
            });
        }
    }

    /// Processes that windows were closed, or why the next of them could not be.
    fn windows_closed(&mut self, windows: &[WindowId], (closed, failure): ClosedWindows) {
        if let Some(Error { message, .. }) = failure {
            for window in windows.iter().filter(|window| !closed.contains(window)) {
                self.ending_failed(*window, format!("{window}: {message}"));
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
        self.proceed_with_endings();
    }

    /// Goes on with runs that have ended, and with commands that have waited for them.
    pub(super) fn proceed_with_endings(&mut self) {
        let is_shown = |ending: &Ending| match ending.stage {
            Stage::Ended => {
                let is_over = ending.is_overdue && !self.is_unsettled;
                ending.ended.is_some() || !ending.task.is_alive() || is_over
            }
            Stage::Marking | Stage::Stopping | Stage::Closing => false,
        };
        let (mut closing, mut over) = (Vec::new(), Vec::new());
        let runs = self.endings.runs.iter_mut();
        for (window, ending) in runs.filter(|(_, ending)| is_shown(ending)) {
            ending.stage = Stage::Closing;
            if ending.task.is_alive() {
                let run = ending.ended.as_ref().unwrap_or(&ending.task);
                let reason = match ending.reason {
                    Some(reason) => reason.shown_word(),
                    None => Some("replaced"),
                };
                let archive = (Arc::clone(run), reason);
                self.jobs.archives.push_back(archive);
            }
            if ending.waiting.iter().any(|command| command.keeps_window) {
                let ended = ending.ended.clone();
                ending.settle(&Ok(ended));
            } else if ending.reason.is_some() {
                closing.push(*window);
            } else {
                // Nothing needs its slot any more.
                ending.settle(&Ok(None));
                over.push(*window);
            }
        }
        if !over.is_empty() {
            self.endings.runs.retain(|window, _| !over.contains(window));
            self.order(LookOrder::of(over));
        }
        if !closing.is_empty() {
            self.spawn(|cx| close(cx, closing));
        }
    }

    pub(super) fn resume_endings(&mut self, look: &Snapshot) {
        for task in look.tasks.values() {
            let Some(reason) = task.ending else { continue };
            let last = self.engine.last_look();
            let last = last.and_then(|last| last.tasks.get(&task.window));
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
            self.endings.begin(Ending::new(before, Some(reason), stage));
            if stage == Stage::Closing {
                self.spawn(move |cx| close(cx, vec![window]));
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
            let at = match limits.get(&task.window) {
                Some((run, at)) if *run == task.run => *at,
                Some(_) | None => {
                    let lasted = now.wall.saturating_sub(started_at);
                    let lasted = Duration::from_millis(u64::try_from(lasted).unwrap_or(0));
                    now.mono + limit.saturating_sub(lasted)
                }
            };
            self.endings.limits.insert(task.window, (task.run, at));
        }
    }

    pub(super) fn end_overdue(&mut self, now: Now) {
        let limits = &mut self.endings.limits;
        let due = limits.extract_if(.., |_, (_, at)| *at <= now.mono);
        let due: Vec<_> = due.collect();
        let tasks = due.iter().filter_map(|(window, _)| self.task(*window));
        let tasks: Vec<_> = tasks.filter(|task| task.is_alive()).collect();
        if !tasks.is_empty() {
            self.spawn(|cx| end_runs_out_of_time(cx, tasks));
        }
        self.proceed_with_endings();
    }

    /// Returns the runs of these tasks, or of all, that are being ended. Kills what is left of them if asked to.
    pub(super) fn endings_of(&mut self, names: &[String], at_once: bool) -> Vec<EndingRun> {
        let is_named = |task: &Task| {
            let window = task.window.to_string();
            names.is_empty() || names.contains(&task.name) || names.contains(&window)
        };
        let (mut shown, mut stopping) = (Vec::new(), Vec::new());
        // One that is only closed with others has ended.
        let runs = self.endings.runs.values();
        for ending in runs.filter(|ending| ending.stage != Stage::Closing && is_named(&ending.task))
        {
            let task = &ending.task;
            if ending.stage == Stage::Stopping {
                stopping.push(Arc::clone(task));
            }
            shown.push(EndingRun {
                window_id: task.window.to_string(),
                window_name: task.name.clone(),
                processes: ending.waits_for.iter().map(LeftProcess::words).collect(),
            });
        }
        for task in stopping.iter().filter(|_| at_once) {
            let plan = StopPlan {
                grace: Duration::ZERO,
                ..StopPlan::default()
            };
            self.stop_processes(task, plan, true);
        }
        shown
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
fn label(task: &Task) -> String {
    format!("{} ({})", task.window, task.name)
}

pub(super) fn list_of_tasks<'a>(tasks: impl IntoIterator<Item = &'a Arc<Task>>) -> String {
    let labels: Vec<String> = tasks.into_iter().map(|task| label(task)).collect();
    let plural = if labels.len() == 1 { "" } else { "s" };
    format!("task{plural} {}", labels.join(", "))
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
