//! The fields in every line of the feed.

use serde::Deserialize;

use crate::model::Seq;

/// The fields of every durable record, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Frame {
    /// Its sequence number.
    pub seq: Seq,
    /// The epoch of its feed.
    pub epoch: String,
    /// How many records of the same write follow.
    #[serde(default)]
    pub more: u32,
}
