//! How the output of runs with patterns is searched: before a look that shows their end, and from the
//! reads with which it begins.

use std::sync::Arc;

use super::effect::{LookOrder, RowsToRead};
use super::input::{Look, RequestId};
use super::look_schedule::Due;
use super::machine::Session;
use super::queue_items::{AfterLook, HeldLook, ReadReason, Urgent};
use super::watch_entry::WatchEntry;
use crate::model::{Now, Snapshot, Task, WindowId};
use crate::terminal::Stamp;
use crate::wire::Response;

impl Session {
    /// Takes a look. What runs with patterns have written before their end is searched first, so that it
    /// is reported before the end.
    pub(super) fn search_then_take(
        &mut self,
        look: Box<Look>,
        why: Due,
        then: Vec<AfterLook>,
        now: Now,
    ) {
        let snapshot = &look.snapshot;
        let mut urgent = Vec::new();
        let has_gone = self.listeners.watches.has_ended(snapshot);
        if let Some(before) = self.engine.last_look() {
            for task in snapshot.tasks.values() {
                let is_known = |known: &Arc<Task>| known.run == task.run && !known.is_alive();
                let is_new =
                    !task.is_alive() && !before.tasks.get(&task.window).is_some_and(is_known);
                let Some(pane) = task.pane.filter(|_| is_new && task.notify_on.is_some()) else {
                    continue;
                };
                let task = Arc::clone(task);
                if self.listeners.watches.is_following(&task) {
                    urgent.push(Urgent::LastOutput(pane, task, RowsToRead::LastRow));
                } else if let Some(entry) =
                    self.listeners.watches.begin(&task, snapshot.life.as_ref())
                {
                    urgent.push(Urgent::Search(pane, task, Box::new(entry)));
                }
            }
        }
        let held = HeldLook { look, why, then };
        if !has_gone && urgent.is_empty() {
            return self.take_held(held, now);
        }
        self.jobs.push_urgent(Urgent::Drain);
        for step in urgent {
            self.jobs.push_urgent(step);
        }
        self.jobs.push_urgent(Urgent::TakeLook(held));
    }

    /// Takes a look of which all output before it was searched.
    pub(super) fn take_held(&mut self, held: HeldLook, now: Now) {
        let HeldLook { look, why, then } = held;
        self.take_look(*look, why, now);
        for then in then {
            self.after_look(then, now);
        }
    }

    /// Hands the engine what was found, for the events of this look.
    pub(super) fn note_matches(&mut self, look: &Snapshot, now: Now) {
        for (window, run, matches) in self.listeners.take_matches(look, now) {
            self.engine.note_matches(window, run, matches);
        }
    }

    /// Begins to search the runs with patterns that are not searched yet, and ends the search of those that
    /// have ended.
    pub(super) fn watch_runs(&mut self) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        let entries = self.listeners.watches.begin_all(look);
        for (pane, entry) in entries {
            if let ReadReason::Begin { watches, .. } = self.jobs.begin_with(pane, RowsToRead::All) {
                watches.push(entry);
            }
        }
        self.listeners.forget_idle_streams();
    }

    /// Continues after the read with which the search of runs begins.
    pub(super) fn watches_begun(&mut self, entries: Vec<WatchEntry>, since: Stamp, now: Now) {
        for entry in entries {
            let window = entry.window;
            self.listeners.watches.begun(entry, since, now);
            if self.task(window).is_none_or(|task| !task.is_alive()) {
                // Its run has ended meanwhile: the next look reports what was found.
                self.order(LookOrder::of([window]));
            }
        }
        self.report_matches(now);
    }

    /// Orders looks that report what was found by now.
    pub(super) fn report_matches(&mut self, now: Now) {
        let due = self.listeners.watches.take_due(now.mono);
        if !due.is_empty() {
            self.order(LookOrder::of(due));
        }
    }

    /// Answers a launch when all output of its run is followed.
    pub(super) fn answer_when_followed(
        &mut self,
        window: Option<WindowId>,
        request_id: RequestId,
        response: Response,
    ) {
        let watches = &mut self.listeners.watches;
        if let Some(response) = watches.hold_answer(window, request_id, response) {
            self.answer_when_stored(request_id, response);
        }
    }

    /// Answers the launches whose output is followed by now, or will not be.
    pub(super) fn release_followed(&mut self) {
        for (window, request_id, response) in self.listeners.watches.take_answers() {
            self.answer_when_followed(Some(window), request_id, response);
        }
    }
}
