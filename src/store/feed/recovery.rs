//! Reads from the feed what a starting daemon needs.

use std::io;
use std::path::Path;

use super::FeedError;
use super::find::{Part, Place, find, find_tail, place_at};
use super::floor::closed_firsts;
use super::pending::PendingEvents;
use super::read::FeedLine;
use super::whole_lines::WholeLines;
use crate::model::{Body, Checkpoint, Event, Record, Seq};
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
            (WholeLines::behind(path, place), PendingEvents::default())
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
    Some((WholeLines::behind(path, place), pending))
}

/// Returns the position where the feed ended when it was saved, if a record ends there.
fn saved_place(path: &Path, saved: &SavedFeed) -> io::Result<Option<Place>> {
    let closed = closed_firsts(path)?;
    let part = if closed.contains(&saved.segment) {
        Part::Closed(saved.segment)
    } else {
        Part::Active {
            behind: closed.last().copied().unwrap_or_default(),
        }
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
