//! Looks at the ports of runs that are waited for. The kernel does not report that a process begins to
//! listen, so while somebody waits, it is asked: soon after every look, and else less and less often.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::effect::PortQuery;
use super::input::{JobOutcome, RequestId};
use super::log_entry::WRONG_OUTCOME;
use super::machine::Session;
use super::queue_items::Command;
use crate::model::Now;
use crate::wire::RefusalKind;

/// The first pause between two looks, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// How many times as long as a look the pause after it is at least: with many processes, a look takes
/// longer.
const PAUSE_PER_LOOK: u32 = 20;

/// When ports are looked at.
#[derive(Debug, Default)]
pub(super) struct PortLooks {
    /// When the next look is due; `None` while one is queued or runs.
    due: Option<Instant>,
    is_under_way: bool,
    /// The pause after the next look.
    pause: Duration,
    /// When a look is allowed again.
    earliest: Option<Instant>,
}

impl PortLooks {
    /// Looks at once: somebody begins to wait.
    pub(super) fn begin(&mut self, now: Instant) {
        self.pause = FIRST_PAUSE;
        self.due = Some(now);
    }

    /// Looks as soon as that is allowed: something has changed.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.pause = FIRST_PAUSE;
        let at = self.earliest.map_or(now, |earliest| earliest.max(now));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Notes that a look is over and took so long.
    fn looked(&mut self, took: Duration, now: Instant) {
        let least = (took * PAUSE_PER_LOOK).max(FIRST_PAUSE);
        self.earliest = Some(now + least);
        // Something may have changed meanwhile.
        self.due = Some(now + least.max(self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.is_under_way = false;
    }
}

impl Session {
    /// Returns when ports are looked at next, if somebody waits for one.
    pub(super) fn next_port_look(&self) -> Option<Instant> {
        let is_wanted = self.listeners.waits_for_ports().next().is_some();
        let due = self.port_looks.due?;
        (is_wanted && !self.port_looks.is_under_way).then_some(due)
    }

    /// Orders a look at the ports that are waited for, if it is due.
    pub(super) fn look_at_ports(&mut self, now: Now) {
        if self.next_port_look().is_none_or(|due| due > now.mono) {
            return;
        }
        let mut queries: Vec<PortQuery> = Vec::new();
        for (_, wait, port) in self.listeners.waits_for_ports() {
            let (window, run) = (wait.window(), wait.entry().run);
            let task = self.task(window).filter(|task| task.run == run);
            let Some(leader) = task.and_then(|task| task.pid) else {
                continue;
            };
            let query = PortQuery {
                window,
                run,
                leader,
                port,
            };
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        self.port_looks.is_under_way = true;
        self.jobs.push_command(Command::FindPorts(queries));
    }

    /// Processes what a look at ports has found.
    pub(super) fn ports_found(
        &mut self,
        queries: &[PortQuery],
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        let found = match outcome {
            Ok(JobOutcome::Ports(ports, took)) => Ok((ports, took)),
            Ok(_) => Err(WRONG_OUTCOME.to_owned()),
            Err(error) => Err(error),
        };
        match found {
            Ok((ports, took)) => {
                self.port_looks.looked(took, now.mono);
                let runs: BTreeMap<_, _> = queries
                    .iter()
                    .map(|query| ((query.window, query.run), query.leader))
                    .collect();
                let ended = self.listeners.listens(&runs, &ports);
                self.finish(ended, now);
            }
            Err(error) => {
                self.port_looks.looked(Duration::ZERO, now.mono);
                let waits = self.listeners.waits_for_ports();
                let waits: Vec<RequestId> = waits.map(|(request_id, ..)| request_id).collect();
                for request_id in waits {
                    self.listeners.leave(request_id);
                    let message = format!("cannot wait for a port: {error}");
                    self.refuse(request_id, RefusalKind::Failed, message);
                }
            }
        }
    }
}
