//! The edge to time: the one place that reads the clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::{Millis, Now};

/// Reads both clocks. The monotonic one is tokio's, so that a paused test steers it.
#[must_use]
pub fn now() -> Now {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Now {
        mono: tokio::time::Instant::now().into_std(),
        wall: Millis::try_from(since_1970.as_millis()).unwrap_or(Millis::MAX),
    }
}
