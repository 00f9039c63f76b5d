//! Finds out where windows, panes and the server went that a look does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::SessionLink;
use crate::model::{GoneReason, PaneId, SessionLife, WindowId};
use crate::process::Process;
use crate::protocol::rows::LookRows;
use crate::session::{Departures, replaced_panes};
use crate::tmux::{self, Probe, TmuxError};

impl SessionLink {
    /// Returns the panes of runs that are not their window's primary one in this look, and still exist.
    pub(super) async fn moved_panes(&mut self, look: Option<&LookRows>) -> BTreeSet<PaneId> {
        let rows = look.into_iter().flat_map(|look| &look.windows);
        let panes = rows.filter_map(|row| Some((row.window, row.pane.as_ref()?.pane)));
        let replaced = replaced_panes(&self.run_panes, panes);
        if replaced.is_empty() {
            return replaced;
        }
        match tmux::existing_panes(&mut self.connection(), &replaced).await {
            Ok(existing) => existing,
            Err(error) => {
                tracing::warn!(%error, "could not ask where panes went");
                replaced
            }
        }
    }

    /// Returns why windows are gone, where we or tmux know.
    pub(super) async fn gone(
        &mut self,
        look: Option<&LookRows>,
        killed: &BTreeMap<WindowId, GoneReason>,
        ended: &BTreeSet<u32>,
    ) -> BTreeMap<WindowId, GoneReason> {
        let rows = look.into_iter().flat_map(|look| &look.windows);
        let present = rows.map(|row| row.window).collect();
        let Departures {
            killed: mut reasons,
            unexplained,
        } = Departures::new(&self.watched_windows, &present, killed, ended);
        if !unexplained.is_empty() && self.server_listens() {
            match tmux::where_is(&mut self.connection(), &unexplained).await {
                Ok(found) => {
                    reasons.extend(found.into_keys().map(|window| (window, GoneReason::Moved)));
                }
                Err(error) => tracing::debug!(%error, "could not ask where windows went"),
            }
        }
        reasons
    }
}

/// How long a server may take to end after it has closed its socket.
const EXIT_TIME: Duration = Duration::from_millis(500);

impl SessionLink {
    /// Decides what it means that nothing listens on the server's socket: the server and the
    /// session are gone, unless the server runs and only its socket is missing.
    pub(super) async fn without_server(&mut self) -> Result<Option<LookRows>, TmuxError> {
        // A server that ends closes its socket a little earlier. Nothing reports its end to a process
        // that is not its parent and holds no handle of it.
        let deadline = Instant::now() + EXIT_TIME;
        while self.server_runs() && !self.is_unreachable {
            if Instant::now() >= deadline {
                self.is_unreachable = true;
                break;
            }
            tokio::time::sleep(EXIT_TIME / 100).await;
        }
        match &self.life {
            Some(life) if self.is_unreachable && self.server_runs() => {
                Err(TmuxError::Unreachable {
                    socket: self.server.socket().to_owned(),
                    pid: life.server_pid,
                })
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Whether the server of the last look still runs. A server can take for ever to end, but the
    /// tasks in it do not.
    fn server_runs(&self) -> bool {
        let runs = |pid: &u32| Process::open(*pid).is_some_and(|process| process.is_running());
        let mut tasks = self
            .watched_windows
            .iter()
            .filter_map(|(_, pid)| pid.as_ref())
            .peekable();
        self.server_process
            .as_ref()
            .is_some_and(Process::is_running)
            && (tasks.peek().is_none() || tasks.any(runs))
    }

    /// Whether a server may have its socket, checked without starting a process. Only if the kernel
    /// reports that nothing listens, the server is gone.
    pub(super) fn server_listens(&self) -> bool {
        self.server.probe() != Probe::Absent
    }

    /// Notes the life of the session in a look.
    pub(super) fn follow_life(&mut self, life: &SessionLife) {
        self.is_unreachable = false;
        if self.life.as_ref() != Some(life) || self.server_process.is_none() {
            self.server_process = Process::open(life.server_pid);
            self.life = Some(life.clone());
        }
    }
}
