//! Reads from the feed what a starting daemon needs.

use std::io;
use std::path::{Path, PathBuf};

use super::FeedError;
use super::find::find;
use super::read::{FeedLine, Frame};
use super::reader::{Reader, end_of_files};
use super::segments::FeedEnd;
use crate::files;
use crate::model::{
    Body, Checkpoint, DeliveredEvent, Event, EventKind, FEED_VERSION, Prompt, Record, Seq,
    Snapshot, Task,
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

/// Reads the feed, behind the last record that `saved` includes if that record is still there, and
/// otherwise all of it. Passes on the looks recorded after that record, in order.
///
/// # Errors
///
/// When the feed cannot be read. A missing one is empty.
pub fn recover(
    path: &Path,
    saved: Option<&SavedSession>,
    each_look: impl FnMut(RecordedLook),
) -> Result<FeedState, FeedError> {
    let (epoch, end) = end_of_files(path)?;
    let resumed = match saved {
        Some(saved) => resume(path, saved, &end)?,
        None => None,
    };
    let (mut reader, pending) = match resumed {
        Some(resumed) => resumed,
        None => (Reader::before(path, 0, &end)?, PendingEvents::default()),
    };
    let mut past = Past {
        since: saved.map_or(0, |saved| saved.last_seq),
        pending,
        look: RecordedLook::default(),
        each_look,
    };
    while let Some(line) = reader.next(&end)? {
        if let FeedLine::Record(record) = line {
            past.read(*record);
        }
    }
    Ok(FeedState {
        epoch,
        last_seq: end.last_seq,
        end: end.at,
        pending: past.pending,
    })
}

/// Returns a reader behind the last record that `saved` includes, and what was pending there; `None`
/// when the feed does not have that record, or `saved` does not say what was pending.
fn resume(
    path: &Path,
    saved: &SavedSession,
    end: &FeedEnd,
) -> Result<Option<(Reader, PendingEvents)>, FeedError> {
    let Some(feed) = &saved.feed else {
        return Ok(None);
    };
    let place = find(path, saved.last_seq, end).map_err(FeedError::reading(path))?;
    let is_last = |frame: &Frame| {
        let is_same = frame.seq == saved.last_seq && frame.epoch == saved.epoch;
        is_same && feed.time.is_none_or(|time| frame.time == Some(time))
    };
    if place.frame.as_ref().is_some_and(is_last) {
        let pending = PendingEvents(feed.clone());
        return Ok(Some((Reader::at(path, &place), pending)));
    }
    tracing::warn!(
        seq = saved.last_seq,
        "the feed has changed since the snapshot was saved: reading all of it"
    );
    Ok(None)
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
    let saved: SavedSession =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if saved.v != FEED_VERSION {
        return Err(damaged(format!("it has version {}", saved.v)));
    }
    saved.check_numbers().map_err(damaged)?;
    Ok(Some(saved))
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
pub struct PendingEvents(SavedFeed);

impl PendingEvents {
    /// Processes the next record.
    pub fn apply(&mut self, record: &Record) {
        self.0.time = Some(record.time);
        match &record.body {
            Body::Event(event) => self.event(record.seq, event),
            Body::Notice { events, .. } => self.deliver(events),
            Body::FollowUp {
                events, message, ..
            } => {
                self.deliver(events);
                let delivered = events.iter().zip(&message.details.events);
                let failures: Vec<Seq> = delivered
                    .filter(|(_, event)| event.task.settings.restarts.is_none())
                    .map(|(seq, _)| *seq)
                    .collect();
                // After these ends no restart follows.
                self.0.restarting.retain(|end| !failures.contains(&end.seq));
            }
        }
    }

    /// Processes an event.
    fn event(&mut self, seq: Seq, event: &Event) {
        let window = event.task.window;
        let SavedFeed {
            undelivered,
            waiting,
            restarting,
            ..
        } = &mut self.0;
        let delivered = || DeliveredEvent {
            seq,
            event: event.clone(),
        };
        match &event.kind {
            EventKind::Input { .. } => {
                waiting.retain(|event| event.task.window != window);
                waiting.push(event.clone());
            }
            EventKind::InputResolved { .. } => {
                waiting.retain(|event| event.task.window != window);
                // Answered before it was delivered.
                undelivered.retain(|DeliveredEvent { event, .. }| {
                    !(matches!(event.kind, EventKind::Input { .. }) && event.task.window == window)
                });
            }
            EventKind::Started { .. }
            | EventKind::Exited { .. }
            | EventKind::Disappeared { .. } => {
                restarting.retain(|end| end.event.task.window != window);
                // A failure that is not a message: a restart follows.
                let is_end = matches!(event.kind, EventKind::Exited { replaced: None });
                if is_end && reach(event) == Reach::Notice {
                    restarting.push(delivered());
                }
            }
            EventKind::Notify { .. } | EventKind::Output(_) => {}
        }
        if reach(event) > Reach::FeedOnly {
            undelivered.push(delivered());
        }
    }

    /// Processes a delivery of the events with these numbers.
    fn deliver(&mut self, events: &[Seq]) {
        self.0
            .undelivered
            .retain(|event| !events.contains(&event.seq));
    }

    /// Drops the announced restarts that the last look shows to be settled. `first` is the number of the
    /// first event that is not delivered yet.
    pub fn forget_settled(&mut self, look: &Snapshot, first: Option<Seq>) {
        self.0.restarting.retain(|end| {
            let ended = &end.event.task;
            let task = look.tasks.get(&ended.window);
            task.is_some_and(|task| {
                let is_undelivered = first.is_some_and(|first| first <= end.seq);
                !task.is_alive()
                    && task.run == ended.run
                    && (task.settings.restarts.is_some() || is_undelivered)
            })
        });
    }

    /// Returns the ends after which a restart was announced that has not happened.
    pub fn restarting(&self) -> &[DeliveredEvent] {
        &self.0.restarting
    }

    /// Drops the events before this number, or all of them: it was decided that they are not
    /// delivered.
    pub fn forget_before(&mut self, first: Option<Seq>) {
        let is_open = |seq| first.is_some_and(|first| seq >= first);
        self.0.undelivered.retain(|event| is_open(event.seq));
    }

    /// Returns the events that are not delivered yet, in their order.
    pub fn undelivered(&self) -> &[DeliveredEvent] {
        &self.0.undelivered
    }

    /// Returns the tasks that wait for input, as they were when that was recorded.
    pub fn waiting(&self) -> Vec<(Task, Prompt)> {
        let inputs = self.0.waiting.iter().filter_map(|event| {
            let EventKind::Input { prompt } = &event.kind else {
                return None;
            };
            Some((event.task.clone(), prompt.clone()))
        });
        inputs.collect()
    }

    /// Returns the number of the first event that is not delivered yet.
    pub fn first_undelivered(&self) -> Option<Seq> {
        Some(self.0.undelivered.first()?.seq)
    }

    /// Returns its form in the saved snapshot.
    pub fn to_saved(&self) -> SavedFeed {
        self.0.clone()
    }
}
