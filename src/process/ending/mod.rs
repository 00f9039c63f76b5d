//! Ends the processes of runs: asks them to end, waits for the kernel to report that they have, and
//! kills those that have not after the grace time.
//!
//! The processes of a run are those in the terminal session of its pane and all their descendants. The
//! pane's process, the leader, is ended last where that is possible: at its end the kernel hangs up the
//! terminal, and what still stops would get `SIGHUP` and lose its output.
//!
//! One thread ends all runs. It exists only while there is something to end, and sleeps in `poll` on
//! descriptors that report the ends of processes. Where the system has none, it looks 20 times a second.

pub(super) mod members;
#[cfg(any(test, not(linux)))]
#[cfg_attr(linux, allow(dead_code, reason = "there is a better table"))]
mod ps_table;
#[cfg(linux)]
pub(super) mod table;
mod worker;

use tokio::sync::mpsc;

use crate::model::{EndOrder, EndReport, LeftProcess};

/// Ends runs.
#[derive(Debug)]
pub(crate) struct RunEnder {
    worker: Option<worker::Handle>,
    sender: mpsc::UnboundedSender<EndReport>,
    /// At most two for each run.
    reports: mpsc::UnboundedReceiver<EndReport>,
}

impl RunEnder {
    /// Returns one that ends nothing yet.
    pub(crate) fn new() -> Self {
        let (sender, reports) = mpsc::unbounded_channel();
        Self {
            worker: None,
            sender,
            reports,
        }
    }

    /// Begins to end a run, unless that has begun. A later order with a shorter grace time shortens
    /// it.
    pub(crate) fn end(&mut self, order: EndOrder) {
        let order = match &self.worker {
            Some(worker) => match worker.send(order) {
                Ok(()) => return,
                // It had nothing to end any more.
                Err(order) => order,
            },
            None => order,
        };
        let (window, leader) = (order.window, order.leader);
        match worker::Handle::start(order, self.sender.clone()) {
            Ok(worker) => self.worker = Some(worker),
            Err(error) => {
                tracing::error!(%error, %window, "could not begin to end a run");
                let left = LeftProcess {
                    pid: leader,
                    name: "its process".to_owned(),
                    is_anothers: false,
                };
                // The receiver is ours.
                drop(self.sender.send(EndReport::Ended(window, vec![left])));
            }
        }
    }

    /// Returns the next report; pending while there is none.
    ///
    /// # Cancel safety
    ///
    /// No report is lost when the future is dropped.
    pub(crate) async fn report(&mut self) -> EndReport {
        match self.reports.recv().await {
            Some(report) => report,
            // It has a sender itself.
            None => std::future::pending().await,
        }
    }
}
