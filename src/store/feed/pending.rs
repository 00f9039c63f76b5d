//! What the records of a feed leave open: events without a delivery, and tasks that wait for input or
//! for a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{
    Body, DeliveredEvent, Event, EventKind, Millis, Prompt, Record, Seq, Snapshot, Task, WindowId,
};
use crate::route::{Reach, reach, speaks_of};
use crate::wire::{EventFields, FollowUps, SavedEvent, SavedFeed};

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
    /// The follow-ups, for what is undelivered.
    follow_ups: Arc<FollowUps>,
}

impl PendingEvents {
    /// Processes the next record.
    pub fn apply(&mut self, record: &Record) {
        match &record.body {
            Body::Event(event) => self.event(record.seq, event),
            Body::Notice { events, .. } => self.deliver(events),
            Body::FollowUp {
                events,
                owner,
                content,
                ..
            } => {
                let windows = events.iter().map(|one| one.event.task.window.to_string());
                let windows = windows.filter(|window| speaks_of(content, window));
                self.follow_up(record.seq, record.time, owner.as_deref(), windows);
                for DeliveredEvent { seq, event } in events {
                    let seqs = std::slice::from_ref(seq);
                    self.deliver(seqs);
                    if event.task.restarts.is_none() {
                        self.deliver_as_failures(seqs);
                    }
                }
            }
        }
    }

    /// Processes a follow-up about tasks in these windows.
    pub(super) fn follow_up(
        &mut self,
        seq: Seq,
        time: Millis,
        owner: Option<&str>,
        windows: impl Iterator<Item = String>,
    ) {
        Arc::make_mut(&mut self.follow_ups).add(seq, time, owner, windows);
    }

    /// Returns the follow-ups.
    pub fn follow_ups(&self) -> &Arc<FollowUps> {
        &self.follow_ups
    }

    /// Processes an event.
    pub(super) fn event(&mut self, seq: Seq, event: &Event) {
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
    pub(super) fn deliver(&mut self, events: &[Seq]) {
        for seq in events {
            self.undelivered.remove(seq);
        }
    }

    /// Processes a message with the ends with these numbers, after which no restart follows.
    pub(super) fn deliver_as_failures(&mut self, ends: &[Seq]) {
        self.restarting.retain(|_, end| !ends.contains(&end.seq));
    }

    /// Drops the announced restarts that the last look shows to be settled, and the windows of
    /// follow-ups that are gone. `first` is the number of
    /// the first event that is not delivered yet.
    pub fn forget_settled(&mut self, look: &Snapshot, first: Option<Seq>) {
        self.restarting.retain(|window, end| {
            let task = look.tasks.get(window).filter(|task| !task.is_alive());
            task.is_some_and(|task| {
                let is_undelivered = first.is_some_and(|first| first <= end.seq);
                task.run == end.event.task.run && (task.restarts.is_some() || is_undelivered)
            })
        });
        if self.follow_ups.has_gone(look) {
            Arc::make_mut(&mut self.follow_ups).forget_gone(look);
        }
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
        let saved = |seq: Seq, event: &Event| SavedEvent {
            seq,
            event: EventFields::from(event),
        };
        let undelivered = self.undelivered.iter();
        let restarting = self.restarting.values();
        SavedFeed {
            segment,
            end,
            undelivered: undelivered.map(|(seq, event)| saved(*seq, event)).collect(),
            waiting: self.waiting.values().map(EventFields::from).collect(),
            restarting: restarting.map(|end| saved(end.seq, &end.event)).collect(),
            follow_ups: FollowUps::clone(&self.follow_ups),
        }
    }

    /// Returns the state from a saved snapshot.
    ///
    /// # Errors
    ///
    /// When it cannot be read; the error names the field.
    pub fn from_saved(saved: &SavedFeed) -> Result<Self, String> {
        let mut pending = Self {
            follow_ups: Arc::new(saved.follow_ups.clone()),
            ..Self::default()
        };
        for event in &saved.waiting {
            let event = event.to_event()?;
            pending.waiting.insert(event.task.window, event);
        }
        for SavedEvent { seq, event } in &saved.undelivered {
            pending.undelivered.insert(*seq, event.to_event()?);
        }
        for SavedEvent { seq, event } in &saved.restarting {
            let (seq, event) = (*seq, event.to_event()?);
            let window = event.task.window;
            pending
                .restarting
                .insert(window, DeliveredEvent { seq, event });
        }
        Ok(pending)
    }
}
