//! What is due without an input: looks, deliveries, saving, nudges of tmux, and running failed tasks again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answers;
use super::input::{Effect, JobOutcome, LogEntry, LookOrder};
use super::job_queue::{AfterLook, Command};
use super::look_schedule::Due;
use super::machine::Session;
use super::pending_restarts::{DueRestart, PreventedRestart, RestartEnd};
use crate::model::{Bookmark, DeliveredEvent, Level, Now, Record, Task, WindowId};

/// How often tmux is nudged after a run has ended, and for how long. A window that is respawned at
/// once needs this: only the end of the next run is reported, and tmux can lose the signal for that
/// end while it is still starting the run (3.3a).
const NUDGE_EVERY: Duration = Duration::from_millis(15);
const NUDGE_FOR: Duration = Duration::from_millis(500);

/// How many windows whose runs ended last a look soon after a change queries.
const JUST_ENDED: usize = 8;

impl Session {
    /// Returns when [`Input::Due`](super::Input::Due) is due, if ever.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let look_at = match (self.jobs.has_look(), self.jobs.has_sweep()) {
            (true, _) => None,
            (false, true) => earliest(self.schedule.wanted, self.engine.look_at()),
            (false, false) => earliest(Some(self.schedule.next_look()), self.engine.look_at()),
        };
        [
            look_at,
            self.jobs.slice_at(),
            self.jobs.typing_at(),
            self.deliver_at(),
            self.save_at.filter(|_| self.engine.last_look().is_some()),
            self.nudges.map(|(next, _)| next),
            self.unreported_at,
            self.listeners.next_deadline(),
            self.next_port_look(),
            self.restarts.next_deadline(),
            self.endings.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn due(&mut self, now: Now) {
        if self.deliver_at().is_some_and(|due| due <= now.mono) {
            let effects = self.engine.deliver_due(now);
            self.perform(effects);
        }
        self.save_if_due(now);
        self.nudge_if_due(now);
        if self.unreported_at.take_if(|at| *at <= now.mono).is_some() {
            self.counts.found_late += 1;
            self.log(LogEntry::FoundLate);
        }
        let ended = self.listeners.tick(now);
        self.finish(ended, now);
        self.report_matches(now);
        self.look_at_ports(now);
        self.restart_due(now);
        self.end_overdue(now);
        if self.jobs.slice_at().is_some_and(|at| at <= now.mono) {
            self.jobs.order_sweep();
        }
        if self.jobs.has_look() {
            return;
        }
        let is_prompt_due = self.engine.look_at().is_some_and(|due| due <= now.mono);
        if is_prompt_due {
            self.order(LookOrder::of(self.engine.look_for(now.mono)));
            return;
        }
        match self.schedule.due(now.mono) {
            None => {}
            Some(Due::Triggered) => {
                self.order(LookOrder::default());
            }
            Some(Due::Ended | Due::Sweep) if self.jobs.has_sweep() => {}
            Some(Due::Ended) => {
                self.order(LookOrder::of(self.just_ended())).is_safety = true;
            }
            Some(Due::Sweep) => self.jobs.order_sweep(),
        }
    }

    /// Returns the windows whose runs ended last.
    fn just_ended(&self) -> Vec<WindowId> {
        let mut ended = self.tasks();
        ended.retain(|task| !task.is_alive());
        ended.sort_by_key(|task| std::cmp::Reverse(task.ended_at));
        let windows = ended.iter().map(|task| task.window);
        windows.take(JUST_ENDED).collect()
    }

    /// Returns when gathered events are to be delivered: not while answers are pending that report
    /// the same to their owner.
    pub(super) fn deliver_at(&self) -> Option<Instant> {
        let at = self.engine.deliver_at()?;
        let is_answering = self
            .jobs
            .is_answering(|ended| answers::wait_return(ended).is_some());
        (!is_answering).then_some(at)
    }

    /// Notes that the saved state is out of date.
    pub(super) fn save_within(&mut self, pause: Duration, now: Now) {
        let at = now.mono + pause;
        self.save_at = Some(self.save_at.map_or(at, |before| before.min(at)));
    }

    fn save_if_due(&mut self, now: Now) {
        if self.save_at.is_some_and(|at| at <= now.mono) {
            self.save();
        }
    }

    /// Saves the last look, from which the next daemon continues.
    pub(super) fn save(&mut self) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        self.save_at = None;
        let look = Box::new(look.clone());
        let bookmark = Bookmark {
            searched: self.listeners.searched(look.life.as_ref()),
            ..self.link.bookmark.clone()
        };
        let first_undelivered = self.engine.first_undelivered();
        self.effects
            .push(Effect::Save(look, bookmark, first_undelivered));
    }

    /// Nudges tmux for a while if it may lose signals: a run has ended, and another may follow at once.
    pub(super) fn nudge_for_a_while(&mut self, now: Now) {
        let nudges = (now.mono + NUDGE_EVERY, now.mono + NUDGE_FOR);
        self.nudges = (!self.link.reports_respawns).then_some(nudges);
    }

    pub(super) fn nudge(&mut self) {
        if let Some(life) = &self.link.life {
            self.effects.push(Effect::Nudge(life.clone()));
        }
    }

    fn nudge_if_due(&mut self, now: Now) {
        let Some((due, until)) = self.nudges.filter(|(next, _)| *next <= now.mono) else {
            return;
        };
        self.nudge();
        self.nudges = (due < until).then_some((now.mono + NUDGE_EVERY, until));
    }
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

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
    fn restart_due(&mut self, now: Now) {
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
