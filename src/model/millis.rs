//! Durations as programs exchange them: whole milliseconds. One that may be missing is never null.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::whole_millis;

/// The longest one that is read, a year: times that are further away cannot be calculated with.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub(super) fn serialize<S, T>(duration: &T, to: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    T: Copy + Into<Option<Duration>>,
{
    (*duration).into().map(whole_millis).serialize(to)
}

pub(super) fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<Duration>,
{
    let millis = Duration::from_millis(u64::deserialize(from)?);
    Ok(millis.min(LONGEST).into())
}
