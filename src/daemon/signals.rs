//! Signals and requests to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// Handled so that a write beyond the file size limit fails like on a full disk, and does not
    /// end the daemon.
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

/// The request to stop. Anyone with a clone can make it; it is never withdrawn.
#[derive(Debug, Clone)]
pub(super) struct StopRequest {
    is_asked: watch::Sender<bool>,
}

impl StopRequest {
    pub(super) fn new() -> Self {
        Self {
            is_asked: watch::Sender::new(false),
        }
    }

    pub(super) fn ask(&self) {
        self.is_asked.send_replace(true);
    }

    /// Resolves once it is made. Cancel safe.
    pub(super) async fn asked(&self) {
        let mut changes = self.is_asked.subscribe();
        if changes.wait_for(|is_asked| *is_asked).await.is_err() {
            // Cannot happen: we have a sender ourselves.
            std::future::pending().await
        }
    }
}
