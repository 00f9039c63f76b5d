//! The fields in every line of the feed.

use serde::de::{Deserialize, Deserializer, Error};

use crate::model::Seq;

/// The fields of every durable record, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Frame {
    /// Its sequence number.
    #[serde(deserialize_with = "sequence_number")]
    pub seq: Seq,
    /// The epoch of its feed.
    pub epoch: String,
    /// How many records of the same write follow.
    #[serde(default)]
    pub more: u32,
}

/// The greatest sequence number: the greatest integer that every JSON reader knows exactly. No feed
/// gets there, so a greater number is damage.
const LAST: Seq = (1 << 53) - 1;

/// Whether a record can have this number.
pub(super) fn is_sequence_number(seq: Seq) -> bool {
    (1..=LAST).contains(&seq)
}

fn sequence_number<'de, D: Deserializer<'de>>(value: D) -> Result<Seq, D::Error> {
    let seq = Seq::deserialize(value)?;
    if is_sequence_number(seq) {
        Ok(seq)
    } else {
        Err(D::Error::custom("no record has this number"))
    }
}
