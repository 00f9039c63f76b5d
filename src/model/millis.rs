//! Durations as programs exchange them: whole milliseconds.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

use super::whole_millis;

/// The longest one that is read, a year: times that are further away cannot be calculated with.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(whole_millis(*duration))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(bounded)
}

fn bounded(millis: u64) -> Duration {
    Duration::from_millis(millis).min(LONGEST)
}

/// The same for what may not be set.
pub(super) mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::super::whole_millis;

    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(whole_millis).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(from)?.map(super::bounded))
    }
}
