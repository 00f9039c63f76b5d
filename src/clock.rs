//! The edge to time: the only module that reads the clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::files::PROC;
use crate::model::{BootTime, Millis, Now};

/// Reads both clocks. The monotonic one is tokio's, so that tests with paused time control it.
pub(crate) fn now() -> Now {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Now {
        mono: tokio::time::Instant::now().into_std(),
        wall: Millis::try_from(since_1970.as_millis()).unwrap_or(Millis::MAX),
    }
}

/// Reads the clock by which ages are counted.
pub(crate) fn boot_time() -> BootTime {
    let boot =
        std::fs::read_to_string(format!("{PROC}/sys/kernel/random/boot_id")).unwrap_or_default();
    BootTime {
        boot: boot.trim_end().to_owned(),
        millis: since_boot(),
    }
}

/// Returns the time since the boot, in milliseconds.
pub(crate) fn since_boot() -> Millis {
    #[cfg(linux)]
    let id = ClockId::Boottime;
    #[cfg(not(linux))]
    let id = ClockId::Monotonic;
    let time = clock_gettime(id);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// Returns how long this thread has been on a processor.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}
