//! Runs tasks again that have failed.

use std::sync::Arc;
use std::time::Duration;

use super::effect::LookOrder;
use super::input::JobOutcome;
use super::log_entry::LogEntry;
use super::machine::Session;
use super::pending_restarts::{DueRestart, PreventedRestart, RestartEnd};
use super::queue_items::{AfterLook, Command};
use crate::model::{DeliveredEvent, Level, Now, Record, Task, WindowId};

/// How long after a restart that started nothing it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Session {
    /// Plans restarts after a look, whose records these are.
    pub(super) fn plan_restarts(&mut self, records: &[Record], now: Now) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        self.restarts.plan(look, now);
        let prevented = self.announced.look(look, records);
        if let Some(cleanup) = self.restarts.note_kept(look) {
            self.jobs.push_command(Command::ForgetEnvironments(cleanup));
        }
        for PreventedRestart { end, why } in prevented {
            if let Some(why) = why {
                self.report_impossible(&end.event.task, why, now);
            }
            self.deliver_end(end, now);
        }
        self.restart_due(now);
    }

    /// Runs tasks again whose pause is over.
    pub(super) fn restart_due(&mut self, now: Now) {
        for (window, number) in self.restarts.take_due(now) {
            if let Some(task) = self.task(window) {
                self.jobs.archive_first(|changed| changed == window);
                let due = DueRestart {
                    task,
                    number,
                    session_name: self.session_name.clone(),
                };
                self.jobs.push_command(Command::Restart(Arc::new(due)));
            }
        }
    }

    /// Delivers the end of a run that no restart follows, although one was announced: its owner has to
    /// know of it.
    fn deliver_end(&mut self, end: DeliveredEvent, now: Now) {
        let DeliveredEvent { seq, mut event } = end;
        event.task.settings.restarts = None;
        self.engine.queue_delivery(seq, event, now);
    }

    /// Says why a task is not run again.
    fn report_impossible(&mut self, task: &Task, why: &str, now: Now) {
        let Task { window, name, .. } = task;
        let text = format!("tmux task {window} ({name}) cannot be restarted: {why}");
        self.notice(Level::Warning, text, now);
    }

    /// Processes the result of a restart.
    pub(super) fn restarted(
        &mut self,
        task: &Arc<Task>,
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        let window = task.window;
        match outcome {
            Ok(JobOutcome::Restarted(RestartEnd::Started)) => {
                self.order(LookOrder::of([window]));
            }
            Ok(JobOutcome::Restarted(RestartEnd::Superseded)) => {
                self.order_then(LookOrder::of([window]), AfterLook::Superseded(window));
            }
            Ok(JobOutcome::Restarted(RestartEnd::Impossible(why))) => {
                self.report_impossible(task, &why, now);
                self.restarts.give_up(window, why);
                let recounted = self.engine.note_unrestartable(task);
                self.perform(recounted);
                self.publish_tasks(now);
                self.judge_waits(now);
                if let Some(end) = self.announced.take(window) {
                    self.deliver_end(end, now);
                }
            }
            failed => {
                match failed {
                    Err(error) => self.log(LogEntry::RestartFailed { window, error }),
                    Ok(_) => self.log(LogEntry::WrongOutcome { job: "restart" }),
                }
                self.restarts.put_off(window, now.after(RETRY_AFTER));
                self.order(LookOrder::of([window]));
            }
        }
    }

    /// Handles the look after a restart that started nothing because the window seemed to have changed:
    /// if it has not, the restart is tried again.
    pub(super) fn superseded(&mut self, window: WindowId, now: Now) {
        if self.restarts.is_starting(window) {
            let error = "tmux found another window, but it has not changed".to_owned();
            self.log(LogEntry::RestartFailed { window, error });
            self.restarts.put_off(window, now.after(RETRY_AFTER));
        }
    }
}
