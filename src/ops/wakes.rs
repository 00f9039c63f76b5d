//! Follows a conversation's tasks on the hosts of a fleet: its wakes, by the broker.
//!
//! The broker can send again what was acknowledged: after it has lost what it stored, the hosts publish
//! it again from their feeds. So the conversation's machine notes how far it is in each feed, before it
//! acknowledges.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::fleet::Fleet;
use super::host_follower::{HostNews, Received};
use super::host_notes::FarFeed;
use super::lookup;
use crate::clock;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::fleet::{FleetError, Wake, WakeReader};
use crate::model::{Backoff, Body, Error, Event, Millis, Seq};
use crate::paths::{HOSTS, hex, state_root};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// How long a position is kept that is not moved, in milliseconds: longer than anything is that can be
/// published again.
const KEPT: Millis = 30 * 24 * 3_600_000;

/// How far a conversation is in the feeds of other hosts, and the file that keeps it.
struct Positions {
    folder: PathBuf,
    path: PathBuf,
    /// By the feed's name: the sequence number, when it was noted, and the host; none if it was read by
    /// ssh only.
    feeds: BTreeMap<String, (Seq, Millis, String)>,
    /// The first host that had a feed with an epoch.
    hosts: BTreeMap<String, String>,
}

impl Positions {
    /// A file that cannot be read counts as empty: then a wake may come twice, and none is lost.
    fn of(owner: &str) -> io::Result<Self> {
        let folder = folder().map_err(io::Error::other)?;
        files::make_folder(&folder, OPEN_TO_OTHERS)?;
        let path = folder.join(format!("{}.json", hex(owner.as_bytes(), 32)));
        let found = files::read(&path).unwrap_or_default();
        let feeds: BTreeMap<_, _> = serde_json::from_slice(&found).unwrap_or_default();
        let known = |(name, (_, _, host)): (&String, &(Seq, Millis, String))| {
            (!host.is_empty()).then(|| (name.clone(), host.clone()))
        };
        Ok(Self {
            folder,
            path,
            hosts: feeds.iter().filter_map(known).collect(),
            feeds,
        })
    }

    /// Returns the name of a host's feed: its epoch, by which a feed is recognised that comes by ssh as
    /// well, unless another host has one with this epoch. Copies of a machine have the same epochs, and a
    /// host may say anything.
    fn name(&mut self, host: &str, epoch: &str) -> String {
        let first = self.hosts.entry(epoch.to_owned());
        let is_first = first.or_insert_with(|| host.to_owned()) == host;
        if is_first && !epoch.contains('/') {
            epoch.to_owned()
        } else {
            format!("{host}/{epoch}")
        }
    }

    fn of_feed(&self, name: &str) -> Seq {
        self.feeds.get(name).map_or(0, |(seq, ..)| *seq)
    }

    /// Moves a position. It is on the disk when this returns.
    fn note(&mut self, name: String, seq: Seq) -> io::Result<()> {
        let now = clock::now().wall;
        self.feeds
            .retain(|_, (_, at, _)| now.saturating_sub(*at) < KEPT);
        let host = match name.split_once('/') {
            Some((host, _)) => host.to_owned(),
            None => self.hosts.get(&name).cloned().unwrap_or_default(),
        };
        self.feeds.insert(name, (seq, now, host));
        let bytes = serde_json::to_vec(&self.feeds).map_err(io::Error::from)?;
        files::replace_synced(&self.path, &self.path.with_extension("new"), &bytes)?;
        files::sync_folder(&self.folder)
    }
}

/// Returns the folder of the positions.
fn folder() -> Result<PathBuf, Error> {
    Ok(state_root(&lookup)?.join(HOSTS).join("wakes"))
}

/// Whether a conversation on this machine has followed its wakes.
pub(super) fn are_followed_here() -> bool {
    folder().is_ok_and(|folder| folder.exists())
}

/// Follows the conversation's wakes; ends at once where the configuration names no broker.
pub(crate) async fn follow_wakes(
    owner: String,
    mut received: mpsc::UnboundedReceiver<Received>,
    reports: mpsc::Sender<(FarFeed, HostNews)>,
) {
    let mut retry = RETRY;
    let mut positions = match Positions::of(&owner) {
        Ok(positions) => positions,
        Err(error) => {
            tracing::warn!(%error, "tasks on hosts of the fleet are not followed");
            return;
        }
    };
    while let Ok(true) = Fleet::is_configured() {
        let following = async {
            let fleet = Fleet::connect().await?;
            let reader = WakeReader::begin(&fleet.connection, &owner);
            let reader = fleet.connection.unless_refused(reader).await?;
            retry = RETRY;
            let mut stream = WakeStream {
                reader,
                owner: &owner,
                here: fleet.host,
                positions: &mut positions,
                reports: &reports,
            };
            Ok::<_, Error>(stream.follow(&mut received).await?)
        };
        match following.await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "wakes cannot be read now"),
        }
        sleep(retry.next_pause()).await;
    }
}

/// Wakes on one connection.
struct WakeStream<'a> {
    reader: WakeReader,
    owner: &'a str,
    /// This machine: its daemons deliver their follow-ups themselves.
    here: String,
    positions: &'a mut Positions,
    reports: &'a mpsc::Sender<(FarFeed, HostNews)>,
}

impl WakeStream<'_> {
    async fn follow(
        &mut self,
        received: &mut mpsc::UnboundedReceiver<Received>,
    ) -> Result<(), FleetError> {
        loop {
            let positions = &mut *self.positions;
            tokio::select! {
                wake = self.reader.next(|host, epoch| positions.name(host, epoch)) => {
                    self.receive(wake?).await?;
                }
                order = received.recv() => match order {
                    Some(Received { epoch, seq }) => {
                        // Without a note it would come again after the broker has lost it.
                        if let Err(error) = self.positions.note(epoch.clone(), seq) {
                            tracing::warn!(%error, "a position was not written");
                        }
                        self.reader.acknowledge(&epoch, seq).await?;
                    }
                    // Nobody follows any more.
                    None => return Ok(()),
                },
            }
        }
    }

    async fn receive(&mut self, wake: Wake) -> Result<(), FleetError> {
        let Wake { host, mut record } = wake;
        if let Body::FollowUp { message, .. } = &mut record.body {
            // What the conversation has ended itself, it knows.
            let own = Some(format!("{}@{}", self.owner, self.here));
            let known = |event: &Event| event.task.asked_by == own;
            if message.details.events.iter().all(known) {
                message.details.events.clear();
            }
        }
        let (epoch, seq) = (record.epoch.clone(), record.seq);
        let cursor = self.positions.of_feed(&epoch);
        if host == self.here || seq <= cursor {
            return self.reader.acknowledge(&epoch, seq).await;
        }
        // Each name is a feed of its own: what one has left is delivered also when another has begun.
        let feed = (host, epoch.clone());
        let began = HostNews::Began {
            epoch,
            cursor,
            // Whether a process before this one has handed it over is not known.
            last_seq: Seq::MAX,
        };
        for news in [began, HostNews::Record(Box::new(record))] {
            drop(self.reports.send((feed.clone(), news)).await);
        }
        Ok(())
    }
}
