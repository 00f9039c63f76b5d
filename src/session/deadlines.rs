//! What is due without an input: looks, deliveries, saving, nudges of tmux, and running failed tasks again.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::input::{Effect, Job, LogLevel, LookOrder};
use super::look_schedule::Due;
use super::state::{Cx, State};
use super::stories::turn_to_change;
use crate::model::{Bookmark, DeliveredEvent, Level, Now, Record, SavedLook, Task, WindowId};

/// How often tmux is nudged after a run has ended, and for how long. Of a window that is respawned at once only
/// the end of the next run is reported, and tmux can lose its signal while it is starting that (3.3a).
pub(super) const NUDGE_EVERY: Duration = Duration::from_millis(15);
pub(super) const NUDGE_FOR: Duration = Duration::from_millis(500);

/// How many windows whose runs ended last a look soon after a change queries.
const JUST_ENDED: usize = 8;

impl State {
    /// Returns when [`Input::Due`](super::Input::Due) is due, if ever.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let scheduled = match self.jobs.is_sweeping {
            true => self.schedule.wanted,
            false => Some(self.schedule.next_look()),
        };
        let look_at = scheduled.into_iter().chain(self.engine.look_at()).min();
        [
            look_at.filter(|_| !self.jobs.has_look()),
            self.timers.iter().map(|(at, _)| *at).min(),
            self.deliver_at(),
            self.save_at.filter(|_| self.engine.last_look().is_some()),
            self.nudges.map(|(next, _)| next),
            self.unreported_at,
            self.listeners.next_deadline(),
            self.next_port_look(),
            self.endings.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) fn due(&mut self, now: Now) {
        self.deliver_due(now);
        if self.save_at.is_some_and(|at| at <= now.mono) {
            self.save();
        }
        if let Some((due, until)) = self.nudges.filter(|(next, _)| *next <= now.mono) {
            self.nudge();
            self.nudges = (due < until).then_some((now.mono + NUDGE_EVERY, until));
        }
        if self.unreported_at.take_if(|at| *at <= now.mono).is_some() {
            self.found_late += 1;
            let text = "a safety look found an event that was not reported";
            self.log(LogLevel::Warn, text.to_owned());
        }
        for (_, timer) in self.timers.extract_if(.., |(at, _)| *at <= now.mono) {
            timer.resolve(());
        }
        self.listeners.end_waits(|active| active.wait.tick(now));
        self.report_matches(now);
        self.end_overdue(now);
        if self.jobs.has_look() {
            return;
        }
        if self.engine.look_at().is_some_and(|due| due <= now.mono) {
            self.order(LookOrder::of(self.engine.look_for(now.mono)));
            return;
        }
        match self.schedule.due(now.mono) {
            None => {}
            Some(Due::Triggered) => {
                self.order(LookOrder::default());
            }
            Some(Due::Ended | Due::Sweep) if self.jobs.is_sweeping => {}
            Some(Due::Ended) => {
                let mut ended = self.tasks();
                ended.retain(|task| !task.is_alive());
                ended.sort_by_key(|task| std::cmp::Reverse(task.ended_at));
                let windows = ended.iter().map(|task| task.window).take(JUST_ENDED);
                self.order(LookOrder::of(windows)).why = Due::Ended;
            }
            Some(Due::Sweep) => self.jobs.is_sweeping = true,
        }
    }

    /// Returns when gathered events are delivered: not while an answer is pending that reports them to their owner.
    fn deliver_at(&self) -> Option<Instant> {
        let at = self.engine.deliver_at()?;
        (Rc::strong_count(&self.returning) == 1).then_some(at)
    }

    /// Delivers what is due, as far as the disk has accepted or refused it.
    pub(super) fn deliver_due(&mut self, now: Now) {
        if self.deliver_at().is_some_and(|due| due <= now.mono) {
            let effects = self.engine.deliver_due(now);
            self.perform(effects);
        }
    }

    pub(super) fn save_within(&mut self, pause: Duration, now: Now) {
        let at = now.mono + pause;
        self.save_at = Some(self.save_at.map_or(at, |before| before.min(at)));
    }

    /// Saves the last look, from which the next daemon continues.
    pub(super) fn save(&mut self) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        self.save_at = None;
        let snapshot = look.clone();
        let (listeners, life) = (&mut self.listeners, snapshot.life.as_ref());
        let bookmark = Bookmark {
            searched: listeners.watches.searched(&listeners.pane_streams, life),
            ..self.link.bookmark.clone()
        };
        self.effects.push(Effect::Save(Box::new(SavedLook {
            snapshot,
            bookmark,
            undelivered: self.engine.undelivered(),
        })));
    }

    pub(super) fn nudge(&mut self) {
        if let Some(life) = &self.link.life {
            self.effects.push(Effect::Nudge(life.clone()));
        }
    }
}

/// How long after a restart that started nothing it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl State {
    /// Plans restarts after a look, whose records these are.
    pub(super) fn plan_restarts(&mut self, records: &[Record], now: Now) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        let planned = self.restarts.plan(look, now);
        let prevented = self.restarts.look(look, records);
        if let Some((present, gone)) = self.restarts.note_kept(look) {
            self.spawn(|cx| async move {
                let forget = |outcome| Job::ForgetEnvironments(present, gone, outcome);
                // The next daemon forgets what was not forgotten.
                cx.run(forget).await.ok();
            });
        }
        for (end, why) in prevented {
            if let Some(why) = why {
                self.report_impossible(&end.event.task, why, now);
            }
            self.deliver_end(end, now);
        }
        for task in planned {
            self.spawn(|cx| restart(cx, task));
        }
    }

    /// Delivers the end of a run that no restart follows, although one was announced.
    fn deliver_end(&mut self, end: DeliveredEvent, now: Now) {
        let DeliveredEvent { seq, mut event } = end;
        event.task.settings.restarts = None;
        self.engine.queue_delivery(seq, event, now);
    }

    fn report_impossible(&mut self, task: &Task, why: &str, now: Now) {
        let Task { window, name, .. } = task;
        let text = format!("tmux task {window} ({name}) cannot be restarted: {why}");
        self.notice(Level::Warning, text, now);
    }

    fn put_restart_off(&mut self, window: WindowId, error: String) {
        let text =
            format!("could not restart a task; trying again error={error:?} window={window}");
        self.log(LogLevel::Warn, text);
        self.restarts.put_off(window, self.now.after(RETRY_AFTER));
    }

    fn give_restart_up(&mut self, task: &Task, why: String, now: Now) {
        self.report_impossible(task, &why, now);
        let end = self.restarts.give_up(task.window, why);
        let recounted = self.engine.note_unrestartable(task, now);
        self.perform(recounted);
        self.publish_tasks(now);
        self.judge_waits(now);
        if let Some(end) = end {
            self.deliver_end(end, now);
        }
    }
}

/// Runs a task again whose run has failed, when its pause is over: until it runs, or is not to be run again.
async fn restart(cx: Cx, task: Arc<Task>) {
    let window = task.window;
    while let Some((due, number)) = cx.with(|state| state.restarts.due(&task)) {
        if cx.with(|state| state.now.mono) < due {
            cx.sleep_until(due).await;
            continue;
        }
        let link = turn_to_change(&cx, |_, changed| changed.window == window).await;
        let present = cx.with(|state| state.task(window));
        let present = present.unwrap_or_else(|| Arc::clone(&task));
        let restarted = link.run(|outcome| Job::Restart(present, number, outcome));
        match restarted.await {
            Ok(None) => {
                cx.look(LookOrder::of([window])).await;
                cx.with(|state| {
                    if state.restarts.due(&task).is_some() {
                        let error = "tmux found another window, but it has not changed";
                        state.put_restart_off(window, error.to_owned());
                    }
                });
            }
            Ok(Some(why)) => cx.with(|state| state.give_restart_up(&task, why, state.now)),
            Err(error) => cx.with(|state| {
                state.put_restart_off(window, error.message);
                state.order(LookOrder::of([window]));
            }),
        }
    }
}
