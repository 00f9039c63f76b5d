//! What a conversation receives, and how far each feed is dealt with, across several streams of it.

use super::outbox::Batch;
use crate::model::{Body, Error, Level, Millis, Record, Seq};

/// What a follower reports.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A stream has begun; what tasks do from here on is received.
    Began {
        /// The machine that the feed is on; `None` for this one.
        host: Option<String>,
        /// The feed that it takes the place of: what was received of that can no longer be
        /// acknowledged.
        replaced: Option<String>,
        /// The feed.
        epoch: String,
        /// What was acknowledged before: records up to this one do not come again.
        cursor: Seq,
        /// The feed's last record.
        last: Seq,
    },
    /// A message for the conversation.
    FollowUp(Box<Batch>),
    /// A text for the user. Those from before the stream began are left out.
    Notice { level: Level, text: String },
    /// The number of tasks has changed.
    Status {
        /// The status line; `None` when the session is missing.
        text: Option<String>,
        /// How many tasks are alive.
        active: usize,
    },
    /// Records that say nothing to the conversation.
    Passed,
    /// Everything that was recorded on this machine before the stream began has been received.
    CaughtUp,
    /// This machine has no task and no undelivered message of the conversation any more.
    Forgotten(String),
    /// Another process follows the conversation now.
    Replaced,
    /// The daemon has left, and the follower is allowed to leave too.
    Left,
}

/// What a conversation receives from the feeds.
pub(super) trait Feeds {
    /// Returns what comes next.
    ///
    /// # Cancel safety
    ///
    /// Nothing may be lost when the future is dropped.
    async fn next(&mut self) -> Result<Incoming, Error>;

    /// Acknowledges what need not come again. `first_open` returns the first record of the feed with
    /// this epoch that has no receipt.
    async fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>);

    /// Whether tasks on other machines are followed.
    fn has_hosts(&self) -> bool;

    /// Sets whether the end of the daemon is the end of the feeds, too.
    fn leave_with_daemon(&mut self, leaves: bool);
}

/// What is received when a stream begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StreamStart {
    /// The feed's last record when the stream began: records up to it are earlier ones.
    pub(super) last_before: Seq,
    /// Set for a consumer that did not exist before: earlier follow-ups of others are left out, and
    /// own ones that are older than this.
    pub(super) own_since: Option<Millis>,
    /// Whether earlier follow-ups for everybody are left out.
    pub(super) skips_everybody: bool,
}

/// A feed, as a conversation reads it.
#[derive(Debug, Default)]
pub(super) struct FeedReading {
    /// The machine that the feed is on; `None` for this one.
    host: Option<String>,
    epoch: String,
    start: StreamStart,
    /// The last record that was received, on any stream of this epoch.
    last: Seq,
    /// The first and the last record that the present stream has sent and that were not acknowledged
    /// on it.
    unacknowledged: Option<(Seq, Seq)>,
}

impl FeedReading {
    /// Returns the reading of a feed of another machine.
    pub(super) fn of_host(host: &str) -> Self {
        Self {
            host: Some(host.to_owned()),
            ..Self::default()
        }
    }

    /// Begins a stream of the feed with this epoch. Nothing is known of another feed. A feed of another
    /// machine may have two streams at once.
    pub(super) fn begin(&mut self, epoch: &str, start: StreamStart) {
        if self.epoch != epoch {
            epoch.clone_into(&mut self.epoch);
            self.last = 0;
            self.unacknowledged = None;
        } else if self.host.is_none() {
            self.unacknowledged = None;
        }
        self.start = start;
    }

    /// Notes a record that was sent, or a gap by its last number. Returns `false` when an earlier stream
    /// had it already.
    pub(super) fn pass(&mut self, seq: Seq) -> bool {
        let (first, last) = self.unacknowledged.unwrap_or((seq, seq));
        self.unacknowledged = Some((first.min(seq), last.max(seq)));
        let is_new = seq > self.last;
        self.last = self.last.max(seq);
        is_new
    }

    /// Takes the record up to which everything was dealt with and is to be acknowledged now, if there is
    /// one. `first_open` is the first record that still waits for its receipt. An acknowledgement that is
    /// lost is made again for the records that come again.
    pub(super) fn acknowledgement(&mut self, first_open: Option<Seq>) -> Option<Seq> {
        let (first, last) = self.unacknowledged?;
        let up_to = first_open.map_or(last, |open| last.min(open.saturating_sub(1)));
        if up_to < first {
            return None;
        }
        self.unacknowledged = (up_to < last).then_some((up_to + 1, last));
        Some(up_to)
    }

    /// Returns what a record reports, if anything.
    pub(super) fn receive(&mut self, record: Record) -> Option<Incoming> {
        if !self.pass(record.seq) {
            return None;
        }
        let StreamStart {
            last_before,
            own_since,
            skips_everybody,
        } = self.start;
        let is_earlier = record.seq <= last_before;
        let time = record.time;
        match record.body {
            Body::FollowUp {
                owner,
                message,
                options,
                ..
            } => {
                let is_own = owner.is_some();
                let is_wanted = !is_earlier
                    || (own_since.is_none_or(|since| is_own && time >= since)
                        && (is_own || !skips_everybody));
                let follow_up = Batch {
                    epoch: record.epoch,
                    seqs: vec![record.seq],
                    time,
                    is_new: !is_earlier,
                    host: self.host.clone(),
                    message,
                    options,
                };
                is_wanted.then(|| Incoming::FollowUp(Box::new(follow_up)))
            }
            Body::Notice { level, text, .. } => {
                (!is_earlier).then_some(Incoming::Notice { level, text })
            }
            Body::Event(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_acknowledged_before_what_is_open() {
        let mut reading = FeedReading::default();
        reading.begin("e", StreamStart::default());
        assert_eq!(reading.acknowledgement(None), None);
        for seq in [3, 5, 9] {
            assert!(reading.pass(seq));
        }
        assert_eq!(reading.acknowledgement(Some(3)), None);
        assert_eq!(reading.acknowledgement(Some(9)), Some(8));
        assert_eq!(reading.acknowledgement(Some(9)), None);
        assert_eq!(reading.acknowledgement(None), Some(9));
        assert_eq!(reading.acknowledgement(None), None);
    }

    #[test]
    fn a_stream_that_begins_again_repeats_nothing() {
        let mut reading = FeedReading::default();
        reading.begin("e", StreamStart::default());
        assert!(reading.pass(3) && reading.pass(5));
        assert_eq!(reading.acknowledgement(Some(5)), Some(4));
        // It was lost with the stream, and is made again for what comes again.
        reading.begin("e", StreamStart::default());
        assert_eq!(reading.acknowledgement(Some(5)), None);
        assert!(!reading.pass(3));
        assert_eq!(reading.acknowledgement(Some(5)), Some(3));
        assert!(!reading.pass(5));
        assert_eq!(reading.acknowledgement(None), Some(5));
        // Another way to the same feed.
        assert!(!reading.pass(5));
        assert_eq!(reading.acknowledgement(None), Some(5));
        // Another feed counts from 1 again.
        reading.begin("f", StreamStart::default());
        assert!(reading.pass(1));
        assert_eq!(reading.acknowledgement(Some(1)), None);
    }
}
