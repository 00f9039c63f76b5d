//! What the records of a feed leave open: events without a delivery, and tasks that wait for input or
//! for a restart.

use std::collections::BTreeMap;

use crate::model::{
    Body, DeliveredEvent, Event, EventKind, Ordered as _, Prompt, Record, Seq, Snapshot, Task,
    WindowId,
};
use crate::route::{Reach, reach};
use crate::wire::SavedFeed;

/// Everything that the records read so far leave open. The daemon updates it as it appends, saves
/// it with its snapshot, and updates it by later records when it starts again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingEvents {
    /// Events in no notice and no follow-up, by sequence number.
    undelivered: BTreeMap<Seq, Event>,
    /// The `input` events of tasks that wait.
    waiting: BTreeMap<WindowId, Event>,
    /// The `exited` events after which a restart was announced that has not happened.
    restarting: BTreeMap<WindowId, DeliveredEvent>,
}

impl PendingEvents {
    /// Processes the next record.
    pub fn apply(&mut self, record: &Record) {
        match &record.body {
            Body::Event(event) => self.event(record.seq, event),
            Body::Notice { events, .. } => self.deliver(events),
            Body::FollowUp {
                events, message, ..
            } => {
                let told = &message.details.events;
                self.deliver(events);
                let delivered = events.iter().zip(told);
                let failures =
                    delivered.filter(|(_, event)| event.task.settings.restarts.is_none());
                let failures: Vec<Seq> = failures.map(|(seq, _)| *seq).collect();
                self.deliver_as_failures(&failures);
            }
        }
    }

    /// Processes an event.
    fn event(&mut self, seq: Seq, event: &Event) {
        let window = event.task.window;
        match &event.kind {
            EventKind::Input { .. } => {
                self.waiting.insert(window, event.clone());
            }
            EventKind::InputResolved { .. } => {
                self.waiting.remove(&window);
                // Answered before it was delivered.
                self.undelivered.retain(|_, event| {
                    !(matches!(event.kind, EventKind::Input { .. }) && event.task.window == window)
                });
            }
            // A failure that is not a message: a restart follows.
            EventKind::Exited { replaced: None } if reach(event) == Reach::Notice => {
                let event = event.clone();
                let end = DeliveredEvent { seq, event };
                self.restarting.insert(window, end);
            }
            EventKind::Started { .. }
            | EventKind::Exited { .. }
            | EventKind::Disappeared { .. } => {
                self.restarting.remove(&window);
            }
            EventKind::Notify { .. } | EventKind::Output(_) => {}
        }
        if reach(event) > Reach::FeedOnly {
            self.undelivered.insert(seq, event.clone());
        }
    }

    /// Processes a delivery of the events with these numbers.
    fn deliver(&mut self, events: &[Seq]) {
        for seq in events {
            self.undelivered.remove(seq);
        }
    }

    /// Processes a message with the ends with these numbers, after which no restart follows.
    fn deliver_as_failures(&mut self, ends: &[Seq]) {
        self.restarting.retain(|_, end| !ends.contains(&end.seq));
    }

    /// Drops the announced restarts that the last look shows to be settled. `first` is the number of the
    /// first event that is not delivered yet.
    pub fn forget_settled(&mut self, look: &Snapshot, first: Option<Seq>) {
        self.restarting.retain(|window, end| {
            let task = look.tasks.get(window).filter(|task| !task.is_alive());
            task.is_some_and(|task| {
                let is_undelivered = first.is_some_and(|first| first <= end.seq);
                task.run == end.event.task.run
                    && (task.settings.restarts.is_some() || is_undelivered)
            })
        });
    }

    /// Returns the ends after which a restart was announced that has not happened.
    pub fn restarting(&self) -> Vec<DeliveredEvent> {
        self.restarting.values().cloned().collect()
    }

    /// Drops the events before this number, or all of them: it was decided that they are not
    /// delivered.
    pub fn forget_before(&mut self, first: Option<Seq>) {
        match first {
            Some(first) => self.undelivered = self.undelivered.split_off(&first),
            None => self.undelivered.clear(),
        }
    }

    /// Returns the events that are not delivered yet.
    pub fn undelivered(&self) -> Vec<DeliveredEvent> {
        let events = self.undelivered.iter();
        events
            .map(|(seq, event)| DeliveredEvent {
                seq: *seq,
                event: event.clone(),
            })
            .collect()
    }

    /// Returns the tasks that wait for input, as they were when that was recorded.
    pub fn waiting(&self) -> Vec<(Task, Prompt)> {
        let inputs = self.waiting.values().filter_map(|event| {
            let EventKind::Input { prompt } = &event.kind else {
                return None;
            };
            Some((event.task.clone(), prompt.clone()))
        });
        inputs.collect()
    }

    /// Returns the number of the first event that is not delivered yet.
    pub fn first_undelivered(&self) -> Option<Seq> {
        self.undelivered.keys().next().copied()
    }

    /// Returns its form in the saved snapshot, for a feed whose last record ends before the byte
    /// `end` of the file that begins with the record `segment`.
    pub fn to_saved(&self, segment: Seq, end: u64) -> SavedFeed {
        SavedFeed {
            segment,
            end,
            undelivered: self.undelivered(),
            waiting: self.waiting.values().cloned().collect(),
            restarting: self.restarting(),
        }
    }

    /// Returns the state from a saved snapshot.
    pub fn from_saved(saved: &SavedFeed) -> Self {
        let of_window = |event: &Event| event.task.window;
        let waiting = saved.waiting.iter().cloned();
        let undelivered = saved.undelivered.iter().cloned();
        let restarting = saved.restarting.iter().cloned();
        Self {
            undelivered: undelivered.map(|one| (one.seq, one.event)).into_map(),
            waiting: waiting.map(|event| (of_window(&event), event)).into_map(),
            restarting: restarting
                .map(|end| (of_window(&end.event), end))
                .into_map(),
        }
    }
}
