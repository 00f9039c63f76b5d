//! Parses lines of the feed, and notes which numbers are missing.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::files;
use crate::model::{Error as AnyError, FEED_VERSION, Kind, Millis, Record, Seq, parse_rfc3339};

/// A parsed line of the feed.
#[derive(Debug)]
pub enum FeedLine {
    /// A record.
    Record(Box<Record>),
    /// A record of an unknown kind or version, with all of its fields. Readers skip it or pass it on.
    Unknown(Frame, serde_json::Value),
    /// An unreadable line that was a record once.
    Damaged,
}

impl FeedLine {
    /// Parses a line, with or without its line end.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let why = match serde_json::from_slice::<Box<Record>>(bytes) {
            Ok(record) if is_sequence_number(record.seq) => return Self::Record(record),
            Ok(record) => format!("no record has the number {}", record.seq),
            Err(error) => match Self::parse_unknown(bytes) {
                Some(unknown) => return unknown,
                None => error.to_string(),
            },
        };
        tracing::warn!(why, "a line of the feed is damaged");
        Self::Damaged
    }

    /// Parses a line of a later version; `None` for others. With a known kind and version it is damaged.
    fn parse_unknown(bytes: &[u8]) -> Option<Self> {
        let fields: serde_json::Value = serde_json::from_slice(bytes).ok()?;
        let kind = Kind::deserialize(fields.get("kind")?);
        let is_later = fields.get("v")?.as_u64()? > u64::from(FEED_VERSION);
        let frame = Frame::deserialize(&fields).ok()?;
        (kind.is_err() || is_later).then_some(Self::Unknown(frame, fields))
    }

    /// Returns its sequence number, if the line can be read.
    pub(crate) fn seq(&self) -> Option<Seq> {
        match self {
            Self::Record(record) => Some(record.seq),
            Self::Unknown(frame, _) => Some(frame.seq),
            Self::Damaged => None,
        }
    }

    pub(crate) fn is_follow_up(&self) -> bool {
        matches!(self, Self::Record(record) if record.body.kind() == Kind::FollowUp)
    }

    /// Returns the common fields, if the line can be read.
    pub fn frame(&self) -> Option<Frame> {
        match self {
            Self::Record(record) => Some(Frame {
                seq: record.seq,
                epoch: record.epoch.clone(),
                more: record.more,
                time: Some(record.time),
            }),
            Self::Unknown(frame, _) => Some(frame.clone()),
            Self::Damaged => None,
        }
    }
}

/// The sequence numbers that were read, which should have no gaps.
#[derive(Debug, Clone, Copy)]
pub struct Sequence {
    last: Seq,
}

impl Sequence {
    /// Returns the sequence that continues after this number.
    pub fn after(last: Seq) -> Self {
        Self { last }
    }

    /// Returns the last number that was read or skipped.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Whether this number was read or skipped.
    pub fn has(&self, seq: Seq) -> bool {
        seq <= self.last
    }

    /// Notes the next number. Returns the first and the last missing one before it.
    pub fn read(&mut self, seq: Seq) -> Option<(Seq, Seq)> {
        let gap = self.end_at(seq.saturating_sub(1));
        self.last = self.last.max(seq);
        gap
    }

    /// Notes that the numbers end with this one. Returns the first and the last missing one.
    pub fn end_at(&mut self, last: Seq) -> Option<(Seq, Seq)> {
        let gap = (self.last < last).then(|| (self.last + 1, last));
        self.last = self.last.max(last);
        gap
    }
}

/// The fields of every durable record, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Frame {
    /// Its sequence number.
    #[serde(deserialize_with = "sequence_number")]
    pub seq: Seq,
    /// The epoch of its feed.
    pub epoch: String,
    /// How many records of the same write follow.
    #[serde(default)]
    pub more: u32,
    /// When it was made; `None` where it does not say so.
    #[serde(default, deserialize_with = "time")]
    pub time: Option<Millis>,
}

/// The greatest number that every JSON reader knows exactly. No feed gets there: a greater one is damage.
const LAST: Seq = (1 << 53) - 1;

fn is_sequence_number(seq: Seq) -> bool {
    (1..=LAST).contains(&seq)
}

fn sequence_number<'de, D: Deserializer<'de>>(value: D) -> Result<Seq, D::Error> {
    match Seq::deserialize(value)? {
        seq if is_sequence_number(seq) => Ok(seq),
        _ => Err(D::Error::custom("no record has this number")),
    }
}

fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Millis>, D::Error> {
    Ok(parse_rfc3339(&String::deserialize(value)?))
}

/// Returns what turns an error of the disk into one of doing this with the feed.
pub(super) fn failed(what: &str, feed: &Path) -> impl FnOnce(io::Error) -> AnyError {
    let what = format!("could not {what} the feed {}", feed.display());
    move |error| AnyError::io(what, &error)
}

/// A file of ours that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct DamagedFile {
    what: String,
    path: PathBuf,
    /// The path under which it is kept, without the suffix.
    aside: PathBuf,
    pub(super) why: String,
}

impl DamagedFile {
    /// Returns a saved snapshot that cannot be used.
    pub fn snapshot(path: &Path, why: String) -> Self {
        Self {
            what: format!("the saved snapshot {}", path.display()),
            path: path.to_owned(),
            aside: path.to_owned(),
            why,
        }
    }

    /// Returns a consumer's file that cannot be used. No consumer has a name that begins with a dot.
    pub(super) fn consumer(folder: &Path, name: &str, why: String) -> Self {
        Self {
            what: format!("the file of consumer `{name}`"),
            path: folder.join(name),
            aside: folder.join(format!(".{name}")),
            why,
        }
    }

    /// Keeps the file under another name, `NAME.damaged-1`, so that the next one does not replace it.
    /// What was kept before stays. The log gets this consequence.
    pub fn set_aside(&self, consequence: &str) {
        let damaged = self.to_string();
        match files::put_aside(&self.path, &self.aside, "damaged") {
            Ok(kept) => tracing::error!(damaged, kept = %kept.display(), "{consequence}"),
            Err(error) => tracing::error!(damaged, %error, "{consequence}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_may_be_at_the_last_number_that_there_is() {
        assert_eq!(Sequence::after(Seq::MAX).end_at(38), None);
        assert_eq!(Sequence::after(36).end_at(38), Some((37, 38)));
    }
}
