//! Ends the processes of runs: asks them to end, waits for the kernel to report that they have, and
//! kills those that have not after the grace time.
//!
//! The processes of a run are those in the terminal session of its pane and all their descendants. The
//! pane's process, the leader, is ended last where that is possible: at its end the kernel hangs up the
//! terminal, and what still stops would get `SIGHUP` and lose its output.
//!
//! One thread ends all runs. It sleeps in `poll` on descriptors that report the ends of processes. Where the
//! system has none, it looks 20 times a second while runs are being ended.

pub(super) mod members;
#[cfg(any(test, not(linux)))]
#[cfg_attr(linux, allow(dead_code, reason = "there is a better table"))]
mod ps_table;
#[cfg(linux)]
pub(super) mod table;
mod worker;

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::thread;

use tokio::sync::mpsc;

use crate::model::{EndOrder, EndReport};
use worker::Worker;

/// Ends runs.
#[derive(Debug)]
pub(crate) struct RunEnder {
    orders: Sender<EndOrder>,
    /// A byte wakes the thread; it ends when this is closed.
    wake: UnixStream,
    /// At most two for each run.
    reports: mpsc::UnboundedReceiver<EndReport>,
}

impl RunEnder {
    /// Starts the thread, which ends nothing yet.
    pub(crate) fn new() -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (orders, taken) = std::sync::mpsc::channel();
        let (sender, reports) = mpsc::unbounded_channel();
        thread::Builder::new()
            .name("run-ender".to_owned())
            .spawn(move || Worker::run(&taken, woken, sender))?;
        Ok(Self {
            orders,
            wake,
            reports,
        })
    }

    /// Begins to end a run, unless that has begun. A later order with a shorter grace time shortens
    /// it.
    pub(crate) fn end(&mut self, order: EndOrder) {
        // The thread has panicked otherwise, which ends the daemon.
        drop(self.orders.send(order));
        // With a full buffer, enough is on its way.
        if let Err(error) = self.wake.write(&[0])
            && error.kind() != io::ErrorKind::WouldBlock
        {
            tracing::warn!(%error, "could not wake the thread that ends runs");
        }
    }

    /// Returns the next report; pending while there is none. No report is lost when the future is dropped.
    pub(crate) async fn report(&mut self) -> EndReport {
        match self.reports.recv().await {
            Some(report) => report,
            // The thread ends with the daemon.
            None => std::future::pending().await,
        }
    }
}
