//! The runs that are being ended, what waits for them, and what looks show of them; the runs that ended last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::promise::Resolver;
use crate::model::*;
use crate::rules::wire::Caller;

#[derive(Debug, Default)]
pub(super) struct Endings {
    pub(super) runs: BTreeMap<WindowId, Ending>,
    /// The runs that were being ended, also those that could not be, until a look shows them no more.
    ours: BTreeSet<(WindowId, Option<u32>)>,
    /// When runs have lasted as long as they may, by window.
    pub(super) limits: BTreeMap<WindowId, (Option<u32>, Instant)>,
}

#[derive(Debug)]
pub(super) struct Ending {
    /// The task as it was when this began.
    pub(super) task: Arc<Task>,
    /// Why its window goes; `None` when its slot is needed.
    pub(super) reason: Option<GoneReason>,
    pub(super) stage: Stage,
    /// The task as it was at its end, once a look has shown that.
    pub(super) ended: Option<Arc<Task>>,
    /// Whether a look was taken after it had ended, and tmux has had its time to report how.
    pub(super) is_overdue: bool,
    /// Whether its window has gone while its processes were being ended.
    pub(super) is_window_gone: bool,
    /// What is left of it after a second.
    pub(super) waits_for: Vec<LeftProcess>,
    pub(super) waiting: Vec<WaitingCommand>,
}

#[derive(Debug)]
pub(super) struct WaitingCommand {
    /// Whether it needs the window as it is when the run has ended.
    pub(super) keeps_window: bool,
    pub(super) done: Resolver<RunEnd>,
}

/// The task as it was at its end, as far as it is known; or why it could not be ended.
pub(super) type RunEnd = Result<Option<Arc<Task>>, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its window is being marked.
    Marking,
    /// Its processes are being ended.
    Stopping,
    /// Nothing of it is left; a look has to show how it ended.
    Ended,
    /// Its window is being closed, or kept for what comes next.
    Closing,
}

impl Ending {
    pub(super) fn new(task: Arc<Task>, reason: Option<GoneReason>, stage: Stage) -> Self {
        Self {
            task,
            reason,
            stage,
            ended: None,
            is_overdue: false,
            is_window_gone: false,
            waits_for: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Resumes those that wait for it: the run has ended, or cannot be.
    pub(super) fn settle(&mut self, end: &RunEnd) {
        for command in self.waiting.drain(..) {
            command.done.resolve(end.clone());
        }
    }
}

impl Endings {
    pub(super) fn begin(&mut self, ending: Ending) {
        let window = ending.task.window;
        self.ours.insert((window, ending.task.run));
        self.runs.insert(window, ending);
    }

    pub(super) fn contain(&self, window: WindowId) -> bool {
        self.runs.contains_key(&window)
    }

    pub(super) fn of_name(&self, name: &str) -> Vec<Arc<Task>> {
        let tasks = self.runs.values().map(|ending| &ending.task);
        tasks.filter(|task| task.name == name).cloned().collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.limits.values().map(|(_, at)| *at).min()
    }

    /// Takes out of a look what is not reported yet of runs that are being ended: they count as alive
    /// until their window is gone or has another run. `last` is the last look.
    pub(super) fn hold(&mut self, look: &mut Snapshot, last: Option<&Snapshot>) {
        self.note_ours(look, last);
        let mut over = Vec::new();
        for (window, ending) in &mut self.runs {
            match look.tasks.get_mut(window) {
                None => {
                    if ending.is_window_gone {
                        continue;
                    }
                    match ending.stage {
                        // Somebody has closed it: what runs there may live on, and is still waited for.
                        Stage::Stopping => ending.is_window_gone = true,
                        Stage::Marking | Stage::Ended | Stage::Closing => over.push(*window),
                    }
                    let Some(reason) = ending.reason else {
                        continue;
                    };
                    look.gone.insert(*window, reason);
                    let asked_by = ending.task.asked_by.clone();
                    look.asked_by.extend(asked_by.map(|by| (*window, by)));
                    let is_told = look.ended.iter().any(|ended| ended.window == *window);
                    if let Some(ended) = &ending.ended
                        && !is_told
                    {
                        look.ended.push(Task::clone(ended));
                    }
                }
                Some(task) if task.run == ending.task.run => {
                    if !task.is_alive() {
                        ending.ended = Some(Arc::clone(task));
                    }
                    if !task.is_alive() && ending.task.is_alive() {
                        let before = last.and_then(|last| last.tasks.get(window));
                        let before = before.filter(|before| before.is_alive());
                        let screen = task.screen.clone();
                        *task = Arc::clone(before.unwrap_or(&ending.task));
                        if task.screen != screen {
                            Arc::make_mut(task).screen = screen;
                        }
                    }
                    let asked_by = &ending.task.asked_by;
                    if (task.ending, &task.asked_by) != (ending.reason, asked_by) {
                        let task = Arc::make_mut(task);
                        task.ending = ending.reason;
                        task.asked_by.clone_from(asked_by);
                    }
                }
                // The next run.
                Some(_) => {
                    over.push(*window);
                    let Some(ended) = &ending.ended else { continue };
                    if ending.reason.is_none()
                        && let Some(pid) = ending.task.pid
                    {
                        look.launcher_replaced.insert(*window, pid);
                        look.ended.push(Task::clone(ended));
                    }
                }
            }
        }
        // What an earlier daemon had begun, and something else has finished.
        for (window, before) in last.into_iter().flat_map(|last| &last.tasks) {
            if let Some(reason) = before.ending
                && !look.tasks.contains_key(window)
            {
                look.gone.entry(*window).or_insert(reason);
                let asked_by = before.asked_by.clone();
                look.asked_by.extend(asked_by.map(|by| (*window, by)));
            }
        }
        for mut ending in over.iter().filter_map(|window| self.runs.remove(window)) {
            let ended = ending.ended.take();
            ending.settle(&Ok(ended));
        }
    }

    /// Notes in a look which killed runs were being ended by us.
    fn note_ours(&mut self, look: &mut Snapshot, last: Option<&Snapshot>) {
        let is_known = |task: &Task| {
            let before = last.and_then(|last| last.tasks.get(&task.window));
            let exit = before.filter(|before| before.run == task.run);
            exit.and_then(|before| before.exit())
                .is_some_and(|exit| exit.by_us)
        };
        let is_ours = |task: &Task| {
            let is_killed = task.exit_hint().is_some();
            is_killed && (self.ours.contains(&(task.window, task.run)) || is_known(task))
        };
        let ended = look.ended.iter_mut().filter(|task| is_ours(task));
        let tasks = look.tasks.values_mut().filter(|task| is_ours(task));
        for task in ended.chain(tasks.map(Arc::make_mut)) {
            if let Life::Dead(exit) = &mut task.life {
                exit.by_us = true;
            }
        }
        self.ours
            .retain(|(window, run)| look.tasks.get(window).is_some_and(|task| task.run == *run));
    }
}

impl Caller {
    /// Notes on these tasks who asks for their ends.
    pub(crate) fn sign(&self, tasks: &mut [Arc<Task>]) {
        for task in tasks {
            if task.asked_by != self.asked_by {
                Arc::make_mut(task).asked_by.clone_from(&self.asked_by);
            }
        }
    }

    pub(crate) fn reasons<'a>(
        &self,
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
    ) -> BTreeMap<WindowId, GoneReason> {
        let reason_of = |task: &Arc<Task>| (task.window, self.reason(task));
        tasks.into_iter().map(reason_of).into_map()
    }

    /// An agent knows of its own commands only. One whose conversation is not known counts as another one, so that no
    /// owner misses an end.
    fn reason(&self, task: &Task) -> GoneReason {
        if !self.is_agent && self.owner.is_none() {
            GoneReason::UserKilled
        } else if task.owner.is_none() || task.owner == self.owner {
            GoneReason::AgentKilled
        } else {
            GoneReason::OtherAgentKilled
        }
    }
}

/// How many ended runs are kept. A wait for a run begins soon after the run.
const MOST: usize = 64;

const SECOND_MS: Millis = 1000;

/// The runs that ended or disappeared last, as they were then: their windows can be closed before a wait for
/// them begins.
#[derive(Debug, Default)]
pub(super) struct EndedRuns(VecDeque<Arc<Task>>);

impl EndedRuns {
    pub(super) fn add(&mut self, records: &[Record]) {
        for record in records {
            if let Body::Event(event) = &record.body
                && let EventKind::Exited { .. } | EventKind::Disappeared { .. } = event.kind
            {
                // Its pane may be closed or have another run.
                let task = Task {
                    pane: None,
                    ..event.task.clone()
                };
                self.0.push_back(Arc::new(task));
            }
        }
        let excess = self.0.len().saturating_sub(MOST);
        self.0.drain(..excess);
    }

    pub(super) fn find(&self, window: WindowId, run: Option<u32>) -> Option<&Arc<Task>> {
        let is_it = |task: &&Arc<Task>| task.window == window && task.run == run;
        self.0.iter().rev().find(is_it)
    }

    /// Whether this launched run is among them, and not one of another session or server with the same ids.
    pub(super) fn contain(&self, launched: &Task) -> bool {
        self.find(launched.window, launched.run)
            .is_some_and(|ended| {
                // Where only the end is known, tmux may have reported it in whole seconds.
                let latest = || Some(ended.ended_at?.saturating_add(SECOND_MS));
                let at = ended.started_at.or_else(latest);
                at.zip(launched.started_at)
                    .is_none_or(|(at, launched)| at >= launched)
            })
    }

    /// Returns the look that a wait for this run is judged by, with its end where its window is closed.
    pub(super) fn look_for(&self, entry: &Task, mut look: Snapshot) -> Snapshot {
        let window = entry.window;
        if !look.tasks.contains_key(&window)
            && let Some(task) = self.find(window, entry.run)
            && !task.is_alive()
        {
            look.exists = true;
            look.tasks.insert(window, Arc::clone(task));
        }
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    #[test]
    fn only_the_agent_that_owns_the_task_knows_of_its_end() {
        use GoneReason::{AgentKilled, OtherAgentKilled, UserKilled};
        for (owner, is_agent, of_nobody, of_pi_1) in [
            (None, false, UserKilled, UserKilled),
            (None, true, AgentKilled, OtherAgentKilled),
            (Some("pi:1"), false, AgentKilled, AgentKilled),
            (Some("pi:1"), true, AgentKilled, AgentKilled),
            (Some("pi:2"), false, AgentKilled, OtherAgentKilled),
        ] {
            let killer = Caller {
                owner: owner.map(str::to_owned),
                is_agent,
                asked_by: None,
            };
            let tasks = [
                Arc::new(task("@1 a running")),
                Arc::new(task("@2 b running owner=pi:1")),
            ];
            let expected = BTreeMap::from([(WindowId(1), of_nobody), (WindowId(2), of_pi_1)]);
            assert_eq!(killer.reasons(&tasks), expected, "{owner:?} {is_agent}");
        }
    }
}
