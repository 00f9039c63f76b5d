//! The kernel's information on the processes that tmux has started in the windows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Exit, Millis, Signal};
use crate::observe::Evidence;
use crate::process::{self, ExitWatch, ProcessExit};
use crate::protocol::rows::LookRows;

/// When the processes of the last look began, and which have ended since.
#[derive(Debug)]
pub(super) struct Processes {
    started_at: Arc<BTreeMap<u32, Millis>>,
    /// Reports when they end; `None` where the system cannot.
    ends: Option<ExitWatch>,
    /// Those that have ended and were in the last look, with their exits where known.
    ended: BTreeMap<u32, Option<Exit>>,
}

/// tmux hangs up on the processes of a window that it closes or respawns. Such a process did not
/// end by itself.
fn is_hang_up(exit: &Exit) -> bool {
    exit.signal.is_some() && exit.signal == Signal::parse("HUP")
}

impl Processes {
    pub(super) fn new() -> Self {
        Self {
            started_at: Arc::default(),
            ends: ends(),
            ended: BTreeMap::new(),
        }
    }

    /// Resolves when one has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn ended(&mut self) {
        match &mut self.ends {
            Some(ends) => {
                let ProcessExit { pid, exit } = ends.next().await;
                self.ended.insert(pid, exit);
            }
            None => std::future::pending().await,
        }
    }

    /// Returns those that have ended since the last look: first those that tmux has hung up on,
    /// whose windows are usually closed, then the others, whose panes usually still exist.
    pub(super) fn ended_since(&self) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let ended = self.ended.iter().map(|(pid, exit)| (*pid, exit));
        let (hung_up, in_place): (Vec<_>, Vec<_>) =
            ended.partition(|(_, exit)| exit.as_ref().is_some_and(is_hang_up));
        let pids = |ended: Vec<(u32, _)>| ended.into_iter().map(|(pid, _)| pid).collect();
        (pids(hung_up), pids(in_place))
    }

    /// Collects which processes have ended by now. Returns whether any of them is new.
    pub(super) fn catch_up(&mut self) -> bool {
        let now_ended = self.ends.as_mut().map(ExitWatch::take).unwrap_or_default();
        let is_any_new = !now_ended.is_empty();
        for ProcessExit { pid, exit } in now_ended {
            self.ended.insert(pid, exit);
        }
        is_any_new
    }

    /// Whether one has ended and no look has shown that yet.
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Adds the kernel's reports of ended processes. Returns whether any of them is new.
    pub(super) fn learn_ends(&mut self, evidence: &mut Evidence) -> bool {
        let is_any_new = self.catch_up();
        evidence.ended = self.ended.keys().copied().collect();
        let (hung_up, exits): (BTreeMap<_, _>, _) = self
            .ended
            .iter()
            .filter_map(|(pid, exit)| Some((*pid, exit.clone()?)))
            .partition(|(_, exit)| is_hang_up(exit));
        evidence.hung_up = hung_up.into_keys().collect();
        evidence.exits = exits;
        is_any_new
    }

    /// Watches the processes of live runs, and stops watching others.
    pub(super) fn watch(&mut self, mut pids: Vec<u32>) {
        pids.sort_unstable();
        self.ended.retain(|pid, _| pids.binary_search(pid).is_ok());
        if let Some(ends) = &mut self.ends {
            ends.watch(&pids);
        }
    }

    /// Returns when the processes of this look started. Each is queried once.
    pub(super) fn starts(&mut self, look: &LookRows) -> Arc<BTreeMap<u32, Millis>> {
        let mut pids: Vec<u32> = look.pids().collect();
        pids.sort_unstable();
        pids.dedup();
        let known = &self.started_at;
        if !pids.iter().eq(known.keys()) {
            let known = Arc::make_mut(&mut self.started_at);
            known.retain(|pid, _| pids.binary_search(pid).is_ok());
            pids.retain(|pid| !known.contains_key(pid));
            known.extend(process::starts(pids));
        }
        Arc::clone(&self.started_at)
    }
}

fn ends() -> Option<ExitWatch> {
    match ExitWatch::new() {
        Ok(ends) => Some(ends),
        Err(error) => {
            tracing::warn!(%error, "could not watch processes: only looks find their ends");
            None
        }
    }
}
