//! What a daemon that comes back must know, read from the feed.

use std::collections::BTreeMap;
use std::path::Path;

use super::FeedError;
use super::read::{Line, each_whole};
use crate::model::{DeliveredEvent, Event, EventKind, Prompt, Seq, Task, WindowId};
use crate::route::{Reach, reach};
use crate::wire::{Checkpoint, DurableRecord, RecordBody};

/// What the feed tells of the past.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The feed's epoch; `None` when it has no record.
    pub epoch: Option<String>,
    /// The number of the last record, whether it can be read or not.
    pub last_seq: Seq,
    /// The byte behind the last whole write; what follows was torn by a crash.
    pub end: u64,
    /// Events that no delivery speaks of yet.
    pub owed: Vec<DeliveredEvent>,
    /// Tasks told as waiting and not told as answered, as they were then.
    pub waiting: Vec<(Task, Prompt)>,
    /// The looks recorded after the number that was asked for.
    pub since: Vec<RecordedLook>,
}

/// The events of one look, as one write recorded them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecordedLook {
    /// In the order in which they were told.
    pub events: Vec<Event>,
    /// Where the daemon stood; `None` in feeds of version 0.1.0.
    pub checkpoint: Option<Checkpoint>,
}

/// Reads the feed; [`Recovered::since`] has the looks recorded after the number `since`.
///
/// # Errors
///
/// When the file cannot be read. A file that is not there is an empty feed.
pub fn recover(path: &Path, since: Seq) -> Result<Recovered, FeedError> {
    let mut past = Past {
        since,
        ..Past::default()
    };
    let mut recovered = Recovered::default();
    let end = each_whole(path, |line| match line {
        Line::Record(record) => {
            let seq = record.seq;
            recovered.epoch = Some(record.epoch.clone());
            if let Err(error) = past.read(*record) {
                tracing::warn!(seq, error, "a record reads badly");
            }
        }
        // It has its number all the same, and is not to be cut off.
        Line::Unknown(record) => recovered.epoch = Some(record.frame.epoch),
        Line::Damaged => {}
    })?;
    recovered.last_seq = end.last_seq;
    recovered.end = end.at;
    recovered.owed = past
        .owed
        .into_iter()
        .map(|(seq, event)| DeliveredEvent { seq, event })
        .collect();
    recovered.waiting = past.waiting.into_values().collect();
    recovered.since = past.looks;
    Ok(recovered)
}

/// What the records read so far leave to be known.
#[derive(Default)]
struct Past {
    /// The number after which events are kept.
    since: Seq,
    owed: BTreeMap<Seq, Event>,
    waiting: BTreeMap<WindowId, (Task, Prompt)>,
    looks: Vec<RecordedLook>,
    /// The look whose write is being read.
    look: RecordedLook,
}

impl Past {
    fn read(&mut self, record: DurableRecord) -> Result<(), String> {
        let seq = record.seq;
        let is_last_of_write = record.more == 0;
        if seq > self.since && record.checkpoint.is_some() {
            self.look.checkpoint.clone_from(&record.checkpoint);
        }
        match record.body {
            RecordBody::Event(fields) => self.remember(seq, fields.to_event()?),
            RecordBody::Notice { events, .. } | RecordBody::FollowUp { events, .. } => {
                self.owed.retain(|seq, _| !events.contains(seq));
            }
        }
        if is_last_of_write && self.look != RecordedLook::default() {
            self.looks.push(std::mem::take(&mut self.look));
        }
        Ok(())
    }

    fn remember(&mut self, seq: Seq, event: Event) {
        let window = event.task.window;
        match &event.kind {
            EventKind::Input { prompt } => {
                self.waiting
                    .insert(window, (event.task.clone(), prompt.clone()));
            }
            EventKind::InputResolved { .. } => {
                self.waiting.remove(&window);
                // Answered before anybody was told of it.
                self.owed.retain(|_, event| {
                    !(matches!(event.kind, EventKind::Input { .. }) && event.task.window == window)
                });
            }
            EventKind::Started { .. }
            | EventKind::Exited { .. }
            | EventKind::Notify { .. }
            | EventKind::Disappeared { .. } => {}
        }
        if reach(&event) > Reach::FeedOnly {
            self.owed.insert(seq, event.clone());
        }
        if seq > self.since {
            self.look.events.push(event);
        }
    }
}
