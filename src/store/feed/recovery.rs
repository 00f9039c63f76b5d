//! Reads from the feed what a starting daemon needs.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::read::{DamagedFile, FeedLine, Frame, failed};
use super::reader::{Reader, end_of_files, find};
use super::segments::FeedEnd;
use crate::files;
use crate::model::*;
use crate::rules::restarts::restart_of;
use crate::rules::route::{Reach, reach};
use crate::rules::wire::SnapshotLine;

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
/// otherwise all of it. Passes on the looks recorded after that record, in order. A missing feed is empty.
pub fn recover(
    path: &Path,
    saved: Option<&SavedSession>,
    mut each_look: impl FnMut(RecordedLook),
) -> Result<FeedState, Error> {
    let (epoch, end) = end_of_files(path)?;
    let resumed = saved.map_or(Ok(None), |saved| resume(path, saved, &end))?;
    let (mut reader, mut pending) = match resumed {
        Some(resumed) => resumed,
        None => (Reader::before(path, 0, &end)?, PendingEvents::default()),
    };
    let since = saved.map_or(0, |saved| saved.last_seq);
    // The look whose write is being read.
    let mut look = RecordedLook::default();
    while let Some(line) = reader.next(&end)? {
        let FeedLine::Record(record) = line else {
            continue;
        };
        let record = *record;
        pending.apply(&record);
        if record.seq > since {
            if record.checkpoint.is_some() {
                look.checkpoint = record.checkpoint;
            }
            if let Body::Event(event) = record.body {
                look.events.push(*event);
            }
        }
        if record.more == 0 && look != RecordedLook::default() {
            each_look(std::mem::take(&mut look));
        }
    }
    Ok(FeedState {
        epoch,
        last_seq: end.last_seq,
        end: end.at,
        pending,
    })
}

/// Returns a reader behind the last record of `saved`, and what was pending there, if both are known.
fn resume(
    path: &Path,
    saved: &SavedSession,
    end: &FeedEnd,
) -> Result<Option<(Reader, PendingEvents)>, Error> {
    let Some(feed) = &saved.feed else {
        return Ok(None);
    };
    let (reader, last) = find(path, saved.last_seq, end).map_err(failed("read", path))?;
    let is_last = |frame: &Frame| {
        let is_same = frame.seq == saved.last_seq && frame.epoch == saved.epoch;
        is_same && feed.time.is_none_or(|time| frame.time == Some(time))
    };
    if last.as_ref().is_some_and(is_last) {
        return Ok(Some((reader, feed.clone())));
    }
    tracing::warn!(
        seq = saved.last_seq,
        "the feed has changed since the snapshot was saved: reading all of it"
    );
    Ok(None)
}

/// The last look, and the last record that it includes: later ones are applied at the next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedSession {
    /// The version of this file: 1.
    pub v: u32,
    /// The epoch of the feed that the sequence number below belongs to.
    pub epoch: String,
    /// The sequence number of the last record whose change is in the snapshot.
    pub last_seq: Seq,
    /// The life of the session.
    pub life: Option<SessionLife>,
    /// How much of tmux's data had been processed by then.
    #[serde(flatten)]
    pub bookmark: Bookmark,
    /// The last look.
    pub snapshot: SnapshotLine,
    /// What the feed says up to `lastSeq`, so that the next daemon reads only what follows. Absent
    /// while the feed has no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<PendingEvents>,
}

impl SavedSession {
    /// Returns the state to save for this look.
    pub fn new(snapshot: &Snapshot, bookmark: &Bookmark, epoch: &str, last_seq: Seq) -> Self {
        Self {
            v: FEED_VERSION,
            epoch: epoch.to_owned(),
            last_seq,
            life: snapshot.life.clone(),
            bookmark: bookmark.clone(),
            snapshot: SnapshotLine::from(snapshot),
            feed: None,
        }
    }

    /// Checks that the sequence numbers are some that this feed can have had.
    pub fn check_numbers(&self) -> Result<(), String> {
        let feed = self.feed.iter();
        let events = feed.flat_map(|feed| feed.undelivered.iter().chain(&feed.restarting));
        let last = self.last_seq;
        let mut numbers = events.map(|event| event.seq);
        match numbers.find(|number| !(1..=last).contains(number)) {
            Some(number) => Err(format!(
                "it has an event {number}, and its last record is {last}"
            )),
            None => Ok(()),
        }
    }

    /// Returns the look that was saved; an error names what cannot be read.
    pub fn to_snapshot(&self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot.to_snapshot()?;
        snapshot.life.clone_from(&self.life);
        Ok(snapshot)
    }
}

/// Returns the state saved by the last daemon; `None` when there is none.
pub fn load_saved(path: &Path) -> Result<Option<SavedSession>, DamagedFile> {
    let loaded = files::load_json::<SavedSession>(path, FEED_VERSION).and_then(|saved| {
        saved.as_ref().map_or(Ok(()), SavedSession::check_numbers)?;
        Ok(saved)
    });
    loaded.map_err(|why| DamagedFile::snapshot(path, why))
}

/// Syncs the saved snapshot, before records are removed that it makes unnecessary.
pub(crate) fn sync_saved(path: &Path) -> io::Result<()> {
    let saved = files::if_there(files::open(path))?;
    saved.map_or(Ok(()), |file| file.sync_data())
}

/// Replaces the saved snapshot. It is not synced: a power cut also ends the tmux server that it describes.
pub(crate) fn store_saved(path: &Path, saved: &SavedSession) -> io::Result<()> {
    // One write: with the file itself, the serializer would make a system call for every token.
    let bytes = files::json_line(saved)?;
    files::replace(path, &path.with_extension("json.new"), &bytes)
}

/// Everything that the records up to one of them leave open. The daemon updates it as it appends, saves
/// it with its snapshot, and updates it by later records when it starts again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingEvents {
    /// When that record was made, by which it is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Millis>,
    /// Events that are not delivered yet: no notice and no follow-up contains them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undelivered: Vec<DeliveredEvent>,
    /// The `input` events of tasks that still wait for input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Event>,
    /// The `exited` events of tasks that are about to be restarted: they were not delivered as failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarting: Vec<DeliveredEvent>,
}

impl PendingEvents {
    /// Processes the next record.
    pub fn apply(&mut self, record: &Record) {
        self.time = Some(record.time);
        match &record.body {
            Body::Event(event) => self.event(record.seq, event),
            Body::Notice { events, .. } => self.deliver(events),
            Body::FollowUp {
                events, message, ..
            } => {
                self.deliver(events);
                let delivered = || events.iter().zip(&message.details.events);
                // After an end that is reported without a restart, none follows.
                let is_final = |end: &DeliveredEvent, (seq, event): (&Seq, &Event)| {
                    end.seq == *seq && event.task.settings.restarts.is_none()
                };
                let restarting = &mut self.restarting;
                restarting.retain(|end| !delivered().any(|one| is_final(end, one)));
            }
        }
    }

    fn event(&mut self, seq: Seq, event: &Event) {
        let window = event.task.window;
        let Self {
            undelivered,
            waiting,
            restarting,
            ..
        } = self;
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
                let is_end = matches!(event.kind, EventKind::Exited { replaced: None });
                if is_end && restart_of(&event.task).is_some() {
                    restarting.push(delivered());
                }
            }
            EventKind::Notify { .. } | EventKind::Output(_) => {}
        }
        if reach(event) > Reach::FeedOnly {
            undelivered.push(delivered());
        }
    }

    fn deliver(&mut self, events: &[Seq]) {
        self.undelivered
            .retain(|event| !events.contains(&event.seq));
    }

    /// Drops what the last look shows to be settled: announced restarts, and events that are not `undelivered`. It
    /// was decided that those are not delivered.
    pub fn forget_settled(&mut self, look: &Snapshot, undelivered: &BTreeSet<Seq>) {
        self.restarting.retain(|end| {
            let ended = &end.event.task;
            let task = look.tasks.get(&ended.window);
            task.is_some_and(|task| {
                let is_announced =
                    task.settings.restarts.is_some() || undelivered.contains(&end.seq);
                !task.is_alive() && task.run == ended.run && is_announced
            })
        });
        self.undelivered
            .retain(|event| undelivered.contains(&event.seq));
    }

    /// Returns the tasks that wait for input, as they were when that was recorded.
    pub fn waiting(&self) -> Vec<(Task, Prompt)> {
        let inputs = self.waiting.iter().filter_map(|event| {
            let EventKind::Input { prompt } = &event.kind else {
                return None;
            };
            Some((event.task.clone(), prompt.clone()))
        });
        inputs.collect()
    }

    /// Whether there are events that are not delivered yet.
    pub fn has_undelivered(&self) -> bool {
        !self.undelivered.is_empty()
    }
}
