//! Finds out where windows and panes went that a look does not have.

use std::collections::{BTreeMap, BTreeSet};

use super::SessionLink;
use crate::model::{GoneReason, PaneId, WindowId};
use crate::protocol::rows::LookRows;
use crate::session::{Departures, replaced_panes};
use crate::tmux;

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
