//! Waits for ports: which runs are asked for, and what was found.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::effect::PortQuery;
use super::input::JobOutcome;
use super::listeners::RequestId;
use super::log_entry::WRONG_OUTCOME;
use super::machine::Session;
use super::queue_items::Command;
use crate::model::{Error, Now};

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
            let (window, run) = (wait.window(), wait.entry.run);
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
                    self.refuse(request_id, Error::failed(message));
                }
            }
        }
    }
}
