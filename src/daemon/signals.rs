//! Signals that stop the daemon, and since when it has been of no use.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// Handled so that a write beyond the file size limit fails like on a full disk.
    _file_size: Signal,
}

impl Signals {
    /// From here on the program handles these signals.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Resolves at the next signal. Cancel safe: a signal that has arrived is kept.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// How long it stays without a session and without a reader.
const LEAVES_AFTER: Duration = Duration::from_secs(600);

/// Since when the daemon has been of no use.
#[derive(Debug, Default)]
pub(super) struct Disuse {
    since: Option<Instant>,
}

impl Disuse {
    /// Notes whether it is of use now. Returns whether it has not been for long.
    pub(super) fn note(&mut self, is_used: bool, now: Instant) -> bool {
        if is_used {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= LEAVES_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_was_used_meanwhile_stays() {
        let start = Instant::now();
        let mut disuse = Disuse::default();
        let mut check = |secs: u64, is_used, leaves| {
            let now = start + Duration::from_secs(secs);
            assert_eq!(disuse.note(is_used, now), leaves, "after {secs} s");
        };
        check(0, false, false);
        check(599, false, false);
        check(599, true, false);
        check(610, false, false);
        check(1209, false, false);
        check(1210, false, true);
    }
}
