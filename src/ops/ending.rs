//! Ends runs where no daemon does it, and follows the ending of runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::lookup;
use super::session::TaskSession;
use crate::config;
use crate::model::{
    EndOrder, Error, LeftProcess, Ordered as _, StopChoice, StopPlan, Task, WindowId,
};
use crate::process::{EndReport, RunEnder};
use crate::wire::{EndingRun, Request, Response};

/// Follows how a command ends runs, and kills them at once where that is asked for.
#[derive(Debug, Default)]
pub(crate) struct EndWatch {
    at_once: Notify,
    /// The runs that are ended without a daemon.
    alone: RefCell<Vec<EndingRun>>,
}

impl EndWatch {
    /// Returns the runs of these tasks that are being ended; of all if none is named. Kills what is left
    /// of them if that is asked for.
    ///
    /// # Errors
    ///
    /// When the daemon does not answer.
    pub(crate) async fn runs(
        &self,
        session: &TaskSession,
        names: &[String],
        at_once: bool,
    ) -> Result<Vec<EndingRun>, Error> {
        let alone = self.alone.borrow().clone();
        if !alone.is_empty() {
            if at_once {
                self.at_once.notify_one();
            }
            return Ok(alone);
        }
        let request = Request::Endings {
            tasks: names.to_vec(),
            at_once,
        };
        let Response::Endings { runs } = session.ask(&request).await? else {
            return Ok(Vec::new());
        };
        Ok(runs)
    }

    /// Ends the processes of these tasks' runs, without a daemon. Returns what is left of those that
    /// could not be ended, in words.
    pub(super) async fn end_alone(
        &self,
        tasks: &[Arc<Task>],
        choice: &StopChoice,
    ) -> BTreeMap<WindowId, String> {
        let defaults = config::load(&lookup).map(|config| config.stop.plan());
        let defaults = defaults.unwrap_or_default();
        let orders = tasks.iter().filter_map(|task| {
            let plan = StopPlan::of(&task.settings.stop, choice, &defaults);
            // What is marked, a daemon had begun to end, and was killed.
            let order = EndOrder::of(task, plan, task.ending.is_some())?;
            Some((task.window, order))
        });
        let mut open: BTreeMap<WindowId, EndOrder> = orders.into_map();
        let running = tasks.iter().filter(|task| open.contains_key(&task.window));
        self.alone.replace(
            running
                .map(|task| EndingRun {
                    window_id: task.window.to_string(),
                    window_name: task.name.clone(),
                    processes: Vec::new(),
                })
                .collect(),
        );
        let mut ender = RunEnder::new();
        for order in open.values() {
            ender.end(order.clone());
        }
        let mut failed = BTreeMap::new();
        while !open.is_empty() {
            // Losing an arm is safe: reports stay in their queue, and so does the notification.
            tokio::select! {
                report = ender.report() => match report {
                    EndReport::Waiting(window, left) => self.note(window, Some(&left)),
                    EndReport::Ended(window, left) => {
                        open.remove(&window);
                        self.note(window, None);
                        if !left.is_empty() {
                            failed.insert(window, LeftProcess::still_run(&left));
                        }
                    }
                },
                () = self.at_once.notified() => for order in open.values_mut() {
                    order.plan.grace = Duration::ZERO;
                    ender.end(order.clone());
                },
            }
        }
        failed
    }

    /// Notes what is left of a run; `None` when it has ended.
    fn note(&self, window: WindowId, left: Option<&[LeftProcess]>) {
        let id = window.to_string();
        let mut runs = self.alone.borrow_mut();
        match left {
            None => runs.retain(|run| run.window_id != id),
            Some(left) => {
                for run in runs.iter_mut().filter(|run| run.window_id == id) {
                    run.processes = left.iter().map(LeftProcess::words).collect();
                }
            }
        }
    }
}

/// Returns the error for tasks that could not be ended.
pub(super) fn not_ended(tasks: &[Arc<Task>], failed: &BTreeMap<WindowId, String>) -> Error {
    let all: Vec<String> = tasks
        .iter()
        .filter_map(|task| {
            let why = failed.get(&task.window)?;
            Some(format!("{} ({}): {why}", task.window, task.name))
        })
        .collect();
    let hint = "what is another user's, that user has to end";
    Error::failed(format!("could not end {}", all.join("; "))).with_hint(hint)
}
