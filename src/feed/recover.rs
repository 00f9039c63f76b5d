//! What a daemon that comes back must know, read from the feed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{FeedError, Reader};
use crate::model::{Delivered, Event, EventKind, Prompt, Seq, Task, WindowId};
use crate::route::{Reach, reach};
use crate::wire::{DurableRecord, RecordBody};

/// What the feed tells of the past.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The feed's epoch; `None` when it has no record.
    pub epoch: Option<String>,
    /// The number of the last record.
    pub last_seq: Seq,
    /// The byte behind the last whole write; what follows was torn by a crash.
    pub end: u64,
    /// Events that no delivery speaks of yet.
    pub owed: Vec<Delivered>,
    /// Tasks told as waiting and not told as answered, as they were then.
    pub waiting: Vec<(Task, Prompt)>,
    /// The events after the number that was asked for.
    pub since: Vec<Event>,
}

/// Reads the feed; [`Recovered::since`] has the events after the number `since`.
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
    let mut write = Vec::new();
    let mut reader = Reader::new(path, 0);
    while let Some(line) = reader.next_bytes(u64::MAX)? {
        // A record of a later version has its number all the same, and is not to be cut off.
        let frame: Frame = match serde_json::from_slice(&line) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%error, end = reader.at(), "passed over a line of the feed");
                continue;
            }
        };
        let whole = frame.more == 0;
        write.push((frame, line));
        if !whole {
            continue;
        }
        recovered.end = reader.at();
        for (frame, line) in write.drain(..) {
            recovered.last_seq = frame.seq;
            recovered.epoch = Some(frame.epoch);
            if let Err(error) = past.read(frame.seq, &line) {
                tracing::warn!(seq = frame.seq, error, "a record reads badly");
            }
        }
    }
    recovered.owed = past
        .owed
        .into_iter()
        .map(|(seq, event)| Delivered { seq, event })
        .collect();
    recovered.waiting = past.waiting.into_values().collect();
    recovered.since = past.events;
    Ok(recovered)
}

/// What every durable record has, whatever it says.
#[derive(Deserialize)]
struct Frame {
    seq: Seq,
    epoch: String,
    #[serde(default)]
    more: u32,
}

/// What the records read so far leave to be known.
#[derive(Default)]
struct Past {
    /// The number after which events are kept.
    since: Seq,
    owed: BTreeMap<Seq, Event>,
    waiting: BTreeMap<WindowId, (Task, Prompt)>,
    events: Vec<Event>,
}

impl Past {
    fn read(&mut self, seq: Seq, line: &[u8]) -> Result<(), String> {
        let record: DurableRecord =
            serde_json::from_slice(line).map_err(|error| error.to_string())?;
        match record.body {
            RecordBody::Event(fields) => self.remember(seq, fields.to_event()?),
            RecordBody::Notice { events, .. } | RecordBody::FollowUp { events, .. } => {
                self.owed.retain(|seq, _| !events.contains(seq));
            }
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
            self.events.push(event);
        }
    }
}
