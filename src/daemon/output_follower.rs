//! The control client that gets every byte of the followed panes.
//!
//! tmux up to 3.7c crashes when a pane is respawned while a control client has not consumed all of
//! its output. So this client may fall behind only for panes that are followed, and a pane is
//! paused for it as soon as it is not followed any more: a paused pane cannot crash the server.
//!
//! tmux sends a flood more slowly than it is printed, and answers behind it. So nobody waits for an
//! answer that comes through this client. Panes are paused, read and continued for it through the client
//! that is never behind. A pane that it receives already is read in its place in the output, and that
//! reading is reported like output.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::model::{Error, PaneId};
use crate::rules::protocol::Notification;
use crate::rules::terminal::{Extent, PaneOutput};
use crate::session::Change;
use crate::tmux::{self, Client, Connection, ReceivedItem, TmuxError};

/// How many seconds this client may fall behind a followed pane before tmux pauses the pane for it.
const MAX_LAG_SECS: u32 = 10;

/// Output that arrives so many milliseconds late is printed faster than tmux sends it: the delay keeps growing.
const BEHIND_MS: u64 = 1000;

/// How long output that tmux has sent may take to arrive. What comes later is looked for in the pane.
const ARRIVES_WITHIN: Duration = Duration::from_millis(500);

/// A control client and the panes whose output it passes on.
#[derive(Debug)]
pub(super) struct OutputFollower {
    pub(super) client: Client,
    /// What tmux calls the client.
    name: String,
    /// The followed panes, of which every byte is needed.
    followed: BTreeMap<PaneId, FollowedPane>,
    /// All panes that tmux has reported as paused: nothing that they have printed is on its way.
    silent: BTreeSet<PaneId>,
    /// Panes that were read, until the report of that has arrived: what arrives before it is older.
    read: BTreeMap<PaneId, OlderOutput>,
    /// What was asked of tmux for its place in the output, in order: a pane's contents, or nothing, to know that all
    /// earlier output has arrived.
    asked: VecDeque<Option<Extent>>,
    /// Panes that are not followed and have sent output: to be paused.
    unfollowed: BTreeSet<PaneId>,
    /// Whether the client may fall behind.
    may_lag: bool,
}

#[derive(Debug, Default)]
struct FollowedPane {
    /// Whether it is paused, so that output is missing.
    is_paused: bool,
    /// The age of its last output when it arrived, in milliseconds.
    age_ms: u64,
}

/// Output of a pane that is older than its last reading.
#[derive(Debug, Default)]
struct OlderOutput {
    /// How many readings have not been reported.
    n_readings: usize,
    is_dropped: bool,
}

impl OutputFollower {
    pub(super) fn new(client: Client) -> Self {
        Self {
            name: format!("client-{}", client.pid().unwrap_or_default()),
            client,
            followed: BTreeMap::new(),
            silent: BTreeSet::new(),
            read: BTreeMap::new(),
            asked: VecDeque::new(),
            unfollowed: BTreeSet::new(),
            may_lag: false,
        }
    }

    /// Resolves when a followed pane has printed or was paused. Nothing is lost when the future is dropped.
    pub(super) async fn changed(&mut self) -> Result<Change, TmuxError> {
        loop {
            let received = self.client.next_received().await?;
            if let Some(change) = self.on_received(received) {
                return Ok(change);
            }
        }
    }

    /// Whether all output of a pane arrives, so that [`OutputFollower::ask`] reads it.
    pub(super) fn receives(&self, pane: PaneId) -> bool {
        let followed = self.followed.get(&pane);
        followed.is_some_and(|followed| !followed.is_paused)
    }

    /// Reads a pane that is received already: the result is a change, in its place among the others.
    pub(super) fn ask(&mut self, pane: PaneId, extent: Extent) {
        tmux::ask_output(&mut self.client, pane, extent);
        self.asked.push_back(Some(extent));
    }

    /// Reads a pane through the other client and follows it: what it prints after the reading arrives as
    /// changes. A long history is read in slices, unless the pane changes too much meanwhile. After the
    /// end of its run, the output of a pane that is followed already is in the changes before, which are added
    /// to `before`; if output is missing, a pause is among them.
    pub(super) async fn read(
        &mut self,
        main: &mut Client,
        pane: PaneId,
        extent: Extent,
        is_over: bool,
        before: &mut Vec<Change>,
    ) -> Result<PaneOutput, TmuxError> {
        if !std::mem::replace(&mut self.may_lag, true) {
            main.set_max_lag(&self.name, MAX_LAG_SECS);
        }
        let followed = self.followed.insert(pane, FollowedPane::default());
        let was_followed = followed.is_some();
        self.unfollowed.remove(&pane);
        let is_dropped = !was_followed && !self.silent.contains(&pane);
        let mut connection = Connection::Attached(main);
        let reading = tmux::follow_output(&mut connection, &self.name, pane, extent).await;
        if reading.is_err() {
            self.read.remove(&pane);
        }
        let (output, n_readings) = reading?;
        let older = self.read.entry(pane).or_default();
        older.n_readings += n_readings;
        // What it has printed since an earlier reading is older, too.
        older.is_dropped |= is_dropped || n_readings > 1;
        let is_dropped = older.is_dropped;
        // What other panes have printed can hold up the report of a reading longer than what this one prints
        // after it: after a moment, that is taken for newer.
        if is_dropped || is_over && was_followed {
            let has_arrived = |follower: &Self| !follower.read.contains_key(&pane);
            before.extend(self.arrived(has_arrived).await?);
        }
        if was_followed {
            before.push(Change::Paused(pane));
        }
        if let Some(older) = self.read.get_mut(&pane) {
            older.is_dropped = is_over;
        }
        Ok(output)
    }

    /// Follows exactly these panes from here on. All others that have sent output are paused.
    pub(super) fn follow_only(&mut self, main: &mut Client, panes: &BTreeSet<PaneId>) {
        let followed = &mut self.followed;
        let dropped = followed.extract_if(.., |pane, _| !panes.contains(pane));
        let mut unfollowed = std::mem::take(&mut self.unfollowed);
        unfollowed.extend(dropped.map(|(pane, _)| pane));
        if unfollowed.is_empty() {
            return;
        }
        main.pause_panes(unfollowed, Some(&self.name));
        if self.followed.is_empty() && std::mem::take(&mut self.may_lag) {
            main.set_max_lag(&self.name, 0);
        }
    }

    /// Receives the output that tmux has for us by now, unless it is late.
    pub(super) async fn drain(&mut self) -> Result<Vec<Change>, TmuxError> {
        if self.is_behind() {
            return Ok(Vec::new());
        }
        self.client.ask(&[]);
        self.asked.push_back(None);
        self.arrived(|follower| follower.asked.is_empty()).await
    }

    /// Receives changes until something has arrived, unless that is late.
    async fn arrived(
        &mut self,
        has_arrived: impl Fn(&Self) -> bool,
    ) -> Result<Vec<Change>, TmuxError> {
        // tmux can keep it back until something is written to the client.
        self.client.flush();
        let until = Instant::now() + ARRIVES_WITHIN;
        let mut changes = Vec::new();
        while !has_arrived(self) && !self.is_behind() {
            match timeout_at(until, self.client.next_received()).await {
                Ok(received) => changes.extend(self.on_received(received?)),
                Err(_) => break,
            }
        }
        Ok(changes)
    }

    fn is_behind(&self) -> bool {
        let mut followed = self.followed.values();
        followed.any(|followed| followed.age_ms >= BEHIND_MS)
    }

    fn on_received(&mut self, received: ReceivedItem) -> Option<Change> {
        match received {
            ReceivedItem::Notification(notification) => self.on_notification(notification),
            ReceivedItem::Answer(frames) => {
                let extent = self.asked.pop_front()??;
                let read = tmux::read_asked(frames, extent).map(Box::new);
                let read = read.map_err(|error| Error::failed(error.to_string()));
                Some(Change::Read(read))
            }
        }
    }

    fn on_notification(&mut self, notification: Notification) -> Option<Change> {
        if let Notification::Pause(pane) = notification {
            self.silent.insert(pane);
            if let Some(older) = self.read.get_mut(&pane) {
                older.is_dropped = true;
                return None;
            }
            let followed = self.followed.get_mut(&pane)?;
            let was_paused = std::mem::replace(&mut followed.is_paused, true);
            return (!was_paused).then_some(Change::Paused(pane));
        }
        if let Notification::Continue(pane) = notification {
            self.silent.remove(&pane);
            let older = self.read.get_mut(&pane)?;
            older.n_readings -= 1;
            if older.n_readings == 0 {
                self.read.remove(&pane);
            }
            return None;
        }
        // The other client reports windows and sessions.
        let Notification::Output {
            pane,
            bytes,
            age_ms,
        } = notification
        else {
            return None;
        };
        if self.read.get(&pane).is_some_and(|older| older.is_dropped) {
            return None;
        }
        if let Some(followed) = self.followed.get_mut(&pane) {
            followed.age_ms = age_ms;
            return Some(Change::Printed { pane, bytes });
        }
        self.unfollowed.insert(pane).then_some(Change::Unfollowed)
    }
}
