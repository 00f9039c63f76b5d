//! Signals that stop the daemon, and since when it has been of no use.

use std::io;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(super) struct Signals {
    /// SIGTERM, SIGINT and SIGHUP.
    stops: [Signal; 3],
    /// Handled so that a write beyond the file size limit fails like on a full disk.
    _file_size: Signal,
}

impl Signals {
    /// From here on the program handles these signals.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            stops: [
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ],
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        })
    }

    /// Resolves at the next signal. Cancel safe: a signal that has arrived is kept.
    pub(super) async fn next(&mut self) {
        let stops = self.stops.iter_mut();
        select_all(stops.map(|stop| Box::pin(stop.recv()))).await;
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
