//! What a conversation receives.

use super::outbox::FollowUp;
use crate::model::{Level, Seq};

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
    FollowUp(Box<FollowUp>),
    /// A text for the user. Those from before the stream began are left out.
    Notice { level: Level, text: String },
    /// The number of tasks has changed.
    Status {
        /// The status line; `None` when the session is missing.
        text: Option<String>,
        /// How many tasks are alive.
        active: usize,
    },
    /// Everything that was recorded on this machine before the stream began has been received.
    CaughtUp,
    /// This machine has no task and no undelivered message of the conversation any more.
    Forgotten(String),
    /// Another process follows the conversation now.
    Replaced,
    /// The daemon has left, and the follower is allowed to leave too.
    Left,
}

impl Incoming {
    /// Whether nothing follows it.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Replaced | Self::Left)
    }
}
