//! The control client that gets every byte of the followed panes.
//!
//! tmux up to 3.7c crashes when a pane is respawned while a control client has not consumed all of
//! its output. So this client may fall behind only for panes that are followed, and a pane is
//! paused for it as soon as it is not followed any more: a paused pane cannot crash the server.

use crate::terminal::PaneOutput;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::PaneId;
use crate::protocol::Notification;
use crate::session::Change;
use crate::tmux::{
    self, Client, Connection, History, MAX_SLICED_READINGS, PaneEnd, ReceivedItem, TmuxError,
    Traffic, UnsentOutput,
};

/// How far this client may fall behind a followed pane, in seconds, before tmux pauses the pane for
/// it.
const MAX_LAG_SECS: u32 = 10;

/// If output arrives this late, in milliseconds, the pane prints faster than tmux sends, and the
/// delay keeps growing.
const BEHIND_MS: u64 = 1000;

/// A control client and the panes whose output it passes on.
#[derive(Debug)]
pub(super) struct OutputFollower {
    client: Client,
    /// The followed panes, of which every byte is needed.
    followed: BTreeSet<PaneId>,
    /// Panes that are not followed and have sent output: to be paused.
    unfollowed: BTreeSet<PaneId>,
    /// The age of the last output of each followed pane when it arrived, in milliseconds.
    age: BTreeMap<PaneId, u64>,
    /// Whether the client may fall behind.
    may_lag: bool,
}

/// The end of a pane's output in its place among the changes.
#[derive(Debug)]
struct ReadEnd {
    end: PaneEnd,
    /// Changes that arrived until then.
    before: Vec<Change>,
    /// Changes that have arrived since.
    after: Vec<Change>,
}

impl ReadEnd {
    /// Returns it as a reading: all that was wanted.
    fn into_reading(self) -> PaneReading {
        PaneReading {
            output: self.end.output,
            before: self.before,
            after: self.after,
        }
    }
}

impl OutputFollower {
    /// Takes over a client that receives output.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            followed: BTreeSet::new(),
            unfollowed: BTreeSet::new(),
            age: BTreeMap::new(),
            may_lag: false,
        }
    }

    /// Resolves when a followed pane has printed or was paused.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn changed(&mut self) -> Result<Change, TmuxError> {
        loop {
            let notification = self.client.next_notification().await?;
            if let Some(change) = self.on_notification(notification) {
                return Ok(change);
            }
        }
    }

    /// Processes what has arrived by now, without waiting.
    pub(super) async fn take_changes(&mut self) -> Vec<Change> {
        self.client.catch_up().await;
        let received = self.client.take_received();
        self.on_received(received)
    }

    /// Reads a pane and follows it: what it prints after the reading arrives as changes. `PaneReading`
    /// has the changes before and after the reading. A long history is read in slices, unless the
    /// pane changes too much meanwhile.
    pub(super) async fn read(
        &mut self,
        pane: PaneId,
        history: History,
        is_over: bool,
    ) -> Result<PaneReading, TmuxError> {
        if history != History::Whole {
            return Ok(self.read_once(pane, history, is_over).await?.into_reading());
        }
        let mut earlier = Vec::new();
        for _ in 0..MAX_SLICED_READINGS {
            let read = self.read_once(pane, PaneEnd::HISTORY, is_over).await?;
            let ReadEnd {
                end,
                before,
                mut after,
            } = read;
            earlier.extend(before);
            let mut connection = Connection::Attached(&mut self.client);
            let complete = tmux::complete(&mut connection, pane, end, history).await?;
            let received = self.client.take_received();
            after.extend(self.on_received(received));
            if let Some(output) = complete {
                return Ok(PaneReading {
                    output,
                    before: earlier,
                    after,
                });
            }
            // It is followed already: all that it has printed by now comes before the next reading.
            earlier.extend(after);
        }
        let whole = self.read_once(pane, history, is_over).await?;
        earlier.extend(whole.before);
        Ok(PaneReading {
            output: whole.end.output,
            before: earlier,
            after: whole.after,
        })
    }

    /// Reads a pane by one line and follows it.
    async fn read_once(
        &mut self,
        pane: PaneId,
        history: History,
        is_over: bool,
    ) -> Result<ReadEnd, TmuxError> {
        let is_followed = self.followed.contains(&pane);
        // Output that arrives too late, and ever later, would delay everything else until it has
        // arrived. After the end of a run tmux sends no more of it.
        let is_late = is_over || self.is_behind(pane);
        let pending = if is_followed && !is_late {
            UnsentOutput::Kept
        } else {
            UnsentOutput::Dropped
        };
        if !self.may_lag {
            self.may_lag = true;
            self.client.set_max_lag(MAX_LAG_SECS).await?;
        }
        // Before the reading: output right behind its answer belongs to what follows.
        self.followed.insert(pane);
        self.unfollowed.remove(&pane);
        let end = tmux::follow_output(&mut self.client, pane, history, pending).await?;
        let mut received: Vec<ReceivedItem> = self.client.take_received().into();
        if pending == UnsentOutput::Dropped {
            // The reading itself pauses and continues the pane. (tmux 3.8 reports that; earlier
            // versions write it inside the answer.)
            let own = ReceivedItem::Notification(Notification::Pause(pane));
            received.retain(|received| *received != own);
        }
        // The last answer is that of the reading.
        let at = received
            .iter()
            .rposition(|received| *received == ReceivedItem::Answer)
            .unwrap_or(0);
        let after = received.split_off(at);
        let mut before = self.on_received(received);
        if is_followed && pending == UnsentOutput::Dropped {
            before.push(Change::Paused(pane));
        }
        self.age.remove(&pane);
        let after = self.on_received(after);
        Ok(ReadEnd { end, before, after })
    }

    /// Follows exactly these panes from here on. All others that have sent output are paused.
    pub(super) async fn follow_only(&mut self, panes: BTreeSet<PaneId>) -> Result<(), TmuxError> {
        let dropped: Vec<PaneId> = self.followed.difference(&panes).copied().collect();
        if dropped.is_empty() && self.unfollowed.is_empty() {
            return Ok(());
        }
        let unfollowed = std::mem::take(&mut self.unfollowed);
        self.followed.retain(|pane| panes.contains(pane));
        let followed = &self.followed;
        self.age.retain(|pane, _| followed.contains(pane));
        self.client
            .pause_panes(dropped.into_iter().chain(unfollowed))
            .await?;
        if self.followed.is_empty() && self.may_lag {
            self.may_lag = false;
            self.client.set_max_lag(0).await?;
        }
        Ok(())
    }

    /// Waits until all output that tmux has for us by now has arrived, unless it is late.
    pub(super) async fn drain(&mut self) -> Result<(), TmuxError> {
        if self.age.keys().any(|pane| self.is_behind(*pane)) {
            return Ok(());
        }
        self.client.sync().await
    }

    /// Returns the client's pid.
    pub(super) fn pid(&self) -> Option<u32> {
        self.client.pid()
    }

    /// Returns what was exchanged with it since the last call.
    pub(super) fn take_traffic(&mut self) -> Traffic {
        self.client.take_traffic()
    }

    /// Detaches.
    pub(super) async fn close(self) {
        self.client.close().await;
    }

    fn is_behind(&self, pane: PaneId) -> bool {
        self.age.get(&pane).is_some_and(|age| *age >= BEHIND_MS)
    }

    fn on_received(&mut self, received: impl IntoIterator<Item = ReceivedItem>) -> Vec<Change> {
        let notifications = received.into_iter().filter_map(|received| match received {
            ReceivedItem::Notification(notification) => Some(notification),
            ReceivedItem::Answer => None,
        });
        notifications
            .filter_map(|notification| self.on_notification(notification))
            .collect()
    }

    fn on_notification(&mut self, notification: Notification) -> Option<Change> {
        let (pane, bytes, age_ms) = match notification {
            Notification::Output { pane, bytes } => (pane, bytes, 0),
            Notification::ExtendedOutput {
                pane,
                bytes,
                age_ms,
            } => (pane, bytes, age_ms),
            Notification::Pause(pane) => {
                return self
                    .followed
                    .contains(&pane)
                    .then_some(Change::Paused(pane));
            }
            // The other client reports windows and sessions.
            Notification::WindowAdd(_)
            | Notification::WindowClose(_)
            | Notification::UnlinkedWindowAdd(_)
            | Notification::WindowRenamed(_)
            | Notification::UnlinkedWindowRenamed(_)
            | Notification::LayoutChange(_)
            | Notification::SessionChanged(_)
            | Notification::SessionRenamed(_)
            | Notification::SessionsChanged
            | Notification::Continue(_)
            | Notification::Exit(_)
            | Notification::Message(_)
            | Notification::Other(_) => return None,
        };
        if self.followed.contains(&pane) {
            self.age.insert(pane, age_ms);
            return Some(Change::Printed { pane, bytes });
        }
        self.unfollowed.insert(pane).then_some(Change::Unfollowed)
    }
}

/// A pane's output at one instant.
#[derive(Debug)]
pub(super) struct PaneReading {
    pub(super) output: PaneOutput,
    /// Changes that arrived until then. If the pane's output is incomplete, they include a pause.
    pub(super) before: Vec<Change>,
    /// Changes that have arrived since.
    pub(super) after: Vec<Change>,
}
