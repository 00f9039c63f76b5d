//! What stands in every line of the feed.

use serde::Deserialize;

use crate::model::Seq;

/// What every durable record has, whatever it says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Frame {
    /// Its number.
    pub seq: Seq,
    /// Its feed.
    pub epoch: String,
    /// How many records of the same write follow.
    #[serde(default)]
    pub more: u32,
}
