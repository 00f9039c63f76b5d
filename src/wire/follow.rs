//! What the machine of a conversation and a machine that runs its tasks say to each other: one object
//! a line. The conversation follows all sessions there that it has started tasks in.

use serde::{Deserialize, Serialize};

use crate::model::{Millis, Record, Seq};

/// What the machine of the conversation says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub enum FollowOrder {
    /// This record of the feed, and all before it, were received.
    Ack {
        /// The feed's epoch.
        epoch: String,
        /// The sequence number.
        seq: Seq,
    },
    /// Forget the conversation, unless it has tasks or undelivered messages: it launches nothing until
    /// the answer.
    Forget,
}

/// What the machine that runs the tasks says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum FollowReply {
    /// The stream of a session's follow-ups has begun, for the first time or again.
    Began {
        /// Identifies the session on its machine.
        feed: String,
        /// The feed's epoch.
        epoch: String,
        /// The last acknowledged record.
        cursor: Seq,
        /// The feed's last record.
        last_seq: Seq,
        /// Set if nothing was noted for the conversation: what is older was not for it.
        own_since: Option<Millis>,
    },
    /// A follow-up.
    Record {
        /// The session.
        feed: String,
        /// The record.
        record: Box<Record>,
    },
    /// The records up to this one are missing.
    Gap {
        /// The session.
        feed: String,
        /// The last of them.
        to: Seq,
    },
    /// Everything up to this record is acknowledged, on the disk.
    Acked {
        /// The session.
        feed: String,
        /// The sequence number.
        seq: Seq,
    },
    /// Another process follows the session for the conversation.
    Replaced {
        /// The session.
        feed: String,
    },
    /// The conversation has no task here, and no undelivered message.
    Idle,
    /// The answer to [`FollowOrder::Forget`].
    Forgotten {
        /// Whether the conversation was forgotten.
        done: bool,
    },
}
