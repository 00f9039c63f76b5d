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

use super::error::OpsError;
use super::fleet::Fleet;
use super::host_follower::HostNews;
use super::lookup;
use crate::clock;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::fleet::{FleetError, Wake, WakeReader};
use crate::model::{Backoff, Millis, Seq};
use crate::paths::{HOSTS, hex, state_root};
use crate::wire::{FollowOrder, FollowReply};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// How long a position is kept that is not moved, in milliseconds: longer than anything is that can be
/// published again.
const KEPT: Millis = 30 * 24 * 3_600_000;

/// How far a conversation is in the feeds of other hosts, and the file that keeps it.
struct Positions {
    folder: PathBuf,
    path: PathBuf,
    /// By epoch, which no other feed has: the sequence number, and when it was noted.
    feeds: BTreeMap<String, (Seq, Millis)>,
}

impl Positions {
    /// A file that cannot be read counts as empty: then a wake may come twice, and none is lost.
    fn of(owner: &str) -> io::Result<Self> {
        let root = state_root(&lookup).map_err(io::Error::other)?;
        let folder = root.join(HOSTS).join("wakes");
        files::make_folder(&folder, OPEN_TO_OTHERS)?;
        let path = folder.join(format!("{}.json", hex(owner.as_bytes(), 32)));
        let found = files::read(&path).unwrap_or_default();
        let feeds = serde_json::from_slice(&found).unwrap_or_default();
        Ok(Self {
            folder,
            path,
            feeds,
        })
    }

    fn of_feed(&self, epoch: &str) -> Seq {
        self.feeds.get(epoch).map_or(0, |(seq, _)| *seq)
    }

    /// Moves a position. It is on the disk when this returns.
    fn note(&mut self, epoch: String, seq: Seq) -> io::Result<()> {
        let now = clock::now().wall;
        self.feeds
            .retain(|_, (_, at)| now.saturating_sub(*at) < KEPT);
        self.feeds.insert(epoch, (seq, now));
        let bytes = serde_json::to_vec(&self.feeds).map_err(io::Error::from)?;
        files::replace_synced(&self.path, &self.path.with_extension("new"), &bytes)?;
        files::sync_folder(&self.folder)
    }
}

/// Follows the conversation's wakes; ends at once where the configuration names no broker.
pub(crate) async fn follow_wakes(
    owner: String,
    mut orders: mpsc::UnboundedReceiver<FollowOrder>,
    reports: mpsc::Sender<(String, HostNews)>,
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
            let reader = WakeReader::begin(&fleet.connection, &owner).await?;
            retry = RETRY;
            let mut stream = WakeStream {
                reader,
                here: fleet.host,
                positions: &mut positions,
                reports: &reports,
            };
            Ok::<_, OpsError>(stream.follow(&mut orders).await?)
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
    /// This machine: its daemons deliver their follow-ups themselves.
    here: String,
    positions: &'a mut Positions,
    reports: &'a mpsc::Sender<(String, HostNews)>,
}

impl WakeStream<'_> {
    async fn follow(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<FollowOrder>,
    ) -> Result<(), FleetError> {
        loop {
            tokio::select! {
                wake = self.reader.next() => self.receive(wake?).await?,
                order = orders.recv() => match order {
                    Some(FollowOrder::Ack { epoch, seq }) => {
                        // Without a note it would come again after the broker has lost it.
                        if let Err(error) = self.positions.note(epoch.clone(), seq) {
                            tracing::warn!(%error, "a position was not written");
                        }
                        self.reader.acknowledge(&epoch, seq).await?;
                    }
                    Some(FollowOrder::Forget) => {}
                    // Nobody follows any more.
                    None => return Ok(()),
                },
            }
        }
    }

    async fn receive(&mut self, wake: Wake) -> Result<(), FleetError> {
        let Wake { host, record } = wake;
        let (epoch, seq) = (record.epoch.clone(), record.seq);
        let cursor = self.positions.of_feed(&epoch);
        if host == self.here || seq <= cursor {
            return self.reader.acknowledge(&epoch, seq).await;
        }
        // Each epoch is a feed of its own: what one has left is delivered also when another has begun.
        let feed = epoch.clone();
        let record = Box::new(record);
        let replies = [
            FollowReply::Began {
                feed: feed.clone(),
                epoch,
                cursor,
                // Whether a process before this one has handed it over is not known.
                last_seq: Seq::MAX,
                own_since: None,
            },
            FollowReply::Record { feed, record },
        ];
        for reply in replies {
            let report = (host.clone(), HostNews::Reply(reply));
            drop(self.reports.send(report).await);
        }
        Ok(())
    }
}
