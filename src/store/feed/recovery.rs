//! Reads from the feed what a starting daemon needs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::{Part, Place, find, find_tail, place_at};
use super::read::FeedLine;
use super::reader::WholeLines;
use super::segments::closed_firsts;
use crate::files;
use crate::model::{
    Body, Checkpoint, DeliveredEvent, Event, EventKind, FEED_VERSION, Ordered as _, Prompt, Record,
    Seq, Snapshot, Task, WindowId,
};
use crate::route::{Reach, reach};
use crate::wire::{SavedFeed, SavedSession};

/// The state at the end of the feed.
#[derive(Debug, Default)]
pub struct FeedState {
    /// The feed's epoch; `None` when it has no record.
    pub epoch: Option<String>,
    /// The sequence number of the last record, whether it can be read or not.
    pub last_seq: Seq,
    /// The offset behind the last complete write in the file where records are appended. What follows
    /// is a partial write left by a crash.
    pub end: u64,
    /// Events without a delivery, and tasks that wait for input or for a restart.
    pub pending: PendingEvents,
}

/// The events of one look, recorded by one write.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecordedLook {
    /// In the order in which they were recorded.
    pub events: Vec<Event>,
    /// The daemon's checkpoint; `None` in feeds of version 0.1.0.
    pub checkpoint: Option<Checkpoint>,
}

/// How much of the feed is read if the saved snapshot does not say where to begin, in bytes. What is
/// not delivered yet is in the last records: more than [`super::Journal::is_full`] allows never waits.
const TAIL: u64 = 8 << 20;

/// Reads the feed, from the last record that `saved` includes if that record is still at its
/// position. Otherwise it reads what was recorded after that, and at least the last 8 MiB; without
/// `saved`, all of it. Passes on the looks recorded after that record, in order.
///
/// # Errors
///
/// When the feed cannot be read. A missing one is empty.
pub fn recover(
    path: &Path,
    saved: Option<&SavedSession>,
    each_look: impl FnMut(RecordedLook),
) -> Result<FeedState, FeedError> {
    let (mut lines, pending) = match (saved, saved.and_then(|saved| resume(path, saved))) {
        (_, Some(resumed)) => resumed,
        (Some(saved), None) => {
            let place = start(path, saved).map_err(FeedError::reading(path))?;
            (WholeLines::behind(path, place)?, PendingEvents::default())
        }
        (None, None) => (WholeLines::new(path)?, PendingEvents::default()),
    };
    let mut past = Past {
        since: saved.map_or(0, |saved| saved.last_seq),
        pending,
        look: RecordedLook::default(),
        each_look,
    };
    let mut epoch = lines.epoch().map(ToOwned::to_owned);
    while let Some(line) = lines.next_line()? {
        match line {
            FeedLine::Record(record) => {
                epoch = Some(record.epoch.clone());
                past.read(*record);
            }
            // It has used its number, and must not be cut off.
            FeedLine::Unknown(record) => epoch = Some(record.frame.epoch),
            FeedLine::Damaged => {}
        }
    }
    let end = lines.end();
    Ok(FeedState {
        epoch,
        last_seq: end.last_seq,
        end: end.at,
        pending: past.pending,
    })
}

/// Returns the lines behind the last record that `saved` includes, and what was pending there;
/// `None` when the file has another record or none at that position, or `saved` has no position.
fn resume(path: &Path, saved: &SavedSession) -> Option<(WholeLines, PendingEvents)> {
    let feed = saved.feed.as_ref()?;
    let place = match saved_place(path, feed) {
        Ok(place) => place,
        Err(error) => {
            tracing::warn!(%error, "could not read the feed where the snapshot was saved");
            None
        }
    };
    let expected = place.filter(|place| {
        let frame = place.frame.as_ref();
        frame.is_some_and(|frame| {
            frame.seq == saved.last_seq && frame.epoch == saved.epoch && frame.more == 0
        })
    });
    let Some(place) = expected else {
        tracing::warn!(
            seq = saved.last_seq,
            "the feed has changed since the snapshot was saved: reading its last part"
        );
        return None;
    };
    let pending = PendingEvents::from_saved(feed);
    let lines = WholeLines::behind(path, place).ok()?;
    Some((lines, pending))
}

/// Returns the position where the feed ended when it was saved, if a record ends there.
fn saved_place(path: &Path, saved: &SavedFeed) -> io::Result<Option<Place>> {
    let closed = closed_firsts(path)?;
    let part = if closed.contains(&saved.segment) {
        Part::Closed(saved.segment)
    } else {
        Part::Active
    };
    place_at(path, part, saved.end)
}

/// Returns where to begin without a saved position.
fn start(path: &Path, saved: &SavedSession) -> io::Result<Place> {
    let tail = find_tail(path, TAIL)?;
    let behind_saved = find(path, saved.last_seq)?;
    let is_earlier = behind_saved.order() < tail.order();
    Ok(if is_earlier { behind_saved } else { tail })
}

/// The result of the records read so far.
struct Past<F> {
    /// The number after which looks are passed on.
    since: Seq,
    pending: PendingEvents,
    /// The look whose write is being read.
    look: RecordedLook,
    each_look: F,
}

impl<F: FnMut(RecordedLook)> Past<F> {
    fn read(&mut self, record: Record) {
        self.pending.apply(&record);
        if record.seq > self.since {
            if record.checkpoint.is_some() {
                self.look.checkpoint = record.checkpoint;
            }
            if let Body::Event(event) = record.body {
                self.look.events.push(*event);
            }
        }
        if record.more == 0 && self.look != RecordedLook::default() {
            (self.each_look)(std::mem::take(&mut self.look));
        }
    }
}

/// A saved snapshot that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the saved snapshot {} cannot be read: {why}", .path.display())]
pub struct DamagedSnapshot {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl DamagedSnapshot {
    /// Keeps the file under another name, so that the next one does not replace it. What was
    /// kept before stays.
    ///
    /// # Errors
    ///
    /// When it cannot be renamed.
    pub fn set_aside(&self) -> io::Result<PathBuf> {
        files::put_aside(&self.path, "damaged")
    }
}

/// Returns the state saved by the last daemon; `None` when there is none.
///
/// # Errors
///
/// When the file cannot be read, or is of another version.
pub fn load_saved(path: &Path) -> Result<Option<SavedSession>, DamagedSnapshot> {
    let damaged = |why: String| DamagedSnapshot {
        path: path.to_owned(),
        why,
    };
    let read = files::if_there(files::read(path)).map_err(|error| damaged(error.to_string()))?;
    let Some(bytes) = read else { return Ok(None) };
    // The version first: a later one may have other fields.
    let version: FileVersion =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if version.v != FEED_VERSION {
        return Err(damaged(format!("it has version {}", version.v)));
    }
    let saved: SavedSession =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    saved.check_numbers().map_err(damaged)?;
    Ok(Some(saved))
}

/// What every version of the file has.
#[derive(serde::Deserialize)]
struct FileVersion {
    v: u32,
}

/// Writes the saved snapshot to the disk, before records are removed that it makes unnecessary.
///
/// # Errors
///
/// When the disk refuses. A missing one is fine: the next daemon then reads all records.
pub(crate) fn sync_saved(path: &Path) -> io::Result<()> {
    let saved = files::if_there(files::open(path))?;
    saved.map_or(Ok(()), |file| file.sync_data())
}

/// Replaces the saved snapshot in one step. It is not synced: a power cut also ends the tmux server
/// that it describes.
///
/// # Errors
///
/// When it cannot be written; the old one stays.
pub(crate) fn store_saved(path: &Path, saved: &SavedSession) -> io::Result<()> {
    // One write: with the file itself, the serializer would make a system call for every token.
    let bytes = files::json_line(saved)?;
    let fresh = path.with_extension("json.new");
    files::replace(path, &fresh, &bytes)
}

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
