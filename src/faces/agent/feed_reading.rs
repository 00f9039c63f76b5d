//! What a conversation has received of one feed, and how far it is dealt with, across several streams.

use super::incoming::Incoming;
use super::outbox::FollowUp;
use super::progress::Progress;
use crate::model::{Millis, Seq};
use crate::wire::{DurableRecord, RecordBody, parse_rfc3339};

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
    progress: Progress,
    /// What is to be acknowledged on the present stream.
    unsent: Option<Seq>,
    start: StreamStart,
    /// The machine that the feed is on; `None` for this one.
    host: Option<String>,
}

impl FeedReading {
    /// Returns the reading of a feed of another machine.
    pub(super) fn of_host(host: &str) -> Self {
        Self {
            host: Some(host.to_owned()),
            ..Self::default()
        }
    }

    /// Begins a stream of the feed with this epoch. Returns whether it is the same feed as before.
    pub(super) fn begin(&mut self, epoch: &str, start: StreamStart) -> bool {
        let is_same = self.progress.begin(epoch);
        if !is_same {
            self.unsent = None;
        }
        self.start = start;
        is_same
    }

    /// Marks these records as dealt with.
    pub(super) fn settle(&mut self, seqs: &[Seq]) {
        for seq in seqs {
            self.progress.settle(*seq);
        }
        self.unsent = self.progress.take_settled().or(self.unsent);
    }

    /// Returns what is to be acknowledged now.
    pub(super) fn unsent(&self) -> Option<Seq> {
        self.unsent
    }

    /// Takes what is to be acknowledged now.
    pub(super) fn take_unsent(&mut self) -> Option<Seq> {
        self.unsent.take()
    }

    /// Returns what a record reports, if anything.
    pub(super) fn receive(&mut self, record: DurableRecord) -> Option<Incoming> {
        if !self.progress.receive(record.seq) {
            self.settle_again(record.seq);
            return None;
        }
        let StreamStart {
            last_before,
            own_since,
            skips_everybody,
        } = self.start;
        let is_earlier = record.seq <= last_before;
        let time = parse_rfc3339(&record.time).unwrap_or_default();
        let incoming = match record.body {
            RecordBody::FollowUp {
                owner,
                message,
                options,
                ..
            } => {
                let is_own = owner.is_some();
                let is_wanted = !is_earlier
                    || (own_since.is_none_or(|since| is_own && time >= since)
                        && (is_own || !skips_everybody));
                let follow_up = FollowUp {
                    epoch: record.epoch,
                    seq: record.seq,
                    time,
                    is_new: !is_earlier,
                    host: self.host.clone(),
                    message,
                    options,
                };
                is_wanted.then(|| Incoming::FollowUp(Box::new(follow_up)))
            }
            RecordBody::Notice { level, text, .. } => {
                (!is_earlier).then_some(Incoming::Notice { level, text })
            }
            RecordBody::Event(_) => None,
        };
        // The others only inform: they need not survive a crash of the client.
        if !matches!(incoming, Some(Incoming::FollowUp(_))) {
            self.settle(&[record.seq]);
        }
        incoming
    }

    /// Settles a record that is of no use, and all of a gap by its last number.
    pub(super) fn pass_over(&mut self, seq: Seq) {
        if self.progress.receive(seq) {
            self.settle(&[seq]);
        } else {
            self.settle_again(seq);
        }
    }

    /// The acknowledgement of a record that comes again was lost.
    fn settle_again(&mut self, seq: Seq) {
        if self.progress.is_settled(seq) {
            self.unsent = self.unsent.max(Some(seq));
        }
    }
}
