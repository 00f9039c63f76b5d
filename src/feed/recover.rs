//! What a daemon that comes back must know, read from the feed.

use std::collections::BTreeMap;
use std::path::Path;

use super::{FeedError, Reader};
use crate::model::{Body, Delivered, Event, EventKind, Prompt, Seq, Task, WindowId};
use crate::route::{Reach, reach};

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
    let mut recovered = Recovered::default();
    let mut owed = BTreeMap::new();
    let mut waiting = BTreeMap::new();
    let mut write = Vec::new();
    let mut reader = Reader::new(path, 0);
    while let Some(position) = reader.next(u64::MAX)? {
        let whole = position.record.more == 0;
        let end = position.end;
        write.push(position.record);
        if !whole {
            continue;
        }
        recovered.end = end;
        for line in write.drain(..) {
            recovered.last_seq = line.seq;
            match line.to_record() {
                Ok(record) => match record.body {
                    Body::Event(event) => {
                        remember(
                            line.seq,
                            *event,
                            since,
                            &mut owed,
                            &mut waiting,
                            &mut recovered,
                        );
                    }
                    Body::Notice { events, .. } => {
                        owed.retain(|seq, _| !events.contains(seq));
                    }
                    Body::FollowUp { events, .. } => {
                        owed.retain(|seq, _| !events.iter().any(|told| told.seq == *seq));
                    }
                },
                Err(error) => tracing::warn!(seq = line.seq, error, "a record reads badly"),
            }
            recovered.epoch = Some(line.epoch);
        }
    }
    recovered.owed = owed
        .into_iter()
        .map(|(seq, event)| Delivered { seq, event })
        .collect();
    recovered.waiting = waiting.into_values().collect();
    Ok(recovered)
}

fn remember(
    seq: Seq,
    event: Event,
    since: Seq,
    owed: &mut BTreeMap<Seq, Event>,
    waiting: &mut BTreeMap<WindowId, (Task, Prompt)>,
    recovered: &mut Recovered,
) {
    match &event.kind {
        EventKind::Input { prompt } => {
            waiting.insert(event.task.window, (event.task.clone(), prompt.clone()));
        }
        EventKind::InputResolved { .. } => {
            waiting.remove(&event.task.window);
        }
        EventKind::Started { .. }
        | EventKind::Exited { .. }
        | EventKind::Notify { .. }
        | EventKind::Disappeared { .. } => {}
    }
    if reach(&event) > Reach::FeedOnly {
        owed.insert(seq, event.clone());
    }
    if seq > since {
        recovered.since.push(event);
    }
}
